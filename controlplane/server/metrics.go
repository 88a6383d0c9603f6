package server

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/escher-sched/escher/controlplane"
	"github.com/escher-sched/escher/types"
)

// Metrics count the work of collectors, and show the size of the database. It is a
// prometheus.Collector; a nil one counts nothing.
type Metrics struct {
	leading   prometheus.Gauge
	collected *prometheus.CounterVec
	troubles  prometheus.Counter
	database  *prometheus.GaugeVec
	refuses   prometheus.Gauge
	aside     *prometheus.CounterVec
	namespace *prometheus.GaugeVec
}

// NewMetrics returns metrics at zero.
func NewMetrics() *Metrics {
	return &Metrics{
		leading: prometheus.NewGauge(prometheus.GaugeOpts{
			Name: "escher_collector_leading", Help: "1 while this process collects, 0 while another one does.",
		}),
		collected: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "escher_collector_collected_total", Help: "Objects stopped or deleted, by reason.",
		}, []string{"reason"}),
		troubles: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "escher_collector_interrupted_total", Help: "Passes that failed because etcd did not answer, and are retried.",
		}),
		database: prometheus.NewGaugeVec(prometheus.GaugeOpts{
			Name: "escher_collector_database_bytes", Help: "Bytes of data in etcd's database (used), on disk (file) and allowed (quota).",
		}, []string{"what"}),
		refuses: prometheus.NewGauge(prometheus.GaugeOpts{
			Name: "escher_collector_database_full", Help: "1 while etcd refuses writes because its database is full.",
		}),
		namespace: prometheus.NewGaugeVec(prometheus.GaugeOpts{
			Name: "escher_collector_namespace_used", Help: "Usage of a namespace's budgets: keys, bytes, pending.",
		}, []string{"namespace", "what"}),
		aside: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "escher_collector_set_aside_total", Help: "Items that failed and are retried later, by activity: collect, drain.",
		}, []string{"what"}),
	}
}

// Describe implements prometheus.Collector.
func (m *Metrics) Describe(ch chan<- *prometheus.Desc) {
	for _, c := range m.all() {
		c.Describe(ch)
	}
}

// Collect implements prometheus.Collector.
func (m *Metrics) Collect(ch chan<- prometheus.Metric) {
	for _, c := range m.all() {
		c.Collect(ch)
	}
}

func (m *Metrics) all() []prometheus.Collector {
	return []prometheus.Collector{m.leading, m.collected, m.troubles, m.database, m.refuses, m.aside, m.namespace}
}

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

// setAside counts a failed item of an activity.
func (m *Metrics) setAside(what string) {
	if m != nil {
		m.aside.WithLabelValues(what).Inc()
	}
}

// use sets the usage of a namespace. It drops one without keys.
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
