package server

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/escher-sched/escher/controlplane"
	"github.com/escher-sched/escher/controlplane/metric"
	"github.com/escher-sched/escher/types"
)

// Metrics tell what collectors do, and how full the database is. It is a
// prometheus.Collector; a nil one counts nothing.
type Metrics struct {
	set       *metric.Set
	leading   prometheus.Gauge
	collected *prometheus.CounterVec
	troubles  prometheus.Counter
	database  *prometheus.GaugeVec
	refuses   prometheus.Gauge
	aside     *prometheus.CounterVec
	namespace *prometheus.GaugeVec
}

// NewMetrics makes metrics that have counted nothing.
func NewMetrics() *Metrics {
	set := metric.NewSet("collector")
	return &Metrics{
		set:       set,
		leading:   set.Gauge("leading", "1 while this process collects, 0 while another one does."),
		collected: set.Counters("collected_total", "What was stopped or deleted, by the reason.", "reason"),
		troubles:  set.Counter("interrupted_total", "Looks that were given up, to be tried again, as etcd did not answer."),
		database:  set.Gauges("database_bytes", "What etcd's database holds (used), takes on disk (file) and may take (quota).", "what"),
		refuses:   set.Gauge("database_full", "1 while etcd refuses writes as its database is full."),
		namespace: set.Gauges("namespace_used", "What a namespace uses of its budgets: keys, bytes, pending.", "namespace", "what"),
		aside:     set.Counters("set_aside_total", "Items that failed and are tried again later while the others go on, by what failed: collect, drain.", "what"),
	}
}

// Describe implements prometheus.Collector.
func (m *Metrics) Describe(out chan<- *prometheus.Desc) { m.set.Describe(out) }

// Collect implements prometheus.Collector.
func (m *Metrics) Collect(out chan<- prometheus.Metric) { m.set.Collect(out) }

func (m *Metrics) lead(leads bool) {
	switch {
	case m == nil:
	case leads:
		m.leading.Set(1)
	default:
		m.leading.Set(0)
	}
}

func (m *Metrics) collect(reason why, n int) {
	if m != nil {
		m.collected.WithLabelValues(string(reason)).Add(float64(n))
	}
}

func (m *Metrics) trouble() {
	if m != nil {
		m.troubles.Inc()
	}
}

// setAside counts an item of what failed.
func (m *Metrics) setAside(what string) {
	if m != nil {
		m.aside.WithLabelValues(what).Inc()
	}
}

// use tells what a namespace uses. One that uses nothing is not listed.
func (m *Metrics) use(ns string, used types.Budget) {
	if m == nil {
		return
	}
	for what, n := range map[string]int64{"keys": used.Keys, "bytes": used.Bytes, "pending": used.Pending} {
		if used.Keys == 0 {
			m.namespace.DeleteLabelValues(ns, what)
		} else {
			m.namespace.WithLabelValues(ns, what).Set(float64(n))
		}
	}
}

func (m *Metrics) full(u controlplane.Usage) {
	if m == nil {
		return
	}
	m.database.WithLabelValues("used").Set(float64(u.InUse))
	m.database.WithLabelValues("file").Set(float64(u.File))
	m.database.WithLabelValues("quota").Set(float64(u.Quota))
	m.refuses.Set(0)
	if u.Alarm {
		m.refuses.Set(1)
	}
}
