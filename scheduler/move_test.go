package scheduler

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/escher-sched/escher/controlplane"
	"github.com/escher-sched/escher/types"
)

// moving is a bench of nodes of 2 cores, and a reservation of whole nodes that moves, with a task
// for each.
func moving(t *testing.T, nodes, bundles int, edit ...func(*types.Reservation)) *bench {
	b := newBench(t, Config{})
	for i := range nodes {
		b.node(fmt.Sprintf("n%d", i+1), 2000)
	}
	b.settle()
	r := &types.Reservation{Lost: types.MoveBundles, Submitted: b.now.UnixNano()}
	for i := range bundles {
		r.Bundles = append(r.Bundles, bundleOf(map[string]types.Quantity{"cpu": 2000}))
		b.task(fmt.Sprintf("m%d", i+1), map[string]types.Quantity{"cpu@train": 2000})
	}
	for _, f := range edit {
		f(r)
	}
	b.put(controlplane.ReservationKey("d", "train"), r)
	b.settle()
	return b
}

// at returns the nodes of the bundles, sorted.
func (b *bench) at() string {
	g := b.core.view.Reservations[clusterID("d", "train")].Grant.V
	if g == nil || g.Phase != types.Granted {
		return "not granted"
	}
	return strings.Join(slices.Sorted(slices.Values(g.Bundles)), " ")
}

// members returns the nodes of the members, sorted.
func (b *bench) members(n int) string {
	var out []string
	for i := range n {
		out = append(out, strings.TrimPrefix(b.where(fmt.Sprintf("m%d", i+1)), "bound on "))
	}
	slices.Sort(out)
	return strings.Join(out, " ")
}

func (b *bench) lose(nodes ...string) {
	for _, n := range nodes {
		b.del(controlplane.AliveKey(n))
	}
	b.settle()
}

// TestMoves: the bundle of a lost node gets another one, along with its task in the same
// transaction, and the others stay.
func TestMoves(t *testing.T) {
	b := moving(t, 4, 3)
	if b.at() != b.members(3) {
		t.Fatalf("granted on %s, members on %s", b.at(), b.members(3))
	}
	lost := b.core.view.Task(clusterID("d", "m1")).Status.V.Node
	b.lose(lost)
	if strings.Contains(b.at(), lost) || b.at() != b.members(3) {
		t.Errorf("%s was lost: granted on %s, members on %s", lost, b.at(), b.members(3))
	}
	s := b.status("m1")
	if moved := b.core.view.Reservations[clusterID("d", "train")].Grant.Mod; s.Attempt != 2 || b.core.view.Task(clusterID("d", "m1")).Status.Mod != moved {
		t.Errorf("%+v, at another revision than the grant", s)
	}
	for _, id := range []string{"m2", "m3"} {
		if s := b.status(id); s.Attempt != 1 {
			t.Errorf("%s: %+v", id, s)
		}
	}
	b.node(lost, 2000)
	b.settle()
	if used := b.core.view.Nodes[lost].Used("cpu"); used != 0 {
		t.Errorf("%d of the lost node are in use", used)
	}
}

// TestStaysUnlessItMoves: without MoveBundles the bundles wait for their node.
func TestStaysUnlessItMoves(t *testing.T) {
	b := moving(t, 4, 2, func(r *types.Reservation) { r.Lost = types.WaitForNode })
	was, lost := b.at(), b.status("m1").Node
	b.lose(lost)
	if b.at() != was || b.where("m1") != "pending on "+lost {
		t.Errorf("granted on %s, was on %s; m1 is %s", b.at(), was, b.where("m1"))
	}
	b.node(lost, 2000)
	b.settle()
	b.expect("m1", "bound on "+lost)
}

// TestMovesWhole: of two lost nodes neither bundle moves before both fit, and until then nothing is
// held for them. A node that returns still has its bundle.
func TestMovesWhole(t *testing.T) {
	b := moving(t, 6, 3)
	b.task("hog", map[string]types.Quantity{"cpu": 2000})
	b.task("hog2", map[string]types.Quantity{"cpu": 2000})
	b.settle()
	was, first, second := b.at(), b.status("m1").Node, b.status("m2").Node
	b.lose(first, second)
	if b.at() != was {
		t.Fatalf("granted on %s, was on %s", b.at(), was)
	}
	b.expect("m3", "bound on "+b.status("m3").Node)
	b.task("other", map[string]types.Quantity{"cpu": 2000})
	b.settle()
	if b.status("other").Phase != types.Bound {
		t.Errorf("other is %s: what is free is held for what does not fit", b.where("other"))
	}
	b.node(first, 2000)
	b.settle()
	b.expect("m1", "bound on "+first)
	if b.at() != was {
		t.Errorf("granted on %s, was on %s", b.at(), was)
	}
	b.ended("hog", types.Report{})
	if strings.Contains(b.at(), second) || b.members(3) != b.at() {
		t.Errorf("granted on %s, members on %s", b.at(), b.members(3))
	}
}

// TestMovesWhenDrained: a bundle on a drained node moves once no task draws on it there. It does
// not move if the node is only cordoned, or its tasks are stopped.
func TestMovesWhenDrained(t *testing.T) {
	for _, test := range []struct {
		cordon types.Cordon
		evict  bool
		moves  bool
	}{
		{types.Cordon{Drain: types.DrainMove}, true, true},
		{types.Cordon{Drain: types.DrainMove}, false, false},
		{types.Cordon{Drain: types.DrainFinish}, true, true},
		{types.Cordon{Drain: types.DrainStop}, true, false},
		{types.Cordon{}, true, false},
	} {
		b := moving(t, 3, 2)
		was, node := b.at(), b.status("m1").Node
		b.put(controlplane.CordonKey(node), &test.cordon)
		b.settle()
		if b.at() != was {
			t.Errorf("%+v: moved although it was drawn on", test)
		}
		if test.evict {
			b.task("m1", map[string]types.Quantity{"cpu@train": 2000}, func(t *types.Task) { t.Evict = 1 })
			b.settle()
			b.ended("m1", types.Report{Stopped: true, ExitCode: 143})
		}
		if moved := b.at() != was; moved != test.moves || moved && b.members(2) != b.at() {
			t.Errorf("%+v: granted on %s, was on %s, members on %s", test, b.at(), was, b.members(2))
		}
	}
}

// TestDoesNotMoveWhatIsKept: a task kept on its node keeps its bundle there, until the machine is
// declared dead.
func TestDoesNotMoveWhatIsKept(t *testing.T) {
	b := moving(t, 3, 1)
	b.ended("m1", types.Report{})
	b.task("k", map[string]types.Quantity{"cpu@train": 1000}, func(t *types.Task) { t.OnDisconnect = types.Keep })
	b.settle()
	was, node := b.at(), b.status("k").Node
	b.lose(node)
	if b.at() != was {
		t.Fatalf("granted on %s, was on %s", b.at(), was)
	}
	b.put(controlplane.CordonKey(node), &types.Cordon{Dead: true})
	b.settle()
	if b.at() == was || b.where("k") != "bound on "+b.at() {
		t.Errorf("granted on %s, k is %s", b.at(), b.where("k"))
	}
}

// TestDoesNotMoveInAStorm: when more than half of the nodes are gone, a network failure is
// presumed: bundles wait as long as attempts do.
func TestDoesNotMoveInAStorm(t *testing.T) {
	for _, name := range []string{"over", "back", "dead"} {
		b := moving(t, 5, 2)
		for _, id := range []string{"m1", "m2"} {
			b.ended(id, types.Report{})
		}
		was := b.at()
		lost := append(strings.Fields(was), "n1", "n2", "n3", "n4", "n5")
		slices.Sort(lost[2:])
		lost = slices.Compact(append(lost[:2:2], slices.DeleteFunc(lost[2:], func(n string) bool { return strings.Contains(was, n) })...))[:3]
		b.lose(lost...)
		if b.at() != was {
			t.Fatalf("%s: granted on %s, was on %s", name, b.at(), was)
		}
		if at := b.core.Wake(); at != b.now.Add(5*time.Minute) {
			t.Errorf("%s: it wakes at %s, and it is %s", name, at, b.now)
		}
		switch name {
		case "over":
			b.now = b.now.Add(5 * time.Minute)
		case "back":
			b.node(lost[2], 2000)
		case "dead":
			b.put(controlplane.CordonKey(lost[0]), &types.Cordon{Dead: true})
		}
		b.settle()
		moved := 0
		for _, n := range strings.Fields(was) {
			if !strings.Contains(b.at(), n) {
				moved++
			}
		}
		if want := map[string]int{"over": 2, "back": 2, "dead": 1}[name]; moved != want {
			t.Errorf("%s: granted on %s, was on %s", name, b.at(), was)
		}
	}
}

// TestMovesWithOthersThere: a bundle that moves to a node of its grant adds to the holdings there,
// including devices and pools. A bundle bound to its node stays.
func TestMovesWithOthersThere(t *testing.T) {
	b := newBench(t, Config{})
	for _, n := range []string{"n1", "n2"} {
		b.node(n, 4500)
	}
	b.put(controlplane.ResourceKey("d", "lic", types.ClusterWide), &types.Resource{Capacity: 2000})
	part := types.NewRequests(map[string]types.Quantity{"cpu": 2000, "lic": 1000})
	b.put(controlplane.ReservationKey("d", "train"), &types.Reservation{Lost: types.MoveBundles, Bundles: []types.Bundle{
		{Requests: part}, {Requests: part}, {Requests: types.NewRequests(map[string]types.Quantity{"cpu": 500}), Node: "n1"},
	}})
	b.task("wide", map[string]types.Quantity{"cpu@train": 4000, "lic@train": 2000, "node/n1": 1})
	b.settle()
	if b.at() != "n1 n1 n2" {
		t.Fatalf("granted on %s", b.at())
	}
	b.lose("n2")
	if b.at() != "n1 n1 n1" || b.where("wide") != "bound on n1" {
		t.Errorf("granted on %s, wide is %s", b.at(), b.where("wide"))
	}
	b.node("n2", 4500)
	b.lose("n1")
	if b.at() != "n1 n1 n1" {
		t.Errorf("granted on %s: one must be on n1", b.at())
	}
}

// TestMoveIsTakenOver: a new scheduler continues a move.
func TestMoveIsTakenOver(t *testing.T) {
	b := moving(t, 2, 2)
	b.ended("m1", types.Report{})
	lost := b.status("m1").Node
	b.del(controlplane.AliveKey(lost))
	b.core, b.seen = New(Config{Seed: 2}), 0
	b.settle()
	if b.core.Waiting() != 1 {
		t.Errorf("%d wait, want 1", b.core.Waiting())
	}
	b.node("n3", 2000)
	b.settle()
	if strings.Contains(b.at(), lost) || b.core.Waiting() != 0 {
		t.Errorf("granted on %s, and %d wait", b.at(), b.core.Waiting())
	}
	b.del(controlplane.ReservationKey("d", "train"))
	b.settle()
	if n := b.core.view.Nodes[lost]; n.Allocated.V != nil && len(n.Allocated.V.Holds) > 0 {
		t.Errorf("%v is left on %s", n.Allocated.V, lost)
	}
}

// TestDoesNotMoveWhatIsBound: a bundle that names its node waits for it, and does not block others.
func TestDoesNotMoveWhatIsBound(t *testing.T) {
	b := moving(t, 5, 2, func(r *types.Reservation) { r.Bundles[0].Node = "n1" })
	g := b.core.view.Reservations[clusterID("d", "train")].Grant.V
	free := g.Bundles[1]
	b.lose("n1", free)
	if at := b.core.view.Reservations[clusterID("d", "train")].Grant.V.Bundles; at[0] != "n1" || at[1] == free {
		t.Errorf("granted on %s, and %s was lost", at, free)
	}
}
