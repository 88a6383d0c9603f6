package sim

import (
	"fmt"
	"testing"
	"time"

	"github.com/escher-sched/escher/controlplane"
	"github.com/escher-sched/escher/types"
)

// alone makes a cluster of one scheduler.
func alone(t *testing.T, nodes int) *bench {
	t.Helper()
	return newBench(t, Config{Seed: 1, Schedulers: 1, Nodes: nodes, Tasks: 1})
}

func TestShrinkBelowUse(t *testing.T) {
	b := alone(t, 1)
	b.resource("x", "n0", 5000)
	b.task("t1", need("x", 4000))
	b.calm()
	b.resource("x", "n0", 2000)
	b.task("t2", need("x", 500))
	b.calm()
	b.is("t1", types.Running, "n0")
	b.is("t2", types.Pending, "")
	// 4 of 5 are held; after 2 and 5 again, one is free.
	b.resource("x", "n0", 5000)
	b.task("t3", need("x", 600))
	b.calm()
	b.is("t2", types.Running, "n0")
	b.is("t3", types.Pending, "")
	b.ok()
}

func TestDeleteAndRecreateWhileHeld(t *testing.T) {
	for _, where := range []string{"n0", "+", "*"} {
		b := alone(t, 1)
		b.resource("x", where, 3000)
		b.task("t1", need("x", 2000))
		b.calm()
		b.delete(controlplane.ResourceKey("a", "x", where))
		b.task("t2", need("x", 2000))
		b.calm()
		b.is("t1", types.Running, "n0")
		b.is("t2", types.Pending, "")
		// Re-creating it keeps its holders.
		b.resource("x", where, 3000)
		b.calm()
		b.is("t2", types.Pending, "")
		b.end("t1", 0)
		b.calm()
		b.is("t2", types.Running, "n0")
		b.ok()
	}
}

func TestSessionLost(t *testing.T) {
	b := alone(t, 2)
	b.resource("x", "n0", 1000)
	b.task("t1", need("x", 1000))
	b.task("kept", need("x", 0+1, "cpu", 100), func(t *types.Task) { t.OnDisconnect = types.Keep })
	b.resource("x", "n0", 2000)
	b.calm()
	b.is("t1", types.Running, "n0")
	b.is("kept", types.Running, "n0")
	b.lost(0)
	b.calm()
	b.is("t1", types.Pending, "n0")
	b.is("kept", types.Running, "n0")
	// The node's own resources belonged to its session.
	b.agents[0].enter()
	b.calm()
	b.is("t1", types.Pending, "n0")
	b.resource("x", "n1", 1000)
	b.calm()
	b.is("t1", types.Running, "n1")
	b.is("kept", types.Running, "n0")
	b.end("kept", 0)
	b.calm()
	b.is("kept", types.Succeeded, "n0")
	b.ok()
}

func TestNodeLostAndBack(t *testing.T) {
	b := alone(t, 2)
	b.task("t1", need("cpu", room))
	b.task("t2", need("cpu", room))
	b.calm()
	b.lost(1)
	b.agents[1].enter()
	b.calm()
	lost := "t1"
	if b.status(ref{"a", "t1"}).Attempt == 1 {
		lost = "t2"
	}
	b.is(lost, types.Running, "n1")
	if s := b.status(ref{"a", lost}); s.Attempt != 2 {
		t.Errorf("it is attempt %d", s.Attempt)
	}
	b.ok()
}

// TestLostProvider: what an attempt of an earlier session provides is void, even before its
// release.
func TestLostProvider(t *testing.T) {
	b := newBench(t, Config{Seed: 1, Schedulers: 2, Nodes: 1, Tasks: 1})
	b.task("t1", need("cpu", 100), by("s1"), provides("p", types.WhenBound))
	b.schedule(1)
	b.agentsWork()
	b.lost(0)
	b.agents[0].enter()
	b.task("t2", need("p", 1000), by("s0"))
	b.schedule(0)
	b.is("t2", types.Pending, "")
	b.calm()
	b.is("t2", types.Running, "n0")
	b.ok()
}

func TestStopRacingBind(t *testing.T) {
	b := alone(t, 1)
	b.task("t1", need("cpu", 100))
	b.drafts(0)
	b.apps.halt(ref{"a", "t1"})
	if b.sends(0) != 1 {
		t.Error("it was bound")
	}
	b.calm()
	b.is("t1", types.Cancelled, "")
	// Bound, and stopped before it starts.
	b.task("t2", need("cpu", 100))
	b.schedule(0)
	b.apps.halt(ref{"a", "t2"})
	b.calm()
	b.is("t2", types.Cancelled, "n0")
	b.ok()
}

func TestEvictRacingExit(t *testing.T) {
	b := alone(t, 1)
	evict := func(id string) {
		b.apps.edit(ref{"a", id}, func(t *types.Task) bool { t.Evict = 1; return true })
	}
	for _, id := range []string{"exits", "fails", "evicted", "stopped-too"} {
		b.task(id, need("cpu", 100))
	}
	b.calm()
	for _, id := range []string{"exits", "fails", "evicted", "stopped-too"} {
		evict(id)
	}
	b.schedule(0) // the bindings have the eviction, and the agent has not seen it
	b.exit("exits", 0)
	b.exit("fails", 3)
	b.apps.halt(ref{"a", "stopped-too"})
	b.calm()
	b.is("exits", types.Succeeded, "n0")
	b.is("fails", types.Failed, "n0")
	b.is("evicted", types.Running, "n0")
	if s := b.status(ref{"a", "evicted"}); s.Attempt != 2 {
		t.Errorf("it is attempt %d", s.Attempt)
	}
	b.is("stopped-too", types.Cancelled, "n0")
	b.ok()
}

func TestReportOfAnOldAttempt(t *testing.T) {
	b := alone(t, 1)
	b.task("t1", need("cpu", 100))
	b.calm()
	a := b.agents[0]
	old := a.all()[0]
	b.lost(0)
	a.enter()
	b.calm()
	b.is("t1", types.Running, "n0")
	a.report(old, &types.Report{Phase: types.ReportExited, Binding: old.create}, nil)
	if !old.seen.Refused {
		t.Error("a report of a binding that is gone was taken")
	}
	b.calm()
	b.is("t1", types.Running, "n0")
	b.ok()
}

func TestCordonRacingBind(t *testing.T) {
	b := alone(t, 1)
	b.task("t1", need("cpu", 100))
	b.drafts(0)
	b.put(controlplane.CordonKey("n0"), &types.Cordon{})
	if b.sends(0) != 1 {
		t.Error("it was bound")
	}
	b.calm()
	b.is("t1", types.Pending, "")
	b.delete(controlplane.CordonKey("n0"))
	b.calm()
	b.is("t1", types.Running, "n0")
	b.ok()
}

// TestPartnerInTheSamePass: a task that needs a provided resource is bound in the same transaction
// as the provider, whichever was submitted first.
func TestPartnerInTheSamePass(t *testing.T) {
	b := alone(t, 3)
	for i := range 4 {
		b.task(fmt.Sprintf("consumer%d", i), need("p", 250))
	}
	b.task("provider", need("cpu", 100), provides("p", types.WhenBound))
	b.drafts(0)
	if n := len(b.members[0].flights); n != 1 {
		t.Fatalf("%d transactions", n)
	}
	if n := len(b.members[0].flights[0].draft.Binds); n != 5 {
		t.Errorf("%d of 5 are bound at once", n)
	}
	b.calm()
	at := b.status(ref{"a", "provider"}).Node
	for i := range 4 {
		b.is(fmt.Sprintf("consumer%d", i), types.Running, at)
	}
	b.task("one-more", need("p", 1))
	b.calm()
	b.is("one-more", types.Pending, "")
	b.ok()
}

// TestSignals: tasks that wait for a start wait for its report, those that wait for success until
// after the release; and resources left behind stay.
func TestSignals(t *testing.T) {
	b := alone(t, 2)
	b.task("first", need("cpu", 100), func(t *types.Task) {
		t.Provides = []types.Provide{{Name: "up", Amount: 1000, When: types.WhenRunning}, {Name: "done", Amount: 1000, When: types.WhenSucceeded}}
	})
	b.task("with", need("up", 1000))
	b.task("after", need("done", 1000))
	b.schedule(0)
	b.is("first", types.Bound, "")
	b.is("with", types.Pending, "")
	b.calm()
	b.is("with", types.Running, b.status(ref{"a", "first"}).Node)
	b.is("after", types.Pending, "")
	b.end("first", 0)
	b.calm()
	b.is("with", types.Running, "")
	b.is("after", types.Running, b.status(ref{"a", "first"}).Node)
	b.end("after", 0)
	b.task("again", need("done", 1000))
	b.calm()
	b.is("again", types.Running, "")
	b.task("failing", need("cpu", 100), provides("never", types.WhenSucceeded))
	b.task("waiting", need("never", 1000))
	b.calm()
	b.end("failing", 1)
	b.calm()
	b.is("waiting", types.Pending, "")
	b.ok()
}

func TestAlternatives(t *testing.T) {
	b := alone(t, 3)
	b.resource("x", "n1", 1000)
	b.put(controlplane.CordonKey("n0"), &types.Cordon{})
	choose := func(t *types.Task) {
		t.Alternatives = []types.Alternative{
			{Requests: need("node/n0", 1)},
			{Requests: need("x", 1000), After: 3 * time.Second},
			{Requests: need("node/n2", 1), After: 5 * time.Second},
		}
	}
	b.task("t1", need("cpu", 100), choose)
	b.task("t2", need("cpu", 100), choose)
	b.schedule(0)
	b.is("t1", types.Pending, "")
	at := b.members[0].core.Wake()
	if want := b.now.Add(3 * time.Second); !at.Equal(want) {
		t.Errorf("it wakes at %s, want %s", at, want)
	}
	b.later(3 * time.Second)
	b.schedule(0)
	b.is("t1", types.Bound, "n1")
	b.is("t2", types.Pending, "")
	b.later(2 * time.Second)
	b.schedule(0)
	b.is("t2", types.Bound, "n2")
	b.task("t3", need("cpu", 100), choose)
	b.schedule(0)
	b.is("t3", types.Pending, "")
	b.delete(controlplane.CordonKey("n0"))
	b.schedule(0)
	b.is("t3", types.Bound, "n0")
	b.ok()
}

func TestPriorityAndAge(t *testing.T) {
	b := alone(t, 1)
	b.put(controlplane.CordonKey("n0"), &types.Cordon{})
	b.schedule(0)
	submit := func(id string, priority int) {
		b.task(id, need("cpu", room, "memory", 1+len(b.apps.tasks)%3), func(t *types.Task) { t.Priority = priority })
		b.later(time.Millisecond)
		b.schedule(0)
	}
	submit("low-old", 0)
	submit("high-old", 5)
	submit("low-young", 0)
	submit("high-young", 5)
	submit("highest", 9)
	b.delete(controlplane.CordonKey("n0"))
	for _, id := range []string{"highest", "high-old", "high-young", "low-old", "low-young"} {
		b.calm()
		b.is(id, types.Running, "n0")
		b.end(id, 0)
	}
	b.calm()
	b.ok()
}

func TestLossIsBounded(t *testing.T) {
	b := alone(t, 5)
	for i := range 100 {
		b.task(fmt.Sprintf("t%d", i), need("cpu", 100, "node/n0", 1), func(t *types.Task) { t.Requests = need("cpu", 80) })
	}
	b.calm()
	pending := func() (n int) {
		for _, id := range b.apps.tasks {
			if s := b.status(id); s.Phase == types.Pending || s.Attempt > 1 {
				n++
			}
		}
		return n
	}
	on := len(b.list(controlplane.Prefix(controlplane.Bindings, "n0")).KVs)
	for i := 1; i < 5; i++ {
		b.put(controlplane.CordonKey(fmt.Sprintf("n%d", i)), &types.Cordon{})
	}
	b.lost(0)
	b.schedule(0)
	// 20 at once, and 20 per second.
	if n := pending(); n != min(20, on) {
		t.Errorf("%d of %d were given up at once", n, on)
	}
	b.later(100 * time.Millisecond)
	b.schedule(0)
	if n := pending(); n != min(22, on) {
		t.Errorf("%d of %d were given up after 100 ms", n, on)
	}
	b.ok()
}

func TestStormIsHeld(t *testing.T) {
	b := alone(t, 4)
	for i := range 4 {
		b.task(fmt.Sprintf("t%d", i), need(fmt.Sprintf("node/n%d", i), 1))
	}
	b.calm()
	for i := range 3 {
		b.lost(i)
	}
	b.schedule(0)
	for i := range 3 {
		b.is(fmt.Sprintf("t%d", i), types.Running, "")
	}
	// A scheduler started meanwhile holds back too.
	b.members[0].start()
	b.schedule(0)
	b.is("t0", types.Running, "n0")
	// One returns, in a new session: half of them are present, so the loss was their own.
	b.agents[0].enter()
	b.schedule(0)
	b.is("t0", types.Bound, "n0")
	for i := 1; i < 3; i++ {
		b.is(fmt.Sprintf("t%d", i), types.Pending, "")
	}
	b.ok()
}

func TestStormEnds(t *testing.T) {
	b := alone(t, 4)
	b.task("t0", need("cpu", room))
	b.task("t1", need("node/n3", 1))
	b.calm()
	for i := range 4 {
		b.lost(i)
	}
	b.schedule(0)
	b.is("t0", types.Running, "")
	b.later(20 * time.Second)
	b.schedule(0)
	b.is("t0", types.Pending, "")
	b.is("t1", types.Pending, "")
	b.ok()
}

func TestDevices(t *testing.T) {
	b := alone(t, 1) // four devices
	b.task("half", need("gpu", 500))
	b.task("third", need("gpu", 300))
	b.task("two", need("gpu", 2000))
	b.calm()
	b.task("one", need("gpu", 1000))
	b.later(time.Second)
	b.task("more", need("gpu", 1000))
	b.calm()
	for _, id := range []string{"half", "third", "two", "one"} {
		b.is(id, types.Running, "n0")
	}
	// The fractions share one device, so that a whole one was left; 0.2 is not enough.
	b.is("more", types.Pending, "")
	b.task("fifth", need("gpu", 200))
	b.calm()
	b.is("fifth", types.Running, "n0")
	b.ok()
}

func TestQuota(t *testing.T) {
	b := alone(t, 2)
	b.put(controlplane.ResourceKey("admin", "quota", "*"), &types.Resource{Capacity: 1000},
		controlplane.NamespaceKey("a"), &types.Namespace{Quotas: []types.Quota{{Resource: types.CPU, Pool: "admin:quota"}}})
	b.task("t1", need("cpu", 600))
	b.task("t2", need("cpu", 600))
	b.reserve("r", nil, bundle("", "cpu", 400))
	b.task("drawn", need("cpu@r", 400))
	b.calm()
	b.is("t1", types.Running, "")
	b.is("t2", types.Pending, "")
	// The reservation counts against the quota; its draws do not.
	b.is("drawn", types.Running, "")
	b.end("t1", 0)
	b.calm()
	b.is("t2", types.Running, "")
	b.ok()
}

// TestTakeover: the schedulers divide the namespaces, and take over from one that ends.
func TestTakeover(t *testing.T) {
	b := newBench(t, Config{Seed: 1, Schedulers: 3, Shared: true, Nodes: 2, Tasks: 1})
	for round := range 3 {
		for i := range 9 {
			ns := fmt.Sprintf("ns%d", i)
			b.put(controlplane.TaskKey(ns, fmt.Sprintf("t%d", round)), &types.Task{Requests: need("cpu", 10)})
		}
		took := 0
		alive := b.members[:3-round]
		for i, m := range alive {
			b.drafts(i)
			for _, f := range m.flights {
				took += len(f.draft.Binds)
			}
		}
		if took != 9 {
			t.Errorf("round %d: %d drafts for 9 tasks", round, took)
		}
		for i := range alive {
			if refused := b.sends(i); refused > 0 && round == 0 {
				t.Logf("%d refused, of the same node", refused)
			}
		}
		for range 3 {
			for i := range alive {
				b.schedule(i)
			}
		}
		for i := range 9 {
			if s := b.status(ref{fmt.Sprintf("ns%d", i), fmt.Sprintf("t%d", round)}); s.Phase != types.Bound {
				t.Errorf("round %d: ns%d has its task %s", round, i, s.Phase)
			}
		}
		b.store.ExpireLease(b.members[2-round].lease)
	}
	b.check()
	b.ok()
}

func TestTaskOfAJobThatIsNotThere(t *testing.T) {
	b := alone(t, 1)
	for i := range 3 {
		b.task(fmt.Sprintf("t%d", i), need("cpu", 100), func(t *types.Task) { t.Job = "j" })
	}
	b.calm()
	b.is("t0", types.Pending, "")
	b.put(controlplane.JobKey("a", "j"), &types.Job{Tasks: 3})
	b.calm()
	for i := range 3 {
		b.is(fmt.Sprintf("t%d", i), types.Running, "n0")
	}
	b.ok()
}

func TestTaskOfAnotherScheduler(t *testing.T) {
	b := newBench(t, Config{Seed: 1, Schedulers: 2, Nodes: 1, Tasks: 1})
	b.task("t1", need("cpu", 100), by("s1"))
	b.schedule(0)
	b.is("t1", types.Pending, "")
	b.schedule(1)
	b.is("t1", types.Bound, "n0")
	b.ok()
}
