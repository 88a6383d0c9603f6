package etcdstore

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/escher-sched/escher/types"
)

// Metrics count what a store asks of etcd. It is a prometheus.Collector; a nil one
// counts nothing.
type Metrics struct {
	requests *prometheus.CounterVec
	seconds  *prometheus.HistogramVec
	watches  prometheus.Gauge
	ended    *prometheus.CounterVec
}

// NewMetrics makes metrics that have counted nothing.
func NewMetrics() *Metrics {
	return &Metrics{
		requests: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "escher_store_requests_total", Help: "Requests to etcd, by what was asked and the class of its error, ok without one.",
		}, []string{"method", "code"}),
		seconds: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name: "escher_store_request_seconds", Help: "Time from a request to its answer.",
			Buckets: prometheus.ExponentialBuckets(0.00025, 2, 16),
		}, []string{"method"}),
		watches: prometheus.NewGauge(prometheus.GaugeOpts{
			Name: "escher_store_watches", Help: "Watches that are open.",
		}),
		ended: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "escher_store_watches_broken_total", Help: "Watches that ended before they were to, by the class of the error; each is begun again.",
		}, []string{"code"}),
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
	return []prometheus.Collector{m.requests, m.seconds, m.watches, m.ended}
}

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
