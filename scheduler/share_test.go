package scheduler

import (
	"fmt"
	"testing"
	"time"

	"github.com/escher-sched/escher/controlplane"
	"github.com/escher-sched/escher/types"
)

// sharing returns schedulers with these names that share one store.
func sharing(t *testing.T, names ...string) []*bench {
	first := newBench(t, Config{Name: names[0], Shared: true, Seed: 1})
	all := []*bench{first}
	for i, name := range names[1:] {
		all = append(all, &bench{t: t, store: first.store, core: New(Config{Name: name, Shared: true, Seed: uint64(i + 2)}), now: first.now})
	}
	for _, name := range names {
		first.put(controlplane.SchedulerKey(name), &types.Leader{Holder: name})
	}
	return all
}

// TestSchedulersKeepToTheirPart: sharing schedulers decide at the same time, and none of their
// transactions is refused while each finds capacity on its own nodes.
func TestSchedulersKeepToTheirPart(t *testing.T) {
	t.Run("spread", func(t *testing.T) { keepToTheirPart(t, map[string]types.Quantity{"cpu": 1000}, false) })
	// Several devices are not in the index.
	t.Run("packed", func(t *testing.T) { keepToTheirPart(t, map[string]types.Quantity{"cpu": 500, "gpu": 2000}, true) })
}

func keepToTheirPart(t *testing.T, asked map[string]types.Quantity, devices bool) {
	t.Helper()
	all := sharing(t, "s1", "s2", "s3", "s4")
	b := all[0]
	for i := range 400 {
		name := fmt.Sprintf("n%03d", i)
		b.node(name, 1000)
		if devices {
			x := &types.Devices{}
			for j := range 4 {
				x.Devices = append(x.Devices, types.Device{ID: fmt.Sprint("g", j), Resource: "gpu"})
			}
			b.put(controlplane.NodeKey(name), &types.Node{Capacity: types.NewRequests(map[string]types.Quantity{"cpu": 1000, "gpu": 4000})})
			b.put(controlplane.DevicesKey(name), x)
		}
	}
	for i := range 200 {
		b.put(controlplane.TaskKey(fmt.Sprintf("ns%d", i%16), fmt.Sprintf("t%d", i)), &types.Task{
			Requests: types.NewRequests(asked), Submitted: 1,
		})
	}
	bound := 0
	for range 20 {
		drafts := make([][]*Transaction, len(all))
		for i, x := range all {
			x.see()
			drafts[i] = x.core.Next(x.now)
		}
		for i, x := range all {
			for _, d := range drafts[i] {
				res, err := x.store.Commit(t.Context(), d.Change.Txn())
				if err != nil || !res.Committed {
					t.Fatal("refused", err)
				}
				bound += len(d.Binds)
				x.done(d, res)
			}
		}
	}
	if bound != 200 {
		t.Errorf("%d were bound", bound)
	}
}

// TestPartIsSharedOut: the tasks of a transaction per node follow from the scheduler's own part,
// not from all nodes.
func TestPartIsSharedOut(t *testing.T) {
	all := sharing(t, "s1", "s2", "s3", "s4")
	b := all[0]
	for i := range 100 {
		b.node(fmt.Sprintf("n%03d", i), 100_000)
	}
	for i := range 100 {
		b.task(fmt.Sprint("t", i), map[string]types.Quantity{"cpu": 1000}, func(x *types.Task) { x.Scheduler = "s1" })
	}
	b.see()
	if d := b.core.nextOne(b.now); 2*d.NumNodes() > len(d.Binds) {
		t.Errorf("%d tasks on %d nodes", len(d.Binds), d.NumNodes())
	}
}

// TestWhatIsInFlightLeavesThePart: while most nodes of its part are in flight, a scheduler waits
// and does not use the parts of others.
func TestWhatIsInFlightLeavesThePart(t *testing.T) {
	first := newBench(t, Config{Name: "s1", Shared: true, Seed: 1, BatchTasks: 8, Gather: 2})
	for _, name := range []string{"s1", "s2", "s3", "s4"} {
		first.put(controlplane.SchedulerKey(name), &types.Leader{Holder: name})
	}
	for i := range 80 {
		first.node(fmt.Sprintf("n%03d", i), 1000)
	}
	for i := range 64 {
		first.task(fmt.Sprint("t", i), map[string]types.Quantity{"cpu": 600}, func(x *types.Task) { x.Scheduler = "s1" })
	}
	first.see()
	from, to := first.core.part()
	drafts := first.core.Next(first.now)
	if len(drafts) < 2 {
		t.Errorf("%d are in flight", len(drafts))
	}
	for _, d := range drafts {
		for n := range d.Nodes() {
			if pos := first.core.nodes.Pos(n); pos < from || pos >= to {
				t.Errorf("%s is another scheduler's", n.Name)
			}
		}
	}
}

// TestTakeover: the work of a vanished scheduler is taken over, and nothing else is rechecked.
func TestTakeover(t *testing.T) {
	all := sharing(t, "s1", "s2")
	b := all[0]
	b.node("n1", 1000)
	for i := range 40 {
		b.put(controlplane.TaskKey(fmt.Sprintf("ns%d", i), "t"), &types.Task{
			Requests: types.NewRequests(map[string]types.Quantity{"cpu": 1000, "none": 1}), Submitted: 1,
		})
	}
	b.settle()
	before := b.core.Waiting()
	if before == 0 || before == 40 {
		t.Fatalf("%d of 40 are its own", before)
	}
	b.del(controlplane.SchedulerKey("s2"))
	b.see()
	if n := b.core.Waiting(); n != 40 {
		t.Errorf("%d wait", n)
	}
	if n := ready(b); n != 40-before {
		t.Errorf("%d are to be tried, want %d", n, 40-before)
	}
	b.settle()
	b.put(controlplane.SchedulerKey("s2"), &types.Leader{Holder: "s2"})
	b.see()
	if n := b.core.Waiting(); n != before {
		t.Errorf("%d wait when it is back, want %d", n, before)
	}
}

// TestAttemptsOfASchedulerThatIsGone: the bindings of a named scheduler that no longer runs are
// released, lost and stopped by the scheduler of the namespace, and its waiting tasks fail at their
// deadlines. While it runs, the other leaves them alone.
func TestAttemptsOfASchedulerThatIsGone(t *testing.T) {
	for _, shared := range []bool{false, true} {
		b := newBench(t, Config{Name: "s1", Shared: shared})
		if shared {
			b.put(controlplane.SchedulerKey("s1"), &types.Leader{Holder: "s1"})
		}
		own := &bench{t: t, store: b.store, core: New(Config{Name: "own"}), now: b.now}
		b.put(controlplane.SchedulerKey("own"), &types.Leader{Holder: "own"})
		b.node("n1", 4000)
		b.node("n2", 4000)
		of := func(t *types.Task) { t.Scheduler = "own" }
		for _, id := range []string{"ended", "stopped", "later"} {
			b.task(id, map[string]types.Quantity{"cpu": 1000, "node/n1": 1}, of)
		}
		b.task("lost", map[string]types.Quantity{"cpu": 1000, "node/n2": 1}, of)
		b.task("late", map[string]types.Quantity{"cpu": 9000}, of, func(t *types.Task) { t.Deadline = b.now.Add(time.Minute).UnixNano() })
		own.settle()
		b.settle()
		b.ended("ended", types.Report{})
		b.del(controlplane.AliveKey("n2"))
		stop := b.core.view.Task(clusterID("d", "stopped")).Info.V.Full()
		stop.Stop = &types.Stop{Reason: "enough"}
		b.put(controlplane.TaskKey("d", "stopped"), stop)
		b.settle()
		for _, id := range []string{"ended", "stopped", "lost", "later"} {
			if s := b.status(id); s.Phase != types.Bound {
				t.Fatalf("%s is %s, while its scheduler runs", id, s.Phase)
			}
		}
		b.del(controlplane.SchedulerKey("own"))
		b.settle()
		b.ended("later", types.Report{ExitCode: 1})
		b.settle()
		b.expect("late", "pending")
		b.now = b.now.Add(time.Minute)
		b.settle()
		for id, want := range map[string]types.Phase{"ended": types.Succeeded, "stopped": types.Bound, "lost": types.Pending, "later": types.Failed, "late": types.Failed} {
			if s := b.status(id); s.Phase != want {
				t.Errorf("shared %t: %s is %s, want %s", shared, id, s.Phase, want)
			}
		}
		if x := b.core.view.Task(clusterID("d", "stopped")).Bindings[0].Info.V; x.Stop == nil {
			t.Errorf("shared %t: the stop is not told", shared)
		}
	}
}
