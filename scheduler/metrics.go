package scheduler

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// Metrics count what schedulers do. One that runs is shown at a time: of several in a
// process the gauges are those of the last to have looked.
type Metrics struct {
	binds, grants, wakeups prometheus.Counter
	aside                  prometheus.Counter
	transactions           *prometheus.CounterVec
	batch                  prometheus.Histogram
	decide, commit, waited prometheus.Histogram
	waiting, inFlight      prometheus.Gauge
	quarantined            prometheus.Gauge
	shapes                 *prometheus.GaugeVec
	idle                   idleHeld
}

var _ prometheus.Collector = (*Metrics)(nil)

// NewMetrics makes metrics, all 0.
func NewMetrics() *Metrics {
	opts := func(name, help string) prometheus.Opts {
		return prometheus.Opts{Namespace: "escher", Subsystem: "scheduler", Name: name, Help: help}
	}
	counter := func(name, help string) prometheus.Counter {
		return prometheus.NewCounter(prometheus.CounterOpts(opts(name, help)))
	}
	gauge := func(name, help string) prometheus.Gauge {
		return prometheus.NewGauge(prometheus.GaugeOpts(opts(name, help)))
	}
	histogram := func(name, help string, least, factor float64, count int) prometheus.Histogram {
		return prometheus.NewHistogram(prometheus.HistogramOpts{
			Namespace: "escher", Subsystem: "scheduler", Name: name, Help: help,
			Buckets: prometheus.ExponentialBuckets(least, factor, count),
		})
	}
	m := &Metrics{
		binds:   counter("binds_total", "Tasks bound to a node, once for each attempt."),
		grants:  counter("grants_total", "Reservations granted."),
		wakeups: counter("wakeups_total", "How often it looked whether there is something to do."),
		aside:   counter("set_aside_total", "Items set aside until they change, as a decision about them panicked or can never be committed."),
		transactions: prometheus.NewCounterVec(prometheus.CounterOpts(opts("transactions_total",
			"Transactions by outcome: committed, refused (something changed meanwhile), overtook (refused, as it came before one that draws on the same pool, or that one was refused), impossible (the store will never take it).")), []string{"outcome"}),
		batch:       histogram("transaction_tasks", "Tasks bound by one transaction that binds any.", 1, 2, 10),
		decide:      histogram("decide_seconds", "How long it took to decide what to commit, when there was something.", 1e-5, 4, 10),
		commit:      histogram("commit_seconds", "From a decision until the answer of the store, in seconds.", 5e-4, 2, 14),
		waited:      histogram("wait_seconds", "From the submission of a task or reservation until it was bound or granted, in seconds.", 1e-3, 4, 12),
		waiting:     gauge("waiting", "Tasks and reservations that wait to be placed."),
		quarantined: gauge("quarantined_values", "Stored values that cannot be read: their keys count as absent. escher audit lists them."),
		inFlight:    gauge("transactions_in_flight", "Transactions that are not answered yet."),
		shapes: prometheus.NewGaugeVec(prometheus.GaugeOpts(opts("shapes",
			"Sets of what waits for the same, by state: ready to be tried, lacking a resource, or stalled for what is in flight.")), []string{"state"}),
	}
	m.idle = newIdleHeld(opts)
	for _, outcome := range []string{"committed", "refused", "overtook", "impossible"} {
		m.transactions.WithLabelValues(outcome) // 0 is shown, too
	}
	for _, state := range []string{"ready", "stalled", "lacking"} {
		m.shapes.WithLabelValues(state)
	}
	return m
}

// all returns all of them.
func (m *Metrics) all() []prometheus.Collector {
	return []prometheus.Collector{
		m.binds, m.grants, m.wakeups, m.aside, m.transactions, m.batch, m.decide, m.commit, m.waited, m.waiting, m.inFlight, m.shapes, m.idle.seconds,
		m.quarantined,
	}
}

// Describe implements prometheus.Collector.
func (m *Metrics) Describe(out chan<- *prometheus.Desc) {
	for _, c := range m.all() {
		c.Describe(out)
	}
}

// Collect implements prometheus.Collector.
func (m *Metrics) Collect(out chan<- prometheus.Metric) {
	for _, c := range m.all() {
		c.Collect(out)
	}
}

// looked counts a look of a core that took so long and found n transactions.
func (m *Metrics) looked(c *Core, n int, took time.Duration) {
	m.idle.looked(c)
	if n > 0 {
		m.decide.Observe(took.Seconds())
	}
	m.waiting.Set(float64(c.Waiting()))
	m.inFlight.Set(float64(c.InFlight()))
	quarantined, _ := c.view.Quarantined()
	m.quarantined.Set(float64(quarantined))
	ready, stalled := len(c.queue.ready), len(c.queue.stalled)
	m.shapes.WithLabelValues("ready").Set(float64(ready))
	m.shapes.WithLabelValues("stalled").Set(float64(stalled))
	m.shapes.WithLabelValues("lacking").Set(float64(len(c.queue.shapes) + c.queue.asleep.len() - ready - stalled))
	m.wakeups.Inc() // last: who sees it sees the others as of this look
}

// answered counts an answer.
func (m *Metrics) answered(a answer, now time.Time) {
	m.commit.Observe(a.took.Seconds())
	switch {
	case a.err != nil:
		m.transactions.WithLabelValues("impossible").Inc()
		return
	case a.overtook():
		m.transactions.WithLabelValues("overtook").Inc()
		return
	case !a.res.Committed:
		m.transactions.WithLabelValues("refused").Inc()
		return
	}
	m.transactions.WithLabelValues("committed").Inc()
	m.binds.Add(float64(len(a.draft.Binds)))
	m.grants.Add(float64(len(a.draft.Grants)))
	if n := len(a.draft.Binds); n > 0 {
		m.batch.Observe(float64(n))
	}
	for _, e := range a.draft.entries {
		m.waited.Observe(now.Sub(time.Unix(0, e.submitted)).Seconds())
	}
}
