package etcdstore

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/escher-sched/escher/types"
)

// Metrics count the requests of a store to etcd. It is a prometheus.Collector; a nil one counts
// nothing.
type Metrics struct {
	requests *prometheus.CounterVec
	seconds  *prometheus.HistogramVec
	watches  prometheus.Gauge
	ended    *prometheus.CounterVec
}

// NewMetrics returns metrics at zero.
func NewMetrics() *Metrics {
	return &Metrics{
		requests: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "escher_store_requests_total", Help: "Requests to etcd, by method and class of the error, or ok.",
		}, []string{"method", "code"}),
		seconds: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name: "escher_store_request_seconds", Help: "Time between a request and its answer.",
			Buckets: prometheus.ExponentialBuckets(0.00025, 2, 16),
		}, []string{"method"}),
		watches: prometheus.NewGauge(prometheus.GaugeOpts{
			Name: "escher_store_watches", Help: "Open watches.",
		}),
		ended: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "escher_store_watches_broken_total", Help: "Watches that broke, by the class of the error; each one is restarted.",
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

// answered counts a request, with the time since begin.
func (m *Metrics) answered(method string, begin time.Time, err error) {
	if m == nil {
		return
	}
	m.requests.WithLabelValues(method, code(err)).Inc()
	m.seconds.WithLabelValues(method).Observe(time.Since(begin).Seconds())
}

// watching counts a new watch.
func (m *Metrics) watching() {
	if m != nil {
		m.watches.Inc()
	}
}

// watched counts an ended watch; err, unless nil, ended it.
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
