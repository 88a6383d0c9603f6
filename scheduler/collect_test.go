package scheduler

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/escher-sched/escher/controlplane"
	"github.com/escher-sched/escher/controlplane/grants"
	"github.com/escher-sched/escher/types"
)

// grant returns the grant of reservation r; an empty one if there is none.
func (b *bench) grant() *types.Grant { return b.grantAt("r") }

// reserve submits bundles that may accumulate.
func (b *bench) reserve(bundles ...types.Bundle) {
	b.t.Helper()
	b.put(controlplane.ReservationKey("d", "r"), &types.Reservation{Accumulate: true, Submitted: b.now.UnixNano(), Bundles: bundles})
	b.settle()
}

// direct directs a task or reservation, as a library does; no node ends the collection.
func (b *bench) direct(id string, lendUntil int64, on ...string) {
	b.t.Helper()
	to := &types.Collect{On: on, LendUntil: lendUntil}
	if len(on) == 0 {
		to = nil
	}
	if t := b.core.view.Task(clusterID("d", id)); t != nil {
		now := t.Info.V.Full()
		types.UpdateLater(now, func(l *types.Later) { l.Collect = to })
		b.put(controlplane.TaskKey("d", id), now)
	} else {
		now := *b.core.view.Reservations[clusterID("d", id)].Info.V
		now.Collect = to
		b.put(controlplane.ReservationKey("d", id), &now)
	}
	b.settle()
}

// collects returns the cpu that a task or reservation holds on each of some nodes.
func (b *bench) collects(id string, nodes ...string) string {
	var out []types.Quantity
	for _, n := range nodes {
		out = append(out, grants.HeldOf(b.grantAt(id).On(n), types.CPU))
	}
	return fmt.Sprint(out)
}

// hogged is three nodes of one core with a task on each that takes 100, 200 and 300 of it.
func hogged(t *testing.T) *bench {
	t.Helper()
	b := newBench(t, Config{})
	for i, n := range []string{"n1", "n2", "n3"} {
		b.node(n, 1000)
		b.task("hog"+n, map[string]types.Quantity{"cpu": types.Quantity(100 * (i + 1)), "node/" + n: 1})
	}
	b.settle()
	return b
}

// TestCollectsWhereItIsDirected: a grant follows its direction. Holdings on nodes that it no longer
// names are returned, the others stay. Without a direction nothing is held.
func TestCollectsWhereItIsDirected(t *testing.T) {
	b := hogged(t)
	node := bundleOf(map[string]types.Quantity{"cpu": 1000})
	b.reserve(node, node)
	b.later(time.Hour)
	if g := b.grant(); g.Phase != "" {
		t.Fatalf("without a direction it has %+v", g)
	}
	for _, x := range []struct {
		on   []string
		want string
	}{
		{[]string{"n1", "n2"}, "[900 800 0]"},
		{[]string{"n1", "n3"}, "[900 0 700]"},
		{[]string{"n3", "n1"}, "[900 0 700]"},
		{[]string{"n3", "nowhere"}, "[0 0 700]"},
		{[]string{"n3", ""}, "[0 0 700]"},
		{[]string{"n3", "n3"}, "[0 0 700]"},
		{[]string{"n3"}, "[0 0 0]"}, // not of its bundles
		{[]string{"n1", "n2"}, "[900 800 0]"},
		{nil, "[0 0 0]"},
	} {
		if b.direct("r", 0, x.on...); b.collects("r", "n1", "n2", "n3") != x.want {
			t.Errorf("on %v it has %s, want %s", x.on, b.collects("r", "n1", "n2", "n3"), x.want)
		}
	}
	if g := b.grant(); g.Phase != "" {
		t.Errorf("in the end it has %+v", g)
	}
}

// TestCollectsOnlyWhereABundleMayBe: a bundle does not collect on another node than it requests, or
// one without its label.
func TestCollectsOnlyWhereABundleMayBe(t *testing.T) {
	b := hogged(t)
	b.put(controlplane.NodeKey("n2"), &types.Node{
		Capacity: types.NewRequests(map[string]types.Quantity{"cpu": 1000}), Labels: []types.Label{{Name: "rack", Value: "a"}},
	})
	b.settle()
	b.reserve(onNode("n1", bundleOf(map[string]types.Quantity{"cpu": 1000})), bundleOf(map[string]types.Quantity{"cpu": 1000, "rack/a": 1}))
	for on, want := range map[[2]string]string{{"n3", "n3"}: "[0 0 0]", {"n1", "n3"}: "[900 0 0]", {"n2", "n2"}: "[0 800 0]", {"n1", "n2"}: "[900 800 0]"} {
		if b.direct("r", 0, on[:]...); b.collects("r", "n1", "n2", "n3") != want {
			t.Errorf("on %v it has %s, want %s", on, b.collects("r", "n1", "n2", "n3"), want)
		}
	}
}

// onNode is a bundle for one node.
func onNode(node string, x types.Bundle) types.Bundle {
	x.Node = node
	return x
}

// TestSeveralCollect: what is directed collects next to others, in queue order where they meet, and
// each is granted or bound when it is whole.
func TestSeveralCollect(t *testing.T) {
	b := hogged(t)
	b.reserve(bundleOf(map[string]types.Quantity{"cpu": 1000}))
	b.later(time.Second)
	b.task("large", map[string]types.Quantity{"cpu": 1000}, accumulates)
	b.task("other", map[string]types.Quantity{"cpu": 1000}, accumulates)
	b.settle()
	b.direct("r", 0, "n1")
	b.direct("large", 0, "n2")
	b.direct("other", 0, "n2")
	if r, large, other := b.collects("r", "n1"), b.collects("large", "n2"), b.collects("other", "n2"); r != "[900]" || large != "[800]" || other != "[0]" {
		t.Fatalf("they have %s, %s and %s", r, large, other)
	}
	b.exited("hogn1")
	b.settle()
	b.exited("hogn2")
	b.settle()
	b.expect("large", "bound on n2")
	b.expect("other", "pending")
	if g := b.grant(); g.Phase != types.Granted || g.Bundles[0] != "n1" {
		t.Errorf("the reservation has %+v", g)
	}
	b.exited("large")
	b.settle()
	b.expect("other", "bound on n2")
}

func accumulates(t *types.Task) { t.Accumulate = true }

// TestLendsUntil: a task that ends in time uses what is collected, and no other; the time may change.
func TestLendsUntil(t *testing.T) {
	b := hogged(t)
	b.reserve(bundleOf(map[string]types.Quantity{"cpu": 1000}))
	b.later(time.Second)
	until := b.now.Add(time.Minute).UnixNano()
	b.direct("r", until, "n1")
	short := func(d time.Duration) func(*types.Task) { return func(t *types.Task) { t.MaxRun = d } }
	b.task("late", map[string]types.Quantity{"cpu": 850}, short(time.Minute+1))
	b.task("in-time", map[string]types.Quantity{"cpu": 850}, short(time.Minute))
	b.task("endless", map[string]types.Quantity{"cpu": 850})
	b.settle()
	b.expect("late", "pending")
	b.expect("in-time", "bound on n1")
	b.expect("endless", "pending")
	b.exited("in-time")
	b.settle()
	b.direct("r", until+1, "n1")
	b.expect("late", "bound on n1")
	b.expect("endless", "pending")
	b.exited("late")
	b.settle()
	if got := b.collects("r", "n1"); got != "[900]" {
		t.Errorf("in the end it has %s", got)
	}
}

// TestReturnsInOrder: what a transaction returns goes to what waits for it, in the order of the queue, and
// not to what comes in the same moment.
func TestReturnsInOrder(t *testing.T) {
	for name, pool := range map[string]bool{"of a node": false, "of the cluster": true} {
		t.Run(name, func(t *testing.T) {
			b := newBench(t, Config{})
			requests := map[string]types.Quantity{"cpu": 1000}
			b.node("n1", 1000)
			if pool {
				b.put(controlplane.ResourceKey("d", "lic", types.ClusterWide), &types.Resource{Capacity: 1000})
				requests = map[string]types.Quantity{"lic": 1000}
			}
			b.task("hog", requests)
			b.settle()
			b.expect("hog", "bound on n1")
			b.task("first", requests, func(t *types.Task) { t.Priority = 1 })
			b.settle()
			b.expect("first", "pending")
			b.exited("hog")
			b.task("later", requests, func(t *types.Task) { t.MaxRun = time.Minute })
			b.settle()
			b.expect("first", "bound on n1")
			b.expect("later", "pending")
		})
	}
}

// TestLendsToReservations: a reservation that is needed no longer than the collection is lent uses it, and
// no other.
func TestLendsToReservations(t *testing.T) {
	b := hogged(t)
	b.reserve(bundleOf(map[string]types.Quantity{"cpu": 1000}))
	b.later(time.Second)
	until := b.now.Add(time.Minute).UnixNano()
	b.direct("r", until, "n1")
	for id, d := range map[string]time.Duration{"late": time.Minute + 1, "in-time": time.Minute, "endless": 0} {
		b.put(controlplane.ReservationKey("d", id), &types.Reservation{
			MaxRun: d, Submitted: b.now.UnixNano(), Bundles: []types.Bundle{bundleOf(map[string]types.Quantity{"cpu": 850})},
		})
	}
	b.settle()
	granted := func(want string) {
		t.Helper()
		for _, id := range []string{"late", "in-time", "endless"} {
			if is := b.grantAt(id).Phase == types.Granted; is != (id == want) {
				t.Errorf("%s: granted is %t", id, is)
			}
		}
	}
	granted("in-time")
	b.del(controlplane.ReservationKey("d", "in-time"))
	b.settle()
	b.direct("r", until+1, "n1")
	granted("late")
	b.del(controlplane.ReservationKey("d", "late"))
	b.settle()
	if got := b.collects("r", "n1"); got != "[900]" {
		t.Errorf("in the end it has %s", got)
	}
}

// TestCollectionOfAnEarlierVersion: a grant that nothing directs is returned, with the leadership of
// a version that had one.
func TestCollectionOfAnEarlierVersion(t *testing.T) {
	for _, directed := range []bool{false, true} {
		b := newBench(t, Config{})
		b.node("n1", 1000)
		b.task("hog", map[string]types.Quantity{"cpu": 100})
		b.settle()
		r := types.Reservation{
			Accumulate: true, Submitted: b.now.UnixNano(), Bundles: []types.Bundle{bundleOf(map[string]types.Quantity{"cpu": 1000})},
			Collect: &types.Collect{On: []string{"n1"}},
		}
		created := b.put(controlplane.ReservationKey("d", "r"), &r)
		b.put(controlplane.LeaderKey(grants.AccumulateRole), &types.Leader{Holder: "d/r"},
			controlplane.GrantKey("d", "r"), &types.Grant{Phase: types.Collecting, Reservation: created, Bundles: []string{"n1"}, Nodes: []types.GrantNode{
				{Node: "n1", Holds: []types.Holding{{Resource: "cpu", Amount: 700}}},
			}},
			controlplane.AllocatedKey("n1"), &types.Allocated{Holds: []types.Holding{{Resource: "cpu", Amount: 800}}})
		if !directed {
			r.Collect = nil
			b.put(controlplane.ReservationKey("d", "r"), &r)
		}
		b.settle()
		if g := b.grant(); directed != (g.Phase == types.Collecting) || directed != (b.core.view.Leaders[grants.AccumulateRole] != nil) {
			t.Errorf("directed %t: it has %+v", directed, g)
		}
		b.exited("hog")
		b.settle()
		if g := b.grant(); g.Phase != types.Granted || b.core.view.Leaders[grants.AccumulateRole] != nil {
			t.Errorf("directed %t: it has %+v, and %v", directed, g, b.core.view.Leaders)
		}
	}
}

// TestNothingMoreIsCollectedWithoutADirection: what precedes takes a part of what is being returned;
// nothing that became free is collected for the rest.
func TestNothingMoreIsCollectedWithoutADirection(t *testing.T) {
	b := newBench(t, Config{})
	b.put(controlplane.NodeKey("n1"), &types.Node{Capacity: types.NewRequests(map[string]types.Quantity{"cpu": 1000, "memory": 1000})},
		controlplane.AliveKey("n1"), &types.Alive{})
	b.task("hog", map[string]types.Quantity{"cpu": 900, "memory": 100})
	b.task("stays", map[string]types.Quantity{"memory": 100})
	b.settle()
	b.reserve(bundleOf(map[string]types.Quantity{"cpu": 1000, "memory": 1000}))
	b.direct("r", 0, "n1")
	if got := b.collects("r", "n1"); got != "[100]" {
		t.Fatalf("it has %s", got)
	}
	now := *b.core.view.Reservations[clusterID("d", "r")].Info.V
	now.Collect = nil
	b.put(controlplane.ReservationKey("d", "r"), &now)
	b.task("high", map[string]types.Quantity{"memory": 850}, func(t *types.Task) { t.Priority = 1 })
	b.exited("hog")
	b.settle() // the audit sees each revision
	b.expect("high", "bound on n1")
	if got := b.collects("r", "n1"); got != "[0]" {
		t.Errorf("it has %s", got)
	}
}

// aboveATransaction is two sets of so many nodes, each with a task that takes 400 of it, and a
// reservation of as many whole nodes.
func aboveATransaction(t *testing.T, nodes int) (b *bench, first, second []string) {
	t.Helper()
	b = newLimitedBench(t, stock, Config{Seed: 1})
	for i := range 2 * nodes {
		name := fmt.Sprintf("n%03d", i)
		b.node(name, 1000)
		b.task("hog"+name, map[string]types.Quantity{"cpu": 400, "node/" + name: 1})
		if i < nodes {
			first = append(first, name)
		} else {
			second = append(second, name)
		}
	}
	b.settle()
	b.lock("r", nodes, func(r *types.Reservation) { r.Accumulate = true })
	b.settle()
	return b, first, second
}

// TestDirectedElsewhereInParts: a direction to as many other nodes as exceed a transaction is followed
// in several, and nothing is collected where it no longer is directed.
func TestDirectedElsewhereInParts(t *testing.T) {
	const nodes = 80
	b, first, second := aboveATransaction(t, nodes)
	for _, on := range [][]string{first, second, append(slices.Clone(second[:nodes/2]), first[:nodes/2]...)} {
		b.direct("r", 0, on...)
		if g := b.grant(); amountHeld(g) != 600*nodes || len(g.Nodes) != nodes {
			t.Errorf("it holds %d on %d nodes", amountHeld(g), len(g.Nodes))
		}
		for _, name := range on {
			if b.grant().On(name) == nil {
				t.Fatalf("it holds nothing on %s", name)
			}
		}
	}
}

// TestNothingIsCollectedWhileItReturns: what becomes free on nodes that are no longer named, while
// several transactions return what is held there, is not collected. Each has room for that, but not
// to return the many pools of one more node.
func TestNothingIsCollectedWhileItReturns(t *testing.T) {
	const nodes, pools = 130, 12
	b, first, second := aboveATransaction(t, nodes)
	now := *b.core.view.Reservations[clusterID("d", "r")].Info.V
	now.Bundles = slices.Clone(now.Bundles)
	for i := range pools {
		name := fmt.Sprint("pool", i)
		b.put(controlplane.ResourceKey("d", name, types.ClusterWide), &types.Resource{Capacity: nodes * 1000})
		for j := range now.Bundles {
			now.Bundles[j].Requests = now.Bundles[j].Requests.Plus(types.NewRequests(map[string]types.Quantity{name: 1000}))
		}
	}
	b.del(controlplane.ReservationKey("d", "r"))
	b.settle()
	b.put(controlplane.ReservationKey("d", "r"), &now)
	b.settle()
	b.direct("r", 0, first...)
	if g := b.grant(); amountHeld(g) != 600*nodes {
		t.Fatalf("it holds %d on %d nodes", amountHeld(g), len(g.Nodes))
	}
	now.Collect = &types.Collect{On: second}
	b.put(controlplane.ReservationKey("d", "r"), &now)
	for _, name := range first {
		b.exited("hog" + name)
	}
	b.settle() // the audit sees each revision
	if g := b.grant(); amountHeld(g) != 600*nodes || g.Nodes[0].Node != second[0] {
		t.Errorf("it holds %d on %d nodes", amountHeld(g), len(g.Nodes))
	}
}

// TestMakerLends: what a maker directs takes before what precedes it in the queue, and lends until the
// time that the maker gives.
func TestMakerLends(t *testing.T) {
	b := hogged(t)
	until := b.now.Add(time.Minute)
	b.put(controlplane.ReservationKey("d", "r"), &types.Reservation{
		Bundles: []types.Bundle{bundleOf(map[string]types.Quantity{"cpu": 1000})}, Collect: &types.Collect{On: []string{"n1"}, LendUntil: until.UnixNano()},
	})
	b.settle()
	ends := func(d time.Duration) func(*types.Task) {
		return func(t *types.Task) { t.Priority, t.MaxRun = 9, d }
	}
	b.task("late", map[string]types.Quantity{"cpu": 850}, ends(2*time.Minute))
	b.task("in-time", map[string]types.Quantity{"cpu": 850}, ends(time.Minute))
	b.settle()
	b.expect("late", "pending")
	b.expect("in-time", "bound on n1")
	b.exited("in-time")
	b.exited("hogn1")
	b.settle()
	b.expect("late", "pending")
	if g := b.grant(); g.Phase != types.Granted || g.Bundles[0] != "n1" {
		t.Errorf("it has %+v", g)
	}
}
