package scheduler

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/escher-sched/escher/controlplane"
	"github.com/escher-sched/escher/controlplane/grants"
	"github.com/escher-sched/escher/types"
)

// stock are the limits of a default etcd.
var stock = controlplane.Limits{Ops: 128, Bytes: 3 << 19}

// wide is a cluster of single-core nodes on a stock etcd, and a reservation of all.
func wide(t *testing.T, nodes int, edit ...func(*types.Reservation)) *bench {
	t.Helper()
	b := newLimitedBench(t, stock, Config{Seed: 1})
	for i := range nodes {
		b.node(fmt.Sprintf("n%03d", i), 1000)
	}
	b.lock("r", nodes, edit...)
	return b
}

// lock reserves a number of bundles of one core.
func (b *bench) lock(id string, bundles int, edit ...func(*types.Reservation)) {
	b.t.Helper()
	r := &types.Reservation{Submitted: b.now.UnixNano()}
	for range bundles {
		r.Bundles = append(r.Bundles, bundleOf(map[string]types.Quantity{"cpu": 1000}))
	}
	for _, f := range edit {
		f(r)
	}
	b.put(controlplane.ReservationKey("d", id), r)
}

// step applies changes and commits the core's decisions; it returns the number of transactions.
func (b *bench) step() int {
	b.t.Helper()
	b.see()
	drafts := b.core.Next(b.now)
	for _, d := range drafts {
		res, err := b.store.Commit(context.Background(), d.Change.Txn())
		if err != nil {
			b.t.Fatal(err)
		}
		b.done(d, res)
	}
	return len(drafts)
}

// steps takes n steps.
func (b *bench) steps(n int) {
	b.t.Helper()
	for range n {
		if b.step() == 0 {
			b.t.Fatal("nothing to do")
		}
	}
}

// amountHeld is the cpu that a grant holds, on all nodes.
func amountHeld(g *types.Grant) (sum types.Quantity) {
	for _, at := range g.Nodes {
		sum += grants.HeldOf(at.Holds, "cpu")
	}
	return sum
}

// taken is a task bound by a scheduler that ignores the reservation.
func (b *bench) taken(node string) {
	b.t.Helper()
	b.task("taker", map[string]types.Quantity{"cpu": 1})
	holds := []types.Holding{{Resource: "cpu", Amount: 1}}
	b.put(controlplane.BindingKey(node, "d", "taker", 1), &types.Binding{Session: b.session(node), Holds: holds},
		controlplane.StatusKey("d", "taker"), &types.Status{Phase: types.Bound, Node: node, Attempt: 1},
		controlplane.AllocatedKey(node), &types.Allocated{Holds: holds})
}

// nothingHeld checks that nothing is allocated on any node, and that no reservation is being
// granted.
func (b *bench) nothingHeld() {
	b.t.Helper()
	for name, n := range b.core.view.Nodes {
		if n.Allocated.V != nil && len(n.Allocated.V.Holds) > 0 {
			b.t.Errorf("%s: %v", name, n.Allocated.V.Holds)
		}
	}
	if len(b.core.view.Leaders)+len(b.core.granting)+b.core.nodes.Kept() > 0 {
		b.t.Errorf("leaders %v, %d being granted, %d nodes kept", b.core.view.Leaders, len(b.core.granting), b.core.nodes.Kept())
	}
}

// TestGrantedInSeveralTransactions: a reservation on 512 nodes over a stock etcd is taken in parts
// within its limits, granted by the last one, drawn on, and returned.
func TestGrantedInSeveralTransactions(t *testing.T) {
	const nodes = 512
	b := wide(t, nodes)
	b.steps(1)
	if g := b.grant(); g.Phase != types.Granting || amountHeld(g) == 0 || amountHeld(g) == nodes*1000 {
		t.Fatalf("its grant is %s and holds %d", g.Phase, amountHeld(g))
	}
	// Later work waits meanwhile, even of higher priority.
	b.task("other", map[string]types.Quantity{"cpu": 1000}, func(t *types.Task) { t.Priority = 9 })
	b.task("early", map[string]types.Quantity{"cpu@r": 1000})
	drafts := 1
	for b.grant().Phase == types.Granting {
		b.expect("other", "pending")
		b.expect("early", "pending")
		b.steps(1)
		drafts++
	}
	if g := b.grant(); g.Phase != types.Granted || amountHeld(g) != nodes*1000 || drafts > 30 {
		t.Fatalf("its grant is %s and holds %d after %d transactions", g.Phase, amountHeld(g), drafts)
	}
	for i := range nodes - 1 {
		b.task(fmt.Sprintf("m%03d", i), map[string]types.Quantity{"cpu@r": 1000})
	}
	b.settle()
	b.expect("other", "pending")
	for i := range nodes - 1 {
		if b.where(fmt.Sprintf("m%03d", i)) == "pending" {
			t.Fatalf("m%03d has no place", i)
		}
	}
	// It is given up while half of its tasks run: undrawn capacity is free at once, the rest later.
	for i := range nodes / 2 {
		b.exited(fmt.Sprintf("m%03d", i))
	}
	b.settle()
	b.del(controlplane.ReservationKey("d", "r"))
	b.steps(1)
	if g := b.grant(); g.Phase != types.Releasing {
		t.Fatalf("its grant is %s", g.Phase)
	}
	b.exited("m300") // while a part is not returned yet
	b.exited("m301")
	b.settle()
	b.exited("m302")
	b.settle()
	if b.where("other") == "pending" {
		t.Error("what was given back is not free")
	}
	for _, id := range append(append(ids("m", nodes/2, 300), ids("m", 303, nodes-1)...), "early", "other") {
		b.exited(id)
	}
	b.settle()
	if g := b.core.view.Reservations[clusterID("d", "r")]; g != nil && g.Grant.V != nil {
		t.Errorf("its grant is %s, on %d nodes", g.Grant.V.Phase, len(g.Grant.V.Nodes))
	}
	b.nothingHeld()
}

// TestTaskEndsOnANodeThatIsNotGivenBack: on a node that a releasing grant still holds whole, the
// draw of a task returns with the rest, once.
func TestTaskEndsOnANodeThatIsNotGivenBack(t *testing.T) {
	const nodes = 300
	b := wide(t, nodes)
	b.settle()
	for _, id := range ids("m", 0, nodes) {
		b.task(id, map[string]types.Quantity{"cpu@r": 1000, "node/n" + id[1:]: 1})
	}
	b.settle()
	b.del(controlplane.ReservationKey("d", "r"))
	b.steps(1)
	b.task("other", map[string]types.Quantity{"node/n299": 1})
	b.exited("m298")
	b.see()
	drafts := b.core.Next(b.now) // the next part, and the other task, which delays the following part
	if len(drafts) != 2 {
		t.Fatalf("%d drafts", len(drafts))
	}
	for len(drafts) > 0 {
		res, err := b.store.Commit(t.Context(), drafts[0].Change.Txn())
		if err != nil {
			t.Fatal(err)
		}
		b.done(drafts[0], res)
		if drafts = drafts[1:]; b.step() == 0 && len(drafts) > 0 {
			t.Fatal("the end of the task waits")
		}
		if g := b.grant(); len(drafts) > 0 && (b.where("m298") != "succeeded on n298" || !g.Nodes[len(g.Nodes)-1].Whole) {
			t.Fatalf("m298 is %s, and the grant is %s", b.where("m298"), g.Phase)
		}
	}
	b.settle()
	for _, id := range ids("m", 0, nodes) {
		b.exited(id)
	}
	b.exited("other")
	b.settle()
	b.nothingHeld()
}

func ids(prefix string, from, to int) (out []string) {
	for i := from; i < to; i++ {
		out = append(out, fmt.Sprintf("%s%03d", prefix, i))
	}
	return out
}

// TestGrantingIsBrokenOff: after an interruption all parts are returned, and the reservation is
// granted when it fits again.
func TestGrantingIsBrokenOff(t *testing.T) {
	const nodes = 90
	for name, test := range map[string]struct {
		harm, mend func(b *bench, lacking string)
	}{
		"another scheduler takes a part": {func(b *bench, n string) {
			b.taken(n)
		}, func(b *bench, _ string) {
			b.exited("taker")
		}},
		"another scheduler takes a part, and it is in flight": {func(b *bench, n string) {
			b.see()
			drafts := b.core.Next(b.now)
			b.taken(n)
			for _, d := range drafts {
				res, err := b.store.Commit(context.Background(), d.Change.Txn())
				if err != nil {
					b.t.Fatal(err)
				}
				b.done(d, res)
			}
		}, func(b *bench, _ string) {
			b.exited("taker")
		}},
		"a node is lost": {func(b *bench, n string) {
			b.del(controlplane.AliveKey(n))
		}, func(b *bench, n string) {
			b.put(controlplane.AliveKey(n), &types.Alive{})
		}},
		"a node is cordoned": {func(b *bench, n string) {
			b.put(controlplane.CordonKey(n), &types.Cordon{})
		}, func(b *bench, n string) {
			b.del(controlplane.CordonKey(n))
		}},
		"a node has less": {func(b *bench, n string) {
			b.put(controlplane.NodeKey(n), &types.Node{Capacity: types.NewRequests(map[string]types.Quantity{"cpu": 999})})
		}, func(b *bench, n string) {
			b.put(controlplane.NodeKey(n), &types.Node{Capacity: types.NewRequests(map[string]types.Quantity{"cpu": 1000})})
		}},
	} {
		t.Run(name, func(t *testing.T) {
			b := wide(t, nodes)
			b.steps(2)
			held, lacking := b.grant(), ""
			for _, at := range held.Nodes {
				if len(at.Holds) == 0 {
					lacking = at.Node
				}
			}
			test.harm(b, lacking)
			b.settle()
			if g := b.grant(); g.Phase != "" {
				t.Fatalf("its grant is %s and holds %d", g.Phase, amountHeld(g))
			}
			for name, n := range b.core.view.Nodes {
				if n.Used("cpu") > 1 {
					t.Errorf("%d are held on %s", n.Used("cpu"), name)
				}
			}
			test.mend(b, lacking)
			b.settle()
			if g := b.grant(); g.Phase != types.Granted || amountHeld(g) != nodes*1000 {
				t.Errorf("its grant is %q and holds %d", g.Phase, amountHeld(g))
			}
			b.del(controlplane.ReservationKey("d", "r"))
			b.settle()
			b.nothingHeld()
		})
	}
}

// TestGrantingGivenUp: a reservation deleted while it is being granted leaves nothing, whichever
// scheduler continues.
func TestGrantingGivenUp(t *testing.T) {
	for _, killed := range []bool{false, true} {
		for parts := 1; parts <= 3; parts++ {
			b := wide(t, 120)
			b.steps(parts)
			if g := b.grant(); g.Phase != types.Granting {
				t.Fatalf("its grant is %s", g.Phase)
			}
			if killed {
				b.core, b.seen = New(Config{Seed: 2, Gather: 1, Limits: stock}), 0
			}
			b.del(controlplane.ReservationKey("d", "r"))
			b.settle()
			b.nothingHeld()
		}
	}
}

// TestGrantingAfterAKill: another scheduler continues a grant, or its return, from any part.
func TestGrantingAfterAKill(t *testing.T) {
	for parts := 1; parts <= 4; parts++ {
		b := wide(t, 120)
		b.steps(parts)
		b.core, b.seen = New(Config{Seed: 2, Gather: 1, Limits: stock}), 0
		b.settle()
		if g := b.grant(); g.Phase != types.Granted || amountHeld(g) != 120_000 {
			t.Fatalf("its grant is %q and holds %d", g.Phase, amountHeld(g))
		}
	}
	b := wide(t, 120)
	b.steps(3)
	b.put(controlplane.CordonKey(b.grant().Nodes[119].Node), &types.Cordon{})
	b.steps(1)
	b.core, b.seen = New(Config{Seed: 2, Gather: 1, Limits: stock}), 0
	b.settle()
	if g := b.grant(); g.Phase != "" {
		t.Errorf("its grant is %s and holds %d", g.Phase, amountHeld(g))
	}
	b.nothingHeld()
}

// TestOneIsGrantedInPartsAtATime: of two that do not fit together one is granted, by either
// scheduler; a small one is granted meanwhile.
func TestOneIsGrantedInPartsAtATime(t *testing.T) {
	b := wide(t, 120)
	b.lock("s", 100)
	o := b.other()
	o.core = New(Config{Name: "other", Seed: 3, Gather: 1, Limits: stock})
	b.steps(1)
	for i := range 400 {
		n := o.step() + b.step()
		if i > 0 && n == 0 {
			break
		}
		b.now = b.now.Add(time.Second)
		o.now = b.now
	}
	b.see()
	granted := 0
	for _, id := range []string{"r", "s"} {
		if r := b.core.view.Reservations[clusterID("d", id)]; r.Grant.V != nil && r.Grant.V.Phase == types.Granted {
			granted++
		} else if r.Grant.V != nil {
			t.Errorf("%s is %s", id, r.Grant.V.Phase)
		}
	}
	if granted != 1 || len(b.core.view.Leaders) > 0 {
		t.Errorf("%d are granted", granted)
	}
}

// TestGrantedWithManyResources: one node has more of a reservation than a transaction holds,
// including pools. It is granted and returned.
func TestGrantedWithManyResources(t *testing.T) {
	b := newLimitedBench(t, stock, Config{Seed: 1})
	b.node("n1", 100_000)
	r := &types.Reservation{}
	for i := range 100 {
		pool, mark := fmt.Sprintf("p%02d", i), fmt.Sprintf("m%02d", i)
		b.put(controlplane.ResourceKey("d", pool, types.ClusterWide), &types.Resource{Capacity: 1000},
			controlplane.ResourceKey("d", mark, types.EveryNode), &types.Resource{Capacity: types.Inf})
		r.Bundles = append(r.Bundles, bundleOf(map[string]types.Quantity{"cpu": 1000, pool: 1000, mark: 1000}))
	}
	b.put(controlplane.ReservationKey("d", "r"), r)
	b.settle()
	if g := b.grant(); g.Phase != types.Granted || amountHeld(g) != 100_000 {
		t.Fatalf("its grant is %q and holds %d", g.Phase, amountHeld(g))
	}
	for i := range 100 {
		b.task(fmt.Sprintf("t%02d", i), map[string]types.Quantity{"cpu@r": 1000, fmt.Sprintf("p%02d@r", i): 1000, fmt.Sprintf("m%02d@r", i): 1000})
	}
	b.settle()
	for i := range 50 {
		b.exited(fmt.Sprintf("t%02d", i))
	}
	b.settle()
	b.del(controlplane.ReservationKey("d", "r"))
	b.settle()
	for i := 50; i < 100; i++ {
		b.exited(fmt.Sprintf("t%02d", i))
	}
	b.settle()
	b.nothingHeld()
	for rid, p := range b.core.view.Pools {
		if p.Allocated.V != nil && p.Allocated.V.Of(rid) != 0 {
			t.Errorf("%s: %d", rid, p.Allocated.V.Of(rid))
		}
	}
}

// TestGangOfAboutOneTransaction: a reservation whose grant just fits into one transaction, or just
// does not, is granted and leaves no leader; then a large one is granted in parts.
func TestGangOfAboutOneTransaction(t *testing.T) {
	for nodes := 25; nodes <= 45; nodes++ {
		t.Run(fmt.Sprint(nodes), func(t *testing.T) {
			b := wide(t, nodes)
			b.settle()
			if g := b.grant(); g.Phase != types.Granted || amountHeld(g) != types.Quantity(nodes)*1000 {
				t.Fatalf("its grant is %q and holds %d", g.Phase, amountHeld(g))
			}
			if len(b.core.view.Leaders) > 0 {
				t.Errorf("leaders %v", b.core.view.Leaders)
			}
			b.del(controlplane.ReservationKey("d", "r"))
			b.settle()
			for i := nodes; i < 60; i++ {
				b.node(fmt.Sprintf("n%03d", i), 1000)
			}
			b.lock("r", 60)
			b.settle()
			if g := b.grant(); g.Phase != types.Granted || amountHeld(g) != 60_000 {
				t.Fatalf("the grant of a larger one is %q and holds %d", g.Phase, amountHeld(g))
			}
			b.del(controlplane.ReservationKey("d", "r"))
			b.settle()
			b.nothingHeld()
		})
	}
}

// TestStaleLead: a leadership of a reservation that is not being granted, as earlier versions left
// it, is deleted, and a large reservation is granted in parts.
func TestStaleLead(t *testing.T) {
	key := controlplane.LeaderKey(grants.GrantRole)
	for _, holder := range []string{"d/granted", "d/gone", "gone", "d/waits"} {
		t.Run(holder, func(t *testing.T) {
			b := wide(t, 60)
			b.del(controlplane.ReservationKey("d", "r"))
			b.node("n900", 1000)
			b.lock("granted", 1)
			b.settle()
			b.put(key, &types.Leader{Holder: holder})
			b.lock("waits", 100)
			b.lock("r", 60)
			b.settle()
			if g := b.grant(); g.Phase != types.Granted || len(b.core.view.Leaders) > 0 {
				t.Errorf("its grant is %q; leaders %v", g.Phase, b.core.view.Leaders)
			}
		})
	}
}

// TestLeadOfAnUnreadableGrant: a leadership stays while the grant of its reservation cannot be read.
func TestLeadOfAnUnreadableGrant(t *testing.T) {
	b := newGarbledBench(t)
	b.node("n1", 1000)
	b.put(controlplane.LeaderKey(grants.GrantRole), &types.Leader{Holder: "d/r"})
	b.garble(controlplane.GrantKey("d", "r"))
	b.settle()
	if len(b.core.view.Leaders) == 0 {
		t.Error("it is deleted")
	}
}
