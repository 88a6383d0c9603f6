package scheduler

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"

	"github.com/escher-sched/escher/controlplane"
	"github.com/escher-sched/escher/types"
)

// values returns the values of metrics, by name and label.
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

// TestRun: submitted tasks are bound without a wait except for the store, unreadable values are
// logged once, and the metrics match.
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
		time.Sleep(time.Minute) // in the bubble: it costs nothing
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

// TestManyGoneNodes: state of removed nodes is dropped, and the scheduler continues.
func TestManyGoneNodes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t, Config{})
		b.node("n1", 1000)
		core, logs := observer.New(zap.InfoLevel)
		ctx, stop := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() { ended <- Run(ctx, b.store, Config{}, zap.New(core)) }()
		synctest.Wait()
		for i := 0; i <= 2*mostGone; {
			come, gone := new(controlplane.Change), new(controlplane.Change)
			for end := i + 100; i < end; i++ {
				key := controlplane.CordonKey(fmt.Sprint("fresh-", i))
				come.Put(key, &types.Cordon{})
				gone.Delete(key)
			}
			for _, c := range []*controlplane.Change{come, gone} {
				if _, err := b.store.Commit(ctx, c.Txn()); err != nil {
					t.Fatal(err)
				}
			}
			synctest.Wait()
		}
		if n := logs.FilterMessageSnippet("begins anew").Len(); n != 1 {
			t.Errorf("it began anew %d times", n)
		}
		b.now = time.Now()
		b.task("a", map[string]types.Quantity{"cpu": 600})
		synctest.Wait()
		b.see()
		b.expect("a", "bound on n1")
		stop()
		if err := <-ended; !errors.Is(err, context.Canceled) {
			t.Error(err)
		}
	})
}

// slowly is a store that sends and answers transactions on pools only on command.
type slowly struct {
	controlplane.Store
	begun, committed atomic.Int32
	send, answer     chan struct{}
}

func (s *slowly) Commit(ctx context.Context, txn controlplane.Txn) (controlplane.Result, error) {
	if txn.Sent != nil {
		s.begun.Add(1)
		<-s.send
		txn.Sent()
		<-s.answer
	}
	res, err := s.Store.Commit(ctx, txn)
	if res.Committed {
		s.committed.Add(1)
	}
	return res, err
}

// TestSentInOrder: a transaction is sent once its predecessor is on its way, and before that is
// answered.
func TestSentInOrder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := pooled(t, 4*deepest)
		s := &slowly{Store: b.store, send: make(chan struct{}), answer: make(chan struct{})}
		ctx, stop := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() { ended <- Run(ctx, s, Config{BatchTasks: 4, Gather: 1}, zap.NewNop()) }()
		for i := range int32(deepest) {
			synctest.Wait()
			if n := s.begun.Load(); n != i+1 {
				t.Fatalf("%d are sent, %d are on their way", n, i)
			}
			s.send <- struct{}{}
		}
		for range deepest {
			s.answer <- struct{}{}
			synctest.Wait()
		}
		if n := s.committed.Load(); n != deepest {
			t.Errorf("%d were committed at once", n)
		}
		stop()
		if err := <-ended; !errors.Is(err, context.Canceled) {
			t.Error(err)
		}
	})
}

// noSpace is a store that refuses every transaction, like an etcd with a full database, until it
// has room.
type noSpace struct {
	controlplane.Store
	room  atomic.Bool
	asked atomic.Int32
}

func (s *noSpace) Commit(ctx context.Context, txn controlplane.Txn) (controlplane.Result, error) {
	if s.asked.Add(1); !s.room.Load() {
		return controlplane.Result{}, types.Errorf(types.Precondition, "%w", controlplane.ErrFull)
	}
	return s.Store.Commit(ctx, txn)
}

// TestFullStore: a scheduler whose transactions are refused for ten minutes retries rarely, and
// continues as soon as there is room.
func TestFullStore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t, Config{})
		b.node("n1", 100_000)
		for i := range 200 {
			b.task(fmt.Sprint("t", i), map[string]types.Quantity{"cpu": 100})
		}
		s := &noSpace{Store: b.store}
		ctx, stop := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() { ended <- Run(ctx, s, Config{}, zap.NewNop()) }()
		time.Sleep(10 * time.Minute) // in the bubble: it costs nothing
		if n := s.asked.Load(); n < 10 || n > 1500 {
			t.Errorf("it asked %d times in ten minutes", n)
		}
		s.room.Store(true)
		time.Sleep(10 * time.Second)
		synctest.Wait()
		b.see()
		for i := range 200 {
			b.expect(fmt.Sprint("t", i), "bound on n1")
		}
		t.Logf("it asked %d times", s.asked.Load())
		stop()
		if err := <-ended; !errors.Is(err, context.Canceled) {
			t.Error(err)
		}
	})
}
