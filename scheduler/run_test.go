package scheduler

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"

	"github.com/escher-sched/escher/controlplane"
	"github.com/escher-sched/escher/types"
)

// values returns what metrics show, by name and label.
func values(t *testing.T, m *Metrics) map[string]float64 {
	t.Helper()
	registry := prometheus.NewPedanticRegistry()
	if err := registry.Register(m); err != nil {
		t.Fatal(err)
	}
	families, err := registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	out := make(map[string]float64)
	for _, f := range families {
		for _, x := range f.GetMetric() {
			name := strings.TrimPrefix(f.GetName(), "escher_scheduler_")
			for _, l := range x.GetLabel() {
				name += " " + l.GetValue()
			}
			out[name] = x.GetCounter().GetValue() + x.GetGauge().GetValue() + float64(x.GetHistogram().GetSampleCount())
		}
	}
	return out
}

// TestRun: what is submitted is bound without waiting for anything but the store, what
// cannot be read is said once, and the metrics say what happened.
func TestRun(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newGarbledBench(t)
		b.node("n1", 1000)
		b.garble(controlplane.NodeKey("n2"))
		core, logs := observer.New(zap.ErrorLevel)
		m := NewMetrics()
		ctx, stop := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() { ended <- Run(ctx, b.store, Config{Metrics: m}, zap.New(core)) }()
		synctest.Wait()
		start := time.Now()
		b.now = start
		b.task("a", map[string]types.Quantity{"cpu": 600})
		b.task("late", map[string]types.Quantity{"cpu": 600}, func(t *types.Task) { t.Deadline = start.Add(time.Minute).UnixNano() })
		synctest.Wait()
		b.see()
		b.expect("a", "bound on n1")
		if took := time.Since(start); took != 0 {
			t.Errorf("it took %s", took)
		}
		b.expect("late", "pending")
		time.Sleep(time.Minute) // of the bubble: nobody waits
		synctest.Wait()
		b.see()
		b.expect("late", "failed on ")
		got := values(t, m)
		for name, want := range map[string]float64{
			"binds_total": 1, "grants_total": 0, "transactions_total committed": 2, "transactions_total refused": 0,
			"transaction_tasks": 1, "commit_seconds": 2, "wait_seconds": 1, "waiting": 0, "transactions_in_flight": 0, "shapes lacking": 0,
		} {
			if got[name] != want {
				t.Errorf("%s is %g, want %g", name, got[name], want)
			}
		}
		if n := logs.FilterMessageSnippet("cannot be read").Len(); n != 1 {
			t.Errorf("it says %d times what cannot be read", n)
		}
		stop()
		if err := <-ended; !errors.Is(err, context.Canceled) {
			t.Error(err)
		}
	})
}
