package gangs

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"

	"github.com/escher-sched/escher/controlplane"
	"github.com/escher-sched/escher/controlplane/cluster"
	"github.com/escher-sched/escher/controlplane/memstore"
	"github.com/escher-sched/escher/types"
)

// bench is a scheduler on a store whose keys the test writes itself.
type bench struct {
	*memstore.Store
	t      *testing.T
	runner *runner
	logs   *observer.ObservedLogs
	// before are values to write right before the next transaction of the scheduler.
	before []any
	// full reports whether the store is full for the scheduler.
	full atomic.Bool
}

// Commit commits a transaction of the scheduler.
func (b *bench) Commit(ctx context.Context, txn controlplane.Txn) (controlplane.Result, error) {
	if kvs := b.before; kvs != nil {
		b.before = nil
		b.write(kvs...)
	}
	if b.full.Load() {
		return controlplane.Result{}, controlplane.ErrFull
	}
	return b.Store.Commit(ctx, txn)
}

// lag is how late the scheduler sees a change.
const lag = 10 * time.Millisecond

// Watch delays what the store delivers to the scheduler.
func (b *bench) Watch(ctx context.Context, opts controlplane.WatchOptions) <-chan controlplane.Batch {
	late := make(chan controlplane.Batch)
	go func() {
		defer close(late)
		for x := range b.Store.Watch(ctx, opts) {
			time.Sleep(lag)
			late <- x
		}
	}()
	return late
}

// rest waits until the scheduler has nothing to do.
func rest() {
	time.Sleep(100 * lag)
	synctest.Wait()
}

// onBench runs f next to a scheduler with two nodes of one processor each.
func onBench(t *testing.T, f func(b *bench), opts ...memstore.Option) {
	synctest.Test(t, func(t *testing.T) {
		core, logs := observer.New(zap.InfoLevel)
		b := &bench{Store: memstore.New(opts...), t: t, logs: logs}
		b.runner = newRunner(b, zap.New(core))
		ctx, stop := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() { ended <- b.runner.run(ctx) }()
		for _, name := range []string{"n1", "n2"} {
			b.put(controlplane.NodeKey(name), &types.Node{Capacity: types.NewRequests(map[string]types.Quantity{"cpu": 1000})},
				controlplane.AliveKey(name), &types.Alive{})
		}
		f(b)
		stop()
		if err := <-ended; !errors.Is(err, context.Canceled) {
			t.Errorf("it ended with %v", err)
		}
	})
}

// put writes values unconditionally, and waits until the scheduler rests.
func (b *bench) put(kvs ...any) {
	b.t.Helper()
	b.write(kvs...)
	rest()
}

func (b *bench) write(kvs ...any) {
	b.t.Helper()
	c := controlplane.NewChange(1)
	for i := 0; i < len(kvs); i += 2 {
		c.Put(kvs[i].(string), kvs[i+1].(types.Message))
	}
	b.commit(c.Txn())
}

// garble writes an unreadable value.
func (b *bench) garble(key string) {
	b.t.Helper()
	b.commit(controlplane.Txn{Ops: []controlplane.Op{{Key: key, Value: []byte("\x7fof a version to come")}}})
	rest()
}

func (b *bench) remove(key string) {
	b.t.Helper()
	b.commit(controlplane.Txn{Ops: []controlplane.Op{{Key: key, Delete: true}}})
	rest()
}

func (b *bench) commit(txn controlplane.Txn) {
	b.t.Helper()
	if res, err := b.Store.Commit(b.t.Context(), txn); err != nil || !res.Committed {
		b.t.Fatal(res, err)
	}
}

// gang writes a job of tasks that request 600 thousandths of a core each.
func (b *bench) gang(id string, tasks int) {
	b.t.Helper()
	var kvs []any
	for i := range tasks {
		kvs = append(kvs, controlplane.TaskKey("d", fmt.Sprintf("%s-%d", id, i)), taskOf(id))
	}
	b.put(append(kvs, controlplane.JobKey("d", id), &types.Job{Name: "gang", Tasks: tasks})...)
}

func taskOf(job string) *types.Task {
	return &types.Task{Job: job, Spec: "s", Submitted: 1, Scheduler: Name, Requests: types.NewRequests(map[string]types.Quantity{"cpu": 600})}
}

// expect checks how many tasks of a gang are bound, and that one transaction bound them.
func (b *bench) expect(id string, bound int) {
	b.t.Helper()
	at := make(map[int64]bool)
	members := b.runner.board.view.Members(cluster.ID{Namespace: "d", ID: id})
	n := 0
	for _, m := range members {
		for _, x := range m.Bindings {
			at[x.Info.Create] = true
			n++
		}
	}
	if n != bound || len(at) > 1 {
		b.t.Errorf("%d tasks of %s are bound, by %d transactions, want %d by one", n, id, len(at), bound)
	}
}

// said returns the number of log lines that begin with a text.
func (b *bench) said(text string) int { return b.logs.FilterMessage(text).Len() }

const (
	asideText    = "gang is set aside until one of its tasks changes"
	conflictText = "conflict: deciding again"
)

// TestPanic: a panic in the decision about a gang sets this gang aside, until one of its tasks
// changes. Others are bound.
func TestPanic(t *testing.T) {
	onBench(t, func(b *bench) {
		b.gang("bad", 3) // does not fit
		id := cluster.ID{Namespace: "d", ID: "bad"}
		job := b.runner.board.view.Jobs[id]
		delete(b.runner.board.view.Jobs, id)
		b.gang("good", 2)
		b.expect("good", 2)
		b.put(controlplane.CordonKey("n3"), &types.Cordon{})
		if n := b.said(asideText); n != 1 {
			t.Errorf("it says %d times that a gang is set aside: %v", n, b.logs.All())
		}
		b.runner.board.view.Jobs[id] = job
		b.put(controlplane.NodeKey("n3"), &types.Node{Capacity: types.NewRequests(map[string]types.Quantity{"cpu": 2000})}, controlplane.AliveKey("n3"), &types.Alive{})
		b.expect("bad", 0)
		b.remove(controlplane.CordonKey("n3"))
		b.expect("bad", 0)
		b.put(controlplane.TaskKey("d", "bad-0"), taskOf("bad"))
		b.expect("bad", 3)
	})
}

// TestUnreadable: a gang of which a value cannot be read waits until it can. Others are bound.
func TestUnreadable(t *testing.T) {
	for name, c := range map[string]struct {
		key   string
		value types.Message
	}{
		"task":      {controlplane.TaskKey("d", "bad-1"), taskOf("bad")},
		"status":    {controlplane.StatusKey("d", "bad-1"), nil},
		"job":       {controlplane.JobKey("d", "bad"), &types.Job{Name: "gang", Tasks: 2}},
		"namespace": {controlplane.NamespaceKey("d"), &types.Namespace{}},
		"node":      {controlplane.NodeKey("n1"), &types.Node{Capacity: types.NewRequests(map[string]types.Quantity{"cpu": 1000})}},
		"allocated": {controlplane.AllocatedKey("n2"), &types.Allocated{}},
	} {
		t.Run(name, func(t *testing.T) {
			onBench(t, func(b *bench) {
				b.garble(c.key)
				var kvs []any
				for i := range 2 {
					if key := controlplane.TaskKey("d", fmt.Sprintf("bad-%d", i)); key != c.key {
						kvs = append(kvs, key, taskOf("bad"))
					}
				}
				if key := controlplane.JobKey("d", "bad"); key != c.key {
					kvs = append(kvs, key, &types.Job{Name: "gang", Tasks: 2})
				}
				b.put(kvs...)
				b.expect("bad", 0)
				if n := b.said("value cannot be read: its key counts as absent"); n != 1 {
					t.Errorf("it says %d times that it cannot read a value", n)
				}
				if c.value == nil {
					b.remove(c.key)
				} else {
					b.put(c.key, c.value)
				}
				b.expect("bad", 2)
			})
		})
	}
}

// TestOthers: tasks that name no scheduler, or another one, are left alone, and so are tasks about
// to end.
func TestOthers(t *testing.T) {
	onBench(t, func(b *bench) {
		var kvs []any
		for i, edit := range []func(*types.Task){
			func(t *types.Task) { t.Scheduler = "" },
			func(t *types.Task) { t.Scheduler = "another" },
			func(t *types.Task) { t.Stop = &types.Stop{} },
			func(t *types.Task) { t.Deadline = 1 },
			func(*types.Task) {},
		} {
			x := taskOf("a")
			edit(x)
			kvs = append(kvs, controlplane.TaskKey("d", fmt.Sprint("a", i)), x)
		}
		b.put(append(kvs, controlplane.JobKey("d", "a"), &types.Job{Name: "band", Tasks: 5})...)
		b.expect("a", 1)
	})
}

// TestNextAttempts: tasks of a gang that have run before are bound one by one.
func TestNextAttempts(t *testing.T) {
	onBench(t, func(b *bench) {
		b.put(controlplane.CordonKey("n2"), &types.Cordon{})
		for _, id := range []string{"a-0", "a-1"} {
			b.put(controlplane.StatusKey("d", id), &types.Status{Phase: types.Pending, Attempt: 1})
		}
		b.gang("a", 2)
		b.expect("a", 1)
	})
}

// TestOneAfterTheOther: the second gang is decided on what the first one leaves.
func TestOneAfterTheOther(t *testing.T) {
	onBench(t, func(b *bench) {
		b.gang("a", 3)
		b.gang("b", 3)
		b.put(controlplane.NodeKey("n2"), &types.Node{Capacity: types.NewRequests(map[string]types.Quantity{"cpu": 4000})})
		b.expect("a", 3)
		b.expect("b", 3)
		if n := b.said(conflictText); n != 0 {
			t.Errorf("it says %d times that there was a conflict", n)
		}
	})
}

// TestFull: while the store is full, the gang is tried again and again.
func TestFull(t *testing.T) {
	onBench(t, func(b *bench) {
		b.full.Store(true)
		b.gang("a", 2)
		time.Sleep(time.Minute)
		rest()
		b.expect("a", 0)
		if n := b.said("transaction was not taken: trying again"); n < 10 || n > 100 {
			t.Errorf("it says %d times in a minute that it tries again", n)
		}
		b.full.Store(false)
		time.Sleep(time.Minute)
		rest()
		b.expect("a", 2)
	})
}

// TestConflict: after a conflict, the gang is decided again once the view shows the cause.
func TestConflict(t *testing.T) {
	onBench(t, func(b *bench) {
		used := &types.Allocated{Holds: []types.Holding{{Resource: "cpu", Amount: 500}}}
		b.before = []any{controlplane.AllocatedKey("n1"), used}
		b.gang("a", 2)
		b.expect("a", 0)
		if n := b.said(conflictText); n != 1 {
			t.Errorf("it says %d times that there was a conflict", n)
		}
		b.before = []any{controlplane.AllocatedKey("n2"), &types.Allocated{}}
		b.put(controlplane.AllocatedKey("n1"), &types.Allocated{})
		b.expect("a", 2)
		if n := b.said(conflictText); n != 2 {
			t.Errorf("it says %d times that there was a conflict", n)
		}
	})
}

// TestTooLarge: a gang that exceeds a transaction is set aside, and others are bound.
func TestTooLarge(t *testing.T) {
	onBench(t, func(b *bench) {
		b.put(controlplane.NodeKey("n1"), &types.Node{Capacity: types.NewRequests(map[string]types.Quantity{"cpu": 60_000})})
		b.gang("large", 30)
		b.gang("small", 2)
		b.expect("large", 0)
		b.expect("small", 2)
		if n := b.said(asideText); n != 1 {
			t.Errorf("it says %d times that a gang is set aside", n)
		}
	}, memstore.WithLimits(controlplane.Limits{Ops: 64, Bytes: 1 << 20}))
}
