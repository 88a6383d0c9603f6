package scheduler

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/escher-sched/escher/controlplane/match"
	"github.com/escher-sched/escher/controlplane/metric"
	"github.com/escher-sched/escher/types"
)

// Metrics count the work of schedulers. They describe one scheduler at a time: with several in a
// process, the gauges belong to the last one that looked.
type Metrics struct {
	set                    *metric.Set
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
	set := metric.NewSet("scheduler")
	m := &Metrics{
		set:     set,
		binds:   set.Counter("binds_total", "Tasks bound to a node, once for each attempt."),
		grants:  set.Counter("grants_total", "Reservations granted."),
		wakeups: set.Counter("wakeups_total", "How often it looked whether there is something to do."),
		aside:   set.Counter("set_aside_total", "Items set aside until they change, as a decision about them panicked or can never be committed."),
		transactions: set.Counters("transactions_total",
			"Transactions by outcome: committed, refused (something changed meanwhile), overtook (refused, as it came before one that draws on the same pool, or that one was refused), impossible (the store will never take it).", "outcome"),
		batch:       set.Histogram("transaction_tasks", "Tasks bound by one transaction that binds any.", 1, 2, 10),
		decide:      set.Histogram("decide_seconds", "How long it took to decide what to commit, when there was something.", 1e-5, 4, 10),
		commit:      set.Histogram("commit_seconds", "From a decision until the answer of the store, in seconds.", 5e-4, 2, 14),
		waited:      set.Histogram("wait_seconds", "From the submission of a task or reservation until it was bound or granted, in seconds.", 1e-3, 4, 12),
		waiting:     set.Gauge("waiting", "Tasks and reservations that wait to be placed."),
		quarantined: set.Gauge("quarantined_values", "Stored values that cannot be read: their keys count as absent. An audit lists them."),
		inFlight:    set.Gauge("transactions_in_flight", "Transactions that are not answered yet."),
		shapes: set.Gauges("shapes",
			"Sets of what waits for the same, by state: ready to be tried, lacking a resource, or stalled for what is in flight.", "state"),
		idle: newIdleHeld(set),
	}
	for _, outcome := range []string{"committed", "refused", "overtook", "impossible"} {
		m.transactions.WithLabelValues(outcome) // show 0, too
	}
	for _, state := range []string{"ready", "stalled", "lacking"} {
		m.shapes.WithLabelValues(state)
	}
	return m
}

// Describe implements prometheus.Collector.
func (m *Metrics) Describe(out chan<- *prometheus.Desc) { m.set.Describe(out) }

// Collect implements prometheus.Collector.
func (m *Metrics) Collect(out chan<- prometheus.Metric) { m.set.Collect(out) }

// looked counts a pass of a core: its duration and its n transactions.
func (m *Metrics) looked(c *Core, n int, took time.Duration) {
	m.idle.looked(c)
	if n > 0 {
		m.decide.Observe(took.Seconds())
	}
	m.waiting.Set(float64(c.Waiting()))
	m.inFlight.Set(float64(c.InFlight()))
	quarantined, _ := c.view.Quarantined()
	m.quarantined.Set(float64(quarantined))
	ready, stalled, lacking := c.queue.Counts()
	m.shapes.WithLabelValues("ready").Set(float64(ready))
	m.shapes.WithLabelValues("stalled").Set(float64(stalled))
	m.shapes.WithLabelValues("lacking").Set(float64(lacking))
	m.wakeups.Inc() // last: a reader that sees it sees the others of this pass
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
		m.waited.Observe(now.Sub(time.Unix(0, e.Submitted)).Seconds())
	}
}

// idleHeld counts capacity that sits idle because a reservation or task collects it. Capacity lent
// to backfill tasks does not count.
type idleHeld struct {
	seconds *prometheus.CounterVec
	// since is the time of the last look, and held the amounts held then.
	since time.Time
	held  map[types.ResourceID]float64
}

// otherResource stands for all ephemeral resources, of which there may be any number.
const otherResource = "other"

func newIdleHeld(set *metric.Set) idleHeld {
	h := idleHeld{seconds: set.Counters("idle_held_seconds_total",
		"How much is held by what collects and has not all yet, times for how long: by resource, in cores, devices or bytes times seconds.", "resource")}
	h.seconds.WithLabelValues(string(types.CPU)) // show 0, too
	return h
}

// looked counts the amounts held since the last look.
func (h *idleHeld) looked(c *Core) {
	for id, amount := range h.held {
		h.seconds.WithLabelValues(string(id)).Add(amount * c.now.Sub(h.since).Seconds())
	}
	h.since, h.held = c.now, nil
	for x := range c.known {
		if x.Grant.V != nil && c.takesCareOf(x) { // otherwise another scheduler counts it
			h.add(x.Grant.V)
		}
	}
}

// add counts the holdings of a grant.
func (h *idleHeld) add(g *types.Grant) {
	if h.held == nil {
		h.held = make(map[types.ResourceID]float64)
	}
	for _, at := range g.Nodes {
		for _, held := range at.Holds {
			id, amount := held.Resource, float64(held.Amount)
			if types.UnitOf(id) == types.Milli {
				amount /= float64(match.Whole)
			}
			if !id.Physical() {
				id = otherResource
			}
			h.held[id] += amount
		}
	}
}
