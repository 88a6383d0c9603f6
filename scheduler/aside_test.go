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

	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"

	"github.com/escher-sched/escher/controlplane"
	"github.com/escher-sched/escher/scheduler/queue"
	"github.com/escher-sched/escher/types"
)

// fragile returns a Core that panics on arrival of a task with a later retry, and on placement of a
// task that names a node.
func fragile(cfg Config) *Core {
	c := New(cfg)
	c.later, c.rng = new(queue.Later), nil
	c.lookAt(c.view)
	return c
}

// TestPanicSetsItsItemAside makes decisions about two tasks panic, one on arrival and one on
// placement. Other tasks are bound before and after, and these once they change.
func TestPanicSetsItsItemAside(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newGarbledBench(t)
		b.node("n1", 4000)
		cpu := map[string]types.Quantity{"cpu": 100}
		core, logs := observer.New(zap.ErrorLevel)
		metrics := NewMetrics()
		ctx, stop := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() { ended <- runCores(ctx, b.store, Config{Metrics: metrics}, zap.New(core), fragile) }()
		b.task("before", cpu)
		later := &types.Status{Phase: types.Pending, Node: "n1", Attempt: 1, Failures: 1, Retry: time.Now().Add(2 * time.Second).UnixNano()}
		b.put(controlplane.StatusKey("d", "seen"), later)
		b.task("seen", cpu)
		b.task("placed", map[string]types.Quantity{"cpu": 100, "node/n1": 1})
		time.Sleep(5 * time.Second)
		b.task("after", cpu)
		time.Sleep(5 * time.Second)
		b.see()
		for id, want := range map[string]string{"before": "bound on n1", "after": "bound on n1", "seen": "pending on n1", "placed": "pending"} {
			b.expect(id, want)
		}
		for id, file := range map[string]string{"seen": "later.go", "placed": "find.go"} {
			told := logs.FilterMessage("deciding panicked: its item is set aside until it changes").Filter(func(e observer.LoggedEntry) bool {
				return e.ContextMap()["path"] == controlplane.TaskKey("d", id) && strings.Contains(e.ContextMap()["error"].(string), file)
			})
			if told.Len() != 1 {
				t.Errorf("%s is told %d times", id, told.Len())
			}
		}
		if got := values(t, metrics)["set_aside_total"]; got != 2 {
			t.Errorf("%g are counted", got)
		}
		for _, id := range []string{"seen", "placed"} {
			b.task(id, cpu, func(t *types.Task) { t.Priority = 1 })
		}
		time.Sleep(5 * time.Second)
		b.see()
		b.expect("seen", "bound on n1")
		b.expect("placed", "bound on n1")
		stop()
		if err := <-ended; !errors.Is(err, context.Canceled) {
			t.Errorf("it ended with %v", err)
		}
	})
}

// TestRefusedTogetherAreTriedAlone makes the store refuse only the release of two tasks for good:
// each is tried alone once, and the others are released.
func TestRefusedTogetherAreTriedAlone(t *testing.T) {
	for _, tasks := range []int{2, 100} {
		refusedTogether(t, tasks)
	}
}

func refusedTogether(t *testing.T, tasks int) {
	b := newBench(t, Config{})
	bad := map[string]bool{"t000": true, "t001": true}
	for i := range 4 {
		b.node(fmt.Sprintf("n%d", i), 8000)
	}
	for i := range tasks {
		b.task(fmt.Sprintf("t%03d", i), map[string]types.Quantity{"cpu": 100})
	}
	b.settle()
	for i := range tasks {
		x := b.core.view.Task(clusterID("d", fmt.Sprintf("t%03d", i))).Bindings[0]
		b.put(controlplane.ReportKey(x.Node.Name, "d", x.Task.ID.ID, x.Number), &types.Report{Phase: types.ReportExited, Binding: x.Info.Create})
	}
	b.see()
	refused, alone := 0, map[string]int{}
	for range 200 {
		drafts := b.core.Next(b.now)
		if len(drafts) == 0 {
			break
		}
		for _, d := range drafts {
			var hit []string
			for _, w := range d.Writes() {
				if k, _ := controlplane.Parse(w.Key); k.Kind == controlplane.Statuses && bad[k.ID] {
					hit = append(hit, k.ID)
				}
			}
			if len(hit) > 0 {
				if refused++; d.Len() == 1 {
					alone[hit[0]]++
				}
				b.core.Done(d, controlplane.Result{}, types.Errorf(types.Invalid, "too large"), b.now)
				continue
			}
			res, err := b.store.Commit(t.Context(), d.Change.Txn())
			b.core.Done(d, res, err, b.now)
		}
		b.see()
	}
	if len(b.core.Next(b.now)) > 0 {
		t.Fatal("it goes round")
	}
	if refused > 20 || alone["t000"] != 1 || alone["t001"] != 1 {
		t.Errorf("%d transactions were refused, alone: %v", refused, alone)
	}
	for i := range tasks {
		id := fmt.Sprintf("t%03d", i)
		if released := !strings.HasPrefix(b.where(id), "bound"); released == bad[id] {
			t.Errorf("%s is %s", id, b.where(id))
		}
	}
	if b.core.InFlight() > 0 || len(b.core.locks) > 0 {
		t.Errorf("%d in flight, %d locked", b.core.InFlight(), len(b.core.locks))
	}
}

// stubborn is a store that never accepts the release of one task.
type stubborn struct {
	controlplane.Store
	key     string
	refused atomic.Int32
}

func (s *stubborn) Commit(ctx context.Context, txn controlplane.Txn) (controlplane.Result, error) {
	for _, op := range txn.Ops {
		if op.Key == s.key && op.Delete {
			s.refused.Add(1)
			return controlplane.Result{}, types.Errorf(types.Invalid, "too large")
		}
	}
	return s.Store.Commit(ctx, txn)
}

// TestReleaseThatIsNeverTaken makes the store refuse the release of one task forever: it is tried a
// few times, named and counted once, and the others are released.
func TestReleaseThatIsNeverTaken(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newGarbledBench(t)
		b.node("n1", 4000)
		core, logs := observer.New(zap.ErrorLevel)
		metrics := NewMetrics()
		ctx, stop := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		s := &stubborn{Store: b.store, key: controlplane.BindingKey("n1", "d", "bad", 1)}
		go func() { ended <- Run(ctx, s, Config{Metrics: metrics}, zap.New(core)) }()
		ids := []string{"a", "bad", "c"}
		for _, id := range ids {
			b.task(id, map[string]types.Quantity{"cpu": 100})
		}
		time.Sleep(time.Second)
		b.see()
		for _, id := range ids {
			x := b.core.view.Task(clusterID("d", id)).Bindings[0]
			b.put(controlplane.ReportKey("n1", "d", id, 1), &types.Report{Phase: types.ReportExited, Binding: x.Info.Create})
		}
		time.Sleep(time.Hour)
		b.see()
		for id, want := range map[string]string{"a": "succeeded on n1", "c": "succeeded on n1", "bad": "bound on n1"} {
			b.expect(id, want)
		}
		if n := s.refused.Load(); n > 5 {
			t.Errorf("it was tried %d times", n)
		}
		told := logs.FilterMessage("transaction can never be committed: its item is set aside until it changes").
			FilterField(zap.String("path", controlplane.TaskKey("d", "bad")))
		if got := values(t, metrics)["set_aside_total"]; told.Len() != 1 || got != 1 {
			t.Errorf("told %d times, counted %g times: %v", told.Len(), got, logs.All())
		}
		stop()
		if err := <-ended; !errors.Is(err, context.Canceled) {
			t.Errorf("it ended with %v", err)
		}
	})
}
