package supervise

import (
	"slices"
	"sync"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/escher-sched/escher/controlplane/metric"
)

// Metrics shows the components of a process. Its methods may be called concurrently.
type Metrics struct {
	running, restarts *prometheus.Desc

	mu         sync.Mutex
	components []*Component
}

// NewMetrics returns the metrics of no component yet.
func NewMetrics() *Metrics {
	return &Metrics{
		running: metric.Desc("component", "running",
			"1 while a component of the process runs, 0 while it waits to be started again.", "component"),
		restarts: metric.Desc("component", "restarts_total",
			"Restarts of a component that ended by an error or a panic.", "component"),
	}
}

// Add adds a component.
func (m *Metrics) Add(c *Component) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.components = append(m.components, c)
}

// Describe implements prometheus.Collector.
func (m *Metrics) Describe(ch chan<- *prometheus.Desc) { ch <- m.running; ch <- m.restarts }

// Collect implements prometheus.Collector.
func (m *Metrics) Collect(ch chan<- prometheus.Metric) {
	m.mu.Lock()
	components := slices.Clone(m.components)
	m.mu.Unlock()
	for _, c := range components {
		s, running := c.State(), 0.0
		if s.Running {
			running = 1
		}
		ch <- prometheus.MustNewConstMetric(m.running, prometheus.GaugeValue, running, c.Name)
		ch <- prometheus.MustNewConstMetric(m.restarts, prometheus.CounterValue, float64(s.Restarts), c.Name)
	}
}
