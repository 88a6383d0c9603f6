package nodeagent

import (
	"slices"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/escher-sched/escher/controlplane/metric"
)

// Metrics count what agents do; several agents of one process add up.
type Metrics struct {
	set         *metric.Set
	starts      *prometheus.CounterVec
	latency     prometheus.Histogram
	exits       *prometheus.CounterVec
	restarts    prometheus.Counter
	unrenewed   prometheus.Counter
	sessions    prometheus.Counter
	fences      prometheus.Counter
	logsDeleted prometheus.Counter

	running, sessionAge *prometheus.Desc
	mu                  sync.Mutex
	agents              []sampled
}

// sampled is an agent whose state the metrics show. sample returns the number of running processes
// and the age of the session.
type sampled struct {
	node   string
	sample func() (running int, age time.Duration)
}

var _ prometheus.Collector = (*Metrics)(nil)

// NewMetrics makes metrics, all 0.
func NewMetrics() *Metrics {
	set := metric.NewSet("agent")
	return &Metrics{
		set: set,
		starts: set.Counters("starts_total",
			"Starts of containers, by outcome: started, failed (tried again), never (cannot run).", "outcome"),
		latency: set.Histogram("start_seconds",
			"From the moment at which an agent learns of a binding until its process runs, pulling its image included.", 0.01, 2, 14),
		exits: set.Counters("exits_total",
			"Ends of processes, by kind: succeeded, failed, out-of-memory, stopped, overran, deadline, fenced, unhealthy.", "kind"),
		restarts:  set.Counter("restarts_total", "Processes run again in place."),
		unrenewed: set.Counter("renewals_failed_total", "Renewals of the session that failed, each of which was tried again."),
		sessions:  set.Counter("sessions_total", "Sessions begun: more than one says that the node was lost, or restarted for long."),
		fences:    set.Counter("fences_total", "How often processes had to be ended, as the session could not be renewed in time."),

		logsDeleted: set.Counter("logs_deleted_total", "Logs of ended attempts that were deleted, by age or for room."),
		running:     metric.Desc("agent", "containers_running", "Containers whose process runs.", "node"),
		sessionAge: metric.Desc("agent", "session_age_seconds",
			"How long the session of the node has lasted, as far as this process knows; 0 without one.", "node"),
	}
}

// of adds an agent to the metrics. It replaces an earlier agent of the same node.
func (m *Metrics) of(a sampled) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.agents = append(slices.DeleteFunc(m.agents, func(other sampled) bool { return other.node == a.node }), a)
}

// Describe implements prometheus.Collector.
func (m *Metrics) Describe(out chan<- *prometheus.Desc) {
	m.set.Describe(out)
	out <- m.running
	out <- m.sessionAge
}

// Collect implements prometheus.Collector.
func (m *Metrics) Collect(out chan<- prometheus.Metric) {
	m.set.Collect(out)
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, a := range m.agents {
		running, age := a.sample()
		out <- prometheus.MustNewConstMetric(m.running, prometheus.GaugeValue, float64(running), a.node)
		out <- prometheus.MustNewConstMetric(m.sessionAge, prometheus.GaugeValue, age.Seconds(), a.node)
	}
}

// started counts the end of a start.
func (m *Metrics) started(outcome string) { m.starts.WithLabelValues(outcome).Inc() }

// ready records the time until a process ran.
func (m *Metrics) ready(took time.Duration) { m.latency.Observe(took.Seconds()) }

// exited counts the end of a process.
func (m *Metrics) exited(cause Cause, e Exit) {
	kind := "succeeded"
	switch {
	case cause != "":
		kind = string(cause)
	case e.OOMKilled && e.Code != 0:
		kind = "out-of-memory"
	case e.Code != 0 || e.Reason != "":
		kind = "failed"
	}
	m.exits.WithLabelValues(kind).Inc()
}
