package scheduler

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/escher-sched/escher/controlplane"
	"github.com/escher-sched/escher/controlplane/cluster"
	"github.com/escher-sched/escher/types"
)

// TestSettleCompares shows the compares of ended attempts and of stops. Every end writes the
// allocated amounts of its node, even for a task that holds nothing: a release depends on that
// alone.
func TestSettleCompares(t *testing.T) {
	report := controlplane.ReportKey("n1", "d", "a", 1)
	for _, test := range []struct {
		name     string
		requests map[string]types.Quantity
		then     func(b *bench, r *types.Report)
		compares []string
		writes   []string
	}{
		{"released", map[string]types.Quantity{"cpu": 100}, func(b *bench, r *types.Report) {
			r.Phase = types.ReportExited
			b.put(report, r)
		}, []string{"allocated/n1"}, []string{"-bindings/n1/d/a/1", "-reports/n1/d/a/1", "allocated/n1", "status/d/a"}},
		{"released, and held nothing", nil, func(b *bench, r *types.Report) {
			r.Phase = types.ReportExited
			b.put(report, r)
		}, []string{"allocated/n1"}, []string{"-bindings/n1/d/a/1", "-reports/n1/d/a/1", "allocated/n1", "status/d/a"}},
		{"runs", nil, func(b *bench, r *types.Report) {
			r.Phase = types.ReportRunning
			b.put(report, r)
		}, []string{"reports/n1/d/a/1", "status/d/a"}, []string{"status/d/a"}},
		{"lost", nil, func(b *bench, _ *types.Report) {
			b.del(controlplane.AliveKey("n1"))
		}, []string{"alive/n1", "allocated/n1", "reports/n1/d/a/1"}, []string{"-bindings/n1/d/a/1", "allocated/n1", "status/d/a"}},
	} {
		t.Run(test.name, func(t *testing.T) {
			b := newBench(t, Config{})
			b.node("n1", 2000)
			b.task("a", test.requests)
			b.settle()
			b.expect("a", "bound on n1")
			test.then(b, &types.Report{Binding: b.core.view.Nodes["n1"].Allocated.Mod})
			for _, batch := range b.store.Events(b.seen + 1) {
				b.core.Apply(batch, b.now)
			}
			drafts := b.core.Next(b.now)
			if len(drafts) != 1 {
				t.Fatalf("%d transactions, want 1", len(drafts))
			}
			var compares, writes []string
			txn := drafts[0].Change.Txn()
			for _, x := range txn.Compares {
				compares = append(compares, strings.TrimPrefix(x.Key, controlplane.Root))
			}
			for _, op := range txn.Ops {
				key := strings.TrimPrefix(op.Key, controlplane.Root)
				if op.Delete {
					key = "-" + key
				}
				writes = append(writes, key)
			}
			slices.Sort(compares)
			slices.Sort(writes)
			if !slices.Equal(compares, test.compares) || !slices.Equal(writes, test.writes) {
				t.Errorf("compares %v, writes %v\nwant %v, %v", compares, writes, test.compares, test.writes)
			}
		})
	}
}

// TestHealthIsTold: the status has the last reported health of a running task, and its healthy
// resources exist while it is healthy.
func TestHealthIsTold(t *testing.T) {
	b := newBench(t, Config{})
	b.node("n1", 2000)
	b.task("web", map[string]types.Quantity{"cpu": 100}, func(t *types.Task) {
		t.Provides = []types.Provide{{Name: "ready", Amount: 1000, When: types.WhenHealthy}}
	})
	b.settle()
	binding := b.core.view.Nodes["n1"].Allocated.Mod
	for i, health := range []types.Health{types.HealthStarting, types.Unhealthy, types.Healthy, types.Unhealthy, ""} {
		b.put(controlplane.ReportKey("n1", "d", "web", 1), &types.Report{Phase: types.ReportRunning, Binding: binding, Health: health})
		b.settle()
		s := b.core.view.Task(cluster.ID{Namespace: "d", ID: "web"}).Status.V
		if s.Phase != types.Running || s.Health != health {
			t.Errorf("%s, %q, want %q", s.Phase, s.Health, health)
		}
		who := fmt.Sprintf("t%d", i)
		b.task(who, map[string]types.Quantity{"ready": 1})
		b.settle()
		want := "pending"
		if health.Usable() {
			want = "bound on n1"
		}
		b.expect(who, want)
	}
}

// TestStopSooner: a stop that replaces another one is written.
func TestStopSooner(t *testing.T) {
	b := newBench(t, Config{})
	b.node("n1", 2000)
	b.task("a", nil)
	b.settle()
	for _, grace := range []time.Duration{0, 9, 1} {
		b.task("a", nil, func(t *types.Task) { t.Stop = &types.Stop{Grace: grace} })
		b.settle()
		got := b.core.view.Task(cluster.ID{Namespace: "d", ID: "a"}).Bindings[0].Info.V.Stop
		if got == nil || got.Grace != grace {
			t.Errorf("stopped with %d: %+v", grace, got)
		}
	}
}

// TestOnDisconnect: the fate of an attempt when the session of its node ends.
func TestOnDisconnect(t *testing.T) {
	for what, want := range map[types.OnDisconnect]string{
		types.Fence: "bound on n2", types.StopLost: "failed on n1", types.Keep: "bound on n1",
	} {
		t.Run(what.String(), func(t *testing.T) {
			b := newBench(t, Config{})
			b.node("n1", 1000)
			b.task("a", map[string]types.Quantity{"cpu": 1000}, func(t *types.Task) { t.OnDisconnect = what })
			b.settle()
			b.expect("a", "bound on n1")
			b.node("n2", 1000)
			b.del(controlplane.AliveKey("n1"))
			b.settle()
			b.expect("a", want)
			if what == types.StopLost {
				b.node("n3", 1000) // It never runs again.
				b.settle()
				b.expect("a", want)
			}
		})
	}
}

// TestDeadNodeGivesUpWhatIsKept: a Keep task stays bound to a lost node until that is declared
// dead. A node that is alive again by then keeps it.
func TestDeadNodeGivesUpWhatIsKept(t *testing.T) {
	kept := func(t *types.Task) { t.OnDisconnect = types.Keep }
	b := newBench(t, Config{})
	b.node("n1", 2000)
	b.node("n2", 2000)
	for _, node := range []string{"n1", "n2"} {
		b.task(node+"-kept", map[string]types.Quantity{"cpu": 1000, "node/" + node: 1}, kept)
	}
	b.settle()
	alive := &types.Alive{}
	for _, node := range []string{"n1", "n2"} {
		b.del(controlplane.AliveKey(node))
	}
	b.settle()
	b.expect("n1-kept", "bound on n1")
	b.put(controlplane.CordonKey("n1"), &types.Cordon{Dead: true})
	b.put(controlplane.CordonKey("n2"), &types.Cordon{})
	b.settle()
	b.expect("n1-kept", "pending on n1")
	b.expect("n2-kept", "bound on n2")
	if got := b.core.view.Nodes["n1"].Allocated.V; got != nil && len(got.Holds) > 0 {
		t.Errorf("still held: %+v", got.Holds)
	}
	// A machine that is alive is not dead, whatever its cordon says.
	b.put(controlplane.AliveKey("n2"), alive)
	b.put(controlplane.CordonKey("n2"), &types.Cordon{Dead: true})
	b.settle()
	b.expect("n2-kept", "bound on n2")
	b.del(controlplane.AliveKey("n2"))
	b.settle()
	b.expect("n2-kept", "pending on n2")
}

// TestDeadNodeComparesItsCordon: the declaration is withdrawn while a Keep task is given up.
func TestDeadNodeComparesItsCordon(t *testing.T) {
	b := newBench(t, Config{})
	b.node("n1", 2000)
	b.task("a", map[string]types.Quantity{"cpu": 100}, func(t *types.Task) { t.OnDisconnect = types.Keep })
	b.settle()
	b.del(controlplane.AliveKey("n1"))
	b.put(controlplane.CordonKey("n1"), &types.Cordon{Dead: true})
	b.see()
	d := b.core.nextOne(b.now)
	b.del(controlplane.CordonKey("n1"))
	res, err := b.store.Commit(t.Context(), d.Change.Txn())
	if err != nil || res.Committed {
		t.Fatal(res, err)
	}
	b.done(d, res)
	b.settle()
	b.expect("a", "bound on n1")
}

// TestEvictionHasItsGrace: a binding gets the grace of the eviction.
func TestEvictionHasItsGrace(t *testing.T) {
	b := newBench(t, Config{})
	b.node("n1", 2000)
	b.task("a", map[string]types.Quantity{"cpu": 100})
	b.settle()
	x := b.core.view.Task(cluster.ID{Namespace: "d", ID: "a"})
	told := *x.Info.V.Full()
	told.Evict, told.EvictGrace = 1, 3*time.Second
	b.put(controlplane.TaskKey("d", "a"), &told)
	b.settle()
	if got := x.Bindings[0].Info.V.Stop; got == nil || !got.Evicted || got.Grace != 3*time.Second {
		t.Errorf("told %+v", got)
	}
}

// TestEvictionIsNotPutOff: a stop that replaces an eviction ends the attempt no later, and a sooner
// one is written.
func TestEvictionIsNotPutOff(t *testing.T) {
	b := newBench(t, Config{})
	b.node("n1", 2000)
	b.task("a", nil)
	b.settle()
	x := b.core.view.Task(cluster.ID{Namespace: "d", ID: "a"})
	for _, c := range []struct {
		evict int
		grace time.Duration
		stop  *types.Stop
		want  types.Stop
	}{
		{1, 0, nil, types.Stop{Reason: "evicted", Evicted: true}},
		{1, 9, nil, types.Stop{Reason: "evicted", Grace: 9, Evicted: true}},
		{1, 5, nil, types.Stop{Reason: "evicted", Grace: 5, Evicted: true}},
		{0, 0, &types.Stop{Reason: "x"}, types.Stop{Reason: "x", Grace: 5}},
		{1, 4, &types.Stop{Reason: "x"}, types.Stop{Reason: "x", Grace: 4}},
		{1, 4, &types.Stop{Reason: "y", Grace: 3}, types.Stop{Reason: "y", Grace: 3}},
	} {
		task := *x.Info.V.Full()
		task.Evict, task.EvictGrace, task.Stop = c.evict, c.grace, c.stop
		b.put(controlplane.TaskKey("d", "a"), &task)
		b.settle()
		if got := x.Bindings[0].Info.V.Stop; got == nil || *got != c.want {
			t.Errorf("evicted %d with %d, stop %+v: told %+v, want %+v", c.evict, c.grace, c.stop, got, c.want)
		}
	}
}
