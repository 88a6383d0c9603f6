package etcdstore

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/escher-sched/escher/controlplane/metric"
	"github.com/escher-sched/escher/types"
)

// Metrics count what a store asks of etcd. It is a prometheus.Collector; a nil one
// counts nothing.
type Metrics struct {
	set      *metric.Set
	requests *prometheus.CounterVec
	seconds  *prometheus.HistogramVec
	watches  prometheus.Gauge
	ended    *prometheus.CounterVec
}

// NewMetrics makes metrics that have counted nothing.
func NewMetrics() *Metrics {
	set := metric.NewSet("store")
	return &Metrics{
		set:      set,
		requests: set.Counters("requests_total", "Requests to etcd, by what was asked and the class of its error, ok without one.", "method", "code"),
		seconds:  set.Histograms("request_seconds", "Time from a request to its answer.", 0.00025, 2, 16, "method"),
		watches:  set.Gauge("watches", "Watches that are open."),
		ended:    set.Counters("watches_broken_total", "Watches that ended before they were to, by the class of the error; each is begun again.", "code"),
	}
}

// Describe implements prometheus.Collector.
func (m *Metrics) Describe(out chan<- *prometheus.Desc) { m.set.Describe(out) }

// Collect implements prometheus.Collector.
func (m *Metrics) Collect(out chan<- prometheus.Metric) { m.set.Collect(out) }

// answered counts a request that was begun then.
func (m *Metrics) answered(method string, begin time.Time, err error) {
	if m == nil {
		return
	}
	m.requests.WithLabelValues(method, code(err)).Inc()
	m.seconds.WithLabelValues(method).Observe(time.Since(begin).Seconds())
}

// watching counts a watch that begins.
func (m *Metrics) watching() {
	if m != nil {
		m.watches.Inc()
	}
}

// watched counts one that ended, of itself if err is not nil.
func (m *Metrics) watched(err error) {
	if m == nil {
		return
	}
	m.watches.Dec()
	if err != nil {
		m.ended.WithLabelValues(code(err)).Inc()
	}
}

func code(err error) string {
	if err == nil {
		return "ok"
	}
	return types.ClassOf(err).String()
}
