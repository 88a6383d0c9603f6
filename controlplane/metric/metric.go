// Package metric makes the metrics of a component: escher_COMPONENT_NAME.
package metric

import "github.com/prometheus/client_golang/prometheus"

// Set holds the metrics of a component that it has made. It is a prometheus.Collector.
type Set struct {
	component string
	all       []prometheus.Collector
}

var _ prometheus.Collector = (*Set)(nil)

// NewSet returns a Set of a component without metrics.
func NewSet(component string) *Set { return &Set{component: component} }

// Counter adds a counter.
func (s *Set) Counter(name, help string) prometheus.Counter {
	return add(s, prometheus.NewCounter(prometheus.CounterOpts(s.opts(name, help))))
}

// Counters adds a counter for each combination of values of labels.
func (s *Set) Counters(name, help string, labels ...string) *prometheus.CounterVec {
	return add(s, prometheus.NewCounterVec(prometheus.CounterOpts(s.opts(name, help)), labels))
}

// Gauge adds a gauge.
func (s *Set) Gauge(name, help string) prometheus.Gauge {
	return add(s, prometheus.NewGauge(prometheus.GaugeOpts(s.opts(name, help))))
}

// Gauges adds a gauge for each combination of values of labels.
func (s *Set) Gauges(name, help string, labels ...string) *prometheus.GaugeVec {
	return add(s, prometheus.NewGaugeVec(prometheus.GaugeOpts(s.opts(name, help)), labels))
}

// Histogram adds a histogram with count buckets. The first one ends at least, each further one at
// factor times the end of the one before.
func (s *Set) Histogram(name, help string, least, factor float64, count int) prometheus.Histogram {
	return add(s, prometheus.NewHistogram(s.histogram(name, help, least, factor, count)))
}

// Histograms adds a histogram, as Histogram has it, for each combination of values of labels.
func (s *Set) Histograms(name, help string, least, factor float64, count int, labels ...string) *prometheus.HistogramVec {
	return add(s, prometheus.NewHistogramVec(s.histogram(name, help, least, factor, count), labels))
}

// Describe implements prometheus.Collector.
func (s *Set) Describe(out chan<- *prometheus.Desc) {
	for _, c := range s.all {
		c.Describe(out)
	}
}

// Collect implements prometheus.Collector.
func (s *Set) Collect(out chan<- prometheus.Metric) {
	for _, c := range s.all {
		c.Collect(out)
	}
}

func (s *Set) opts(name, help string) prometheus.Opts {
	return prometheus.Opts{Namespace: "escher", Subsystem: s.component, Name: name, Help: help}
}

func (s *Set) histogram(name, help string, least, factor float64, count int) prometheus.HistogramOpts {
	return prometheus.HistogramOpts{
		Namespace: "escher", Subsystem: s.component, Name: name, Help: help,
		Buckets: prometheus.ExponentialBuckets(least, factor, count),
	}
}

// Desc describes a metric whose value its collector computes at collection.
func Desc(component, name, help string, labels ...string) *prometheus.Desc {
	return prometheus.NewDesc(prometheus.BuildFQName("escher", component, name), help, labels, nil)
}

func add[C prometheus.Collector](s *Set, c C) C {
	s.all = append(s.all, c)
	return c
}
