package scheduler

import (
	"fmt"
	"math/rand/v2"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/escher-sched/escher/controlplane"
	"github.com/escher-sched/escher/controlplane/cluster/clustertest"
	"github.com/escher-sched/escher/types"
)

// TestSleep: a shape with its own missing resource stays parked until there is some, or a lookup
// needs it.
func TestSleep(t *testing.T) {
	own := func(name string) map[string]types.Quantity { return map[string]types.Quantity{name: 1000} }
	for name, c := range map[string]struct {
		then   func(b *bench)
		asleep int
		want   string // of the task own
	}{
		"nothing happens":        {func(*bench) {}, 1, "pending"},
		"there is some":          {func(b *bench) { b.resource("x", "n1") }, 0, "bound on n1"},
		"there is of another":    {func(b *bench) { b.resource("y", "n1") }, 1, "pending"},
		"there is too little":    {func(b *bench) { b.some("x", "n1", 999) }, 1, "pending"},
		"it is stopped":          {func(b *bench) { b.task("own", own("x"), func(t *types.Task) { t.Stop = &types.Stop{} }) }, 0, "cancelled on "},
		"it is deleted":          {func(b *bench) { b.del(controlplane.TaskKey("d", "own")) }, 0, "pending"},
		"it asks for another":    {func(b *bench) { b.task("own", own("z")) }, 1, "pending"},
		"one more of its shape":  {func(b *bench) { b.task("same", own("x")); b.settle(); b.resource("x", "n1") }, 0, "bound on n1"},
		"another one lacks it":   {func(b *bench) { b.task("other", map[string]types.Quantity{"x": 1, "cpu": 1}) }, 0, "pending"},
		"all of it is said anew": {func(b *bench) { b.put(controlplane.NamespaceKey("d"), &types.Namespace{}) }, 1, "pending"},
		"its namespace asks for more": {func(b *bench) {
			b.put(controlplane.NamespaceKey("d"), &types.Namespace{Requests: types.NewRequests(own("y"))})
			b.settle()
			b.resource("x", "n1")
		}, 1, "pending"},
	} {
		t.Run(name, func(t *testing.T) {
			b := unaudited(t) // because tasks change and are deleted
			b.node("n1", 64000)
			b.task("own", own("x"))
			b.settle()
			if q := b.core.queue; q.Parked() != 1 || len(q.All()) > 0 || b.core.Waiting() != 1 {
				t.Fatalf("%d parked, %d not, %d wait", q.Parked(), len(q.All()), b.core.Waiting())
			}
			c.then(b)
			b.settle()
			b.expect("own", c.want)
			if n := b.core.queue.Parked(); n != c.asleep {
				t.Errorf("%d asleep, want %d", n, c.asleep)
			}
		})
	}
}

// some sets the amount of a resource of namespace d on a node.
func (b *bench) some(name, node string, amount types.Quantity) {
	b.put(controlplane.ResourceKey("d", name, node), &types.Resource{Capacity: amount, NodeSession: b.session(node)})
}

// TestNothingSleepsThatMustBeSeen: a task with a deadline, with later alternatives, or one of many
// is not parked.
func TestNothingSleepsThatMustBeSeen(t *testing.T) {
	b := newBench(t, Config{})
	b.node("n1", 64000)
	x := map[string]types.Quantity{"x": 1000}
	b.task("due", x, func(t *types.Task) { t.Deadline = b.now.Add(time.Minute).UnixNano() })
	b.task("later", nil, func(t *types.Task) {
		t.Alternatives = []types.Alternative{{Requests: types.NewRequests(map[string]types.Quantity{"y": 1})}, {After: time.Minute, Requests: types.NewRequests(map[string]types.Quantity{"cpu": 1})}}
	})
	b.settle()
	if n := b.core.queue.Parked(); n != 0 {
		t.Errorf("%d asleep", n)
	}
	b.now = b.now.Add(2 * time.Minute)
	b.settle()
	b.expect("due", "failed on ")
	b.expect("later", "bound on n1")
}

// TestFoldedIsOverdue: a task from a listing that is overdue at the end of the listing fails.
func TestFoldedIsOverdue(t *testing.T) {
	b := newBench(t, Config{})
	b.task("due", map[string]types.Quantity{"x": 1}, func(t *types.Task) { t.Deadline = b.now.Add(time.Second).UnixNano() })
	events, revision := b.listed()
	b.core.ApplyUpdate(controlplane.Update{Events: events, Synced: true, More: true}, b.now)
	b.now = b.now.Add(time.Minute)
	b.reload(nil, revision, 1, nil)
	b.settle()
	b.expect("due", "failed on ")
}

// TestFewAreKeptAsTheyAre: with few tasks, compaction saves nothing.
func TestFewAreKeptAsTheyAre(t *testing.T) {
	b := newBench(t, Config{FoldFrom: 3})
	for i, want := range []int{0, 0, 1, 2} {
		b.task(fmt.Sprint("t", i), map[string]types.Quantity{fmt.Sprint("r", i): 1})
		b.settle()
		if n := b.core.queue.Parked(); n != want {
			t.Errorf("%d of %d are asleep, want %d", n, i+1, want)
		}
	}
}

// TestFoldedAsNot: a core that compacts waiting tasks decides like one that does not.
func TestFoldedAsNot(t *testing.T) {
	for seed := range uint64(20) {
		rng := rand.New(rand.NewPCG(seed, 1))
		folds, other := newBench(t, Config{Seed: 1}), newBench(t, Config{Seed: 1})
		other.core.folds = false
		both := func(f func(b *bench)) {
			f(folds)
			f(other)
		}
		both(func(b *bench) { b.node("n1", 4000); b.node("n2", 4000); b.settle() })
		slept := 0
		for i := range 150 {
			name, id, amount := fmt.Sprint("r", rng.IntN(30)), fmt.Sprint("t", i), types.Quantity(1+rng.IntN(3))
			node, job, action := fmt.Sprint("n", 1+rng.IntN(2)), fmt.Sprint("j", i/40), rng.IntN(12)
			both(func(b *bench) {
				b.now = b.now.Add(time.Second)
				switch action {
				case 0, 1, 2, 3:
					b.task(id, map[string]types.Quantity{name: amount, "cpu": amount})
				case 4, 5:
					b.task(id, map[string]types.Quantity{name: amount}, func(t *types.Task) { t.Job = job })
				case 6:
					b.put(controlplane.JobKey("d", job), &types.Job{})
				case 7:
					b.some(name, node, 2)
				case 8:
					b.put(controlplane.ResourceKey("d", name, types.EveryNode), &types.Resource{Capacity: 1})
				case 9:
					b.put(controlplane.NamespaceKey("d"), &types.Namespace{Requests: types.NewRequests(map[string]types.Quantity{"cpu": amount})})
				case 10:
					b.endAll()
				case 11:
					b.del(controlplane.ResourceKey("d", name, node))
				}
				b.settle()
			})
			slept = max(slept, folds.core.queue.Parked())
			if got, want := folds.tasks(), other.tasks(); got != want {
				t.Fatalf("seed %d, step %d: got\n%s\nwant\n%s", seed, i, got, want)
			}
		}
		if folds.core.Waiting() != other.core.Waiting() || slept < 5 {
			t.Errorf("%d wait, want %d; %d slept", folds.core.Waiting(), other.core.Waiting(), slept)
		}
	}
}

// endAll ends everything that is bound.
func (b *bench) endAll() {
	for _, n := range []string{"n1", "n2"} {
		for _, x := range b.core.view.Nodes[n].Bindings {
			if x.Info.V == nil || x.Report.V != nil {
				continue
			}
			b.put(controlplane.ReportKey(n, "d", x.Task.ID.ID, x.Number), &types.Report{Phase: types.ReportExited, Binding: x.Info.Create})
		}
	}
}

// tasks lists the state of every task.
func (b *bench) tasks() string {
	var out []string
	for _, kv := range b.store.Events(0) {
		for _, e := range kv.Events {
			if k, _ := controlplane.Parse(e.Key); k.Kind == controlplane.Statuses {
				out = append(out, k.ID+" "+b.where(k.ID))
			}
		}
	}
	return strings.Join(out, "\n")
}

// TestShrink: memory that a million tasks needed while they were tried is freed when they are
// parked.
func TestShrink(t *testing.T) {
	const tasks = 24 << 10
	core := New(Config{FoldFrom: 1})
	before := inUse()
	hear(core, clustertest.Events(clustertest.Waiting(tasks)))
	core.Next(time.Unix(2000, 0))
	if core.Waiting() != tasks || core.queue.Parked() != tasks {
		t.Errorf("%d wait, %d parked", core.Waiting(), core.queue.Parked())
	}
	after := inUse()
	bytes, objects := (after.HeapAlloc-before.HeapAlloc)/tasks, float64(after.HeapObjects-before.HeapObjects)/tasks
	t.Logf("%d bytes, %.2f objects for each task", bytes, objects)
	if bytes > 500 || objects > 1 {
		t.Errorf("%d bytes and %.2f objects for each task, at most 500 and 1 are to be", bytes, objects)
	}
	runtime.KeepAlive(core)
}

// TestScheduleFoldsNothing: Schedule does not own the view that it reads.
func TestScheduleFoldsNothing(t *testing.T) {
	b := newBench(t, Config{FoldFrom: 100})
	b.node("n1", 64000)
	b.task("own", map[string]types.Quantity{"x": 1})
	b.settle()
	v := b.core.View()
	before := v.Task(clusterID("d", "own"))
	if d := Schedule(v, Config{FoldFrom: 1}, b.now); len(d.Waiting) != 1 || d.Waiting[0].ID != before.ID || v.Task(before.ID) != before {
		t.Errorf("%v waits", d.Waiting)
	}
}
