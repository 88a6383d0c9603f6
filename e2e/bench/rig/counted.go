package rig

import (
	"context"
	"maps"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"

	"github.com/escher-sched/escher/controlplane"
	"github.com/escher-sched/escher/controlplane/etcdstore"
	"github.com/escher-sched/escher/scheduler"
)

// counted collects the counters of a scheduler process: the scheduler's metrics, and the durations
// and shapes of the transactions that bind.
type counted struct {
	metrics *scheduler.Metrics

	inFlight, most atomic.Int64

	mu      sync.Mutex
	commits []time.Duration
	// parts sums, by name, the contents of the sampled transactions.
	parts map[string]float64
}

func newCounted() *counted {
	return &counted{metrics: scheduler.NewMetrics(), parts: make(map[string]float64)}
}

// lookedAt is the sampling rate: one of lookedAt transactions, so that counting does not distort
// the measurement.
const lookedAt = 8

// begin records that a transaction is sent.
func (c *counted) begin() {
	now := c.inFlight.Add(1)
	for most := c.most.Load(); now > most && !c.most.CompareAndSwap(most, now); most = c.most.Load() {
	}
}

// end records its answer.
func (c *counted) end(txn controlplane.Txn, committed bool, took time.Duration) {
	c.inFlight.Add(-1)
	if !committed || len(txn.Ops) == 0 || !binds(txn) {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.commits = append(c.commits, took)
	if len(c.commits)%lookedAt == 1 {
		look(c.parts, txn)
	}
}

// binds reports whether a transaction binds tasks: its first put, or the one after a grant, is a
// binding.
func binds(txn controlplane.Txn) bool {
	prefix := controlplane.Prefix(controlplane.Bindings)
	return slices.ContainsFunc(txn.Ops[:min(2, len(txn.Ops))], func(op controlplane.Op) bool {
		return !op.Delete && strings.HasPrefix(op.Key, prefix)
	})
}

// look adds the contents of a transaction.
func look(parts map[string]float64, txn controlplane.Txn) {
	parts[CounterTxns]++
	for _, x := range txn.Compares {
		parts[CounterCompare+kindOf(x.Key)]++
	}
	for _, op := range txn.Ops {
		kind := kindOf(op.Key)
		parts[CounterPut+kind]++
		parts[counterKey+kind] += float64(len(op.Key))
		parts[CounterValue+kind] += float64(len(op.Value))
	}
}

// Names of counters: sums over the sampled transactions. A name that ends with a slash is followed
// by the kind of key.
const (
	CounterTxns         = "txns"
	CounterCompare      = "compare/"
	CounterPut          = "put/"
	counterKey          = "key/"
	CounterValue        = "value/"
	CounterMostInFlight = "most_in_flight"
	CounterP50          = "commit_p50_ms"
	CounterP99          = "commit_p99_ms"
	CounterMetric       = "metric/"
)

// kindOf returns the first segment of a key below the root.
func kindOf(key string) string {
	rest, _ := strings.CutPrefix(key, controlplane.Root)
	kind, _, _ := strings.Cut(rest, "/")
	return kind
}

// stats returns all counters.
func (c *counted) stats() map[string]float64 {
	c.mu.Lock()
	out := maps.Clone(c.parts)
	commits := slices.Sorted(slices.Values(c.commits))
	c.mu.Unlock()
	out[CounterMostInFlight] = float64(c.most.Load())
	out[CounterP50], out[CounterP99] = Quantile(commits, 0.5), Quantile(commits, 0.99)
	registry := prometheus.NewRegistry()
	if registry.Register(c.metrics) != nil {
		return out
	}
	families, err := registry.Gather()
	if err != nil {
		return out
	}
	for _, f := range families {
		for _, m := range f.GetMetric() {
			out[CounterMetric+metricName(f, m)] = m.GetCounter().GetValue() + m.GetGauge().GetValue() + m.GetHistogram().GetSampleSum()
		}
	}
	return out
}

// metricName is the name of a metric without the common prefix, followed by its label values.
func metricName(f *dto.MetricFamily, m *dto.Metric) string {
	name := strings.TrimPrefix(f.GetName(), "escher_scheduler_")
	for _, l := range m.GetLabel() {
		name += "/" + l.GetValue()
	}
	return name
}

// notedStore is the store of a scheduler whose transactions are counted.
type notedStore struct {
	*etcdstore.Store
	counted *counted
	// synced is called once, when everything was listed.
	synced func()
	once   sync.Once
}

// Commit commits and counts.
func (s *notedStore) Commit(ctx context.Context, txn controlplane.Txn) (controlplane.Result, error) {
	s.counted.begin()
	start := time.Now()
	res, err := s.Store.Commit(ctx, txn)
	s.counted.end(txn, res.Committed, time.Since(start))
	return res, err
}

// Watch watches. Everything was listed by then.
func (s *notedStore) Watch(ctx context.Context, opts controlplane.WatchOptions) <-chan controlplane.Batch {
	s.once.Do(s.synced)
	return s.Store.Watch(ctx, opts)
}
