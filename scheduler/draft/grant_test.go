package draft

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/escher-sched/escher/controlplane"
	"github.com/escher-sched/escher/controlplane/cluster"
	"github.com/escher-sched/escher/controlplane/grants"
	"github.com/escher-sched/escher/scheduler/schedulertest"
	"github.com/escher-sched/escher/types"
)

// cpus is a holding of cpu.
func cpus(q types.Quantity) []types.Holding { return []types.Holding{{Resource: types.CPU, Amount: q}} }

// reserved is a view of two nodes with a reservation of bundles, at revision 5, and its grant, at 6.
// The grant of nil is absent. Further keys follow.
func reserved(t *testing.T, bundles []types.Bundle, g *types.Grant, more ...any) (*cluster.View, *cluster.Reservation) {
	t.Helper()
	var kvs []any
	for _, name := range []string{"n1", "n2"} {
		kvs = append(kvs, controlplane.NodeKey(name), &types.Node{Capacity: schedulertest.Vector(4000, 2000)}, controlplane.AliveKey(name), &types.Alive{})
	}
	kvs = append(kvs, controlplane.ReservationKey("a", "r"), &types.Reservation{Bundles: bundles, Lost: types.MoveBundles})
	if g != nil {
		g.Reservation = 5
		kvs = append(kvs, controlplane.GrantKey("a", "r"), g)
	}
	v := schedulertest.Snapshot(t, append(kvs, more...)...)
	return v, v.Reservations[cluster.ID{Namespace: "a", ID: "r"}]
}

// placed places the bundles of a reservation on nodes, in a trial.
func placed(d *Draft, r *cluster.Reservation, nodes ...string) []grants.BundlePlacement {
	spots := grants.BundleOrder(d.View(), r)
	for i := range spots {
		spots[i].Node = d.View().Nodes[nodes[spots[i].Index]]
		spots[i].Holds = d.Hold(spots[i].Node, spots[i].Needs)
		d.Take(spots[i].Node, spots[i].Holds)
	}
	return spots
}

func bundlesOf(cpu ...types.Quantity) []types.Bundle {
	var out []types.Bundle
	for _, q := range cpu {
		out = append(out, types.Bundle{Requests: schedulertest.Vector(q, 0)})
	}
	return out
}

// TestGrantAndBind: a grant compares its nodes, its reservation and its absence once each, and a
// task of the same draft may draw on it.
func TestGrantAndBind(t *testing.T) {
	v, r := reserved(t, bundlesOf(1000, 1000, 500), nil,
		controlplane.TaskKey("a", "t"), &types.Task{Requests: types.NewRequests(map[string]types.Quantity{"cpu@r": 1000})})
	d := New(v, unlimited, 1)
	if !d.Grant(r, placed(d, r, "n1", "n1", "n2"), 0) || d.Bundles() != 4 || !slices.Equal(d.Grants, []cluster.ID{r.ID}) || !d.Has(r) {
		t.Fatalf("granted are %v, with %d bundles", d.Grants, d.Bundles())
	}
	if g := d.Granted(r.ID); g.Phase != types.Granted || g.Reservation != 5 || !slices.Equal(g.Bundles, []string{"n1", "n1", "n2"}) || grants.HeldOf(g.On("n1"), types.CPU) != 2000 {
		t.Errorf("the grant is %+v", g)
	}
	scoped := types.ResourceID("a:cpu@r")
	if fresh := d.NewlyOffered(); !slices.Equal(fresh, []types.ResourceID{scoped}) || len(d.NewlyOffered()) != 0 || len(d.OfferedOn(scoped)) != 2 {
		t.Errorf("newly offered are %v, on %d nodes", fresh, len(d.OfferedOn(scoped)))
	}
	task := v.Task(cluster.ID{Namespace: "a", ID: "t"})
	needs := grants.Vectors(v, task)[0]
	if _, ok := d.Fits(v.Nodes["n2"], needs); ok {
		t.Error("it fits where the grant has a half")
	}
	if !d.Bind(task, v.Nodes["n1"], 0, needs, time.Unix(1, 0)) {
		t.Fatal("there is space")
	}
	if free, _ := d.Free(v.Nodes["n1"], scoped); free != 1000 {
		t.Errorf("%d is free of the grant", free)
	}
	if !slices.Equal(d.Decided(), []any{r, task}) {
		t.Errorf("it decides about %v", d.Decided())
	}
	sameTransaction(t, "a grant and a bind", d,
		"if nodes/n1 = 1", "if alive/n1 made 2", "if cordons/n1 = 0", "if allocated/n1 = 0",
		"if nodes/n2 = 3", "if alive/n2 made 4", "if cordons/n2 = 0", "if allocated/n2 = 0",
		"if namespaces/a = 0", "if reservations/a/r = 5", "if grants/a/r = 0", "if tasks/a/t = 6", "if status/a/t = 0",
		"put grants/a/r", "put allocated/n1", "put allocated/n2", "put bindings/n1/a/t/1", "put status/a/t")
}

// TestGrantNeedsSpace: a grant that does not fit, or leaves too little space for what is to follow,
// changes nothing.
func TestGrantNeedsSpace(t *testing.T) {
	const compares = 2 + 2*nodeCompares + 1 // the reservation, its grant, its nodes and its namespace
	for _, test := range []struct {
		ops, more int
		want      bool
	}{
		{compares + Spare, 0, true}, {compares + Spare - 1, 0, false}, {compares + Spare, 1, false}, {compares + Spare + 1, 1, true},
	} {
		v, r := reserved(t, bundlesOf(1000, 1000), nil)
		d := New(v, controlplane.Limits{Ops: test.ops, Bytes: 1 << 20}, 1)
		if got := d.Grant(r, placed(d, r, "n1", "n2"), test.more); got != test.want || d.Empty() == got || (d.Granted(r.ID) != nil) != got {
			t.Errorf("%d operations and %d more: %t", test.ops, test.more, got)
		}
		if c, o := d.Change.Size(); !test.want && (c > 0 || o > 0) {
			t.Errorf("a refused grant compares %d and does %d", c, o)
		}
	}
}

// TestMove: the grant keeps the bundles that stay, and the transaction depends on the node that they
// leave still being gone or draining.
func TestMove(t *testing.T) {
	g := func() *types.Grant {
		return &types.Grant{Phase: types.Granted, Bundles: []string{"n1", "n2"}, Nodes: []types.GrantNode{{Node: "n1", Holds: cpus(1000)}, {Node: "n2", Holds: cpus(500)}}}
	}
	held := []any{controlplane.AllocatedKey("n1"), &types.Allocated{Holds: cpus(1000)}, controlplane.AllocatedKey("n2"), &types.Allocated{Holds: cpus(500)}}
	for name, test := range map[string]struct {
		more []any
		gone bool
		want []string
	}{
		"draining": {append([]any{controlplane.CordonKey("n1"), &types.Cordon{}}, held...), false, []string{
			"if alive/n1 made 2", "if cordons/n1 = 7", "if allocated/n1 = 8", "if allocated/n2 = 9",
		}},
		"gone": {held, true, []string{"if alive/n1 made 0", "if allocated/n1 = 7", "if allocated/n2 = 8"}},
	} {
		v, r := reserved(t, bundlesOf(1000, 500), g(), test.more...)
		if test.gone {
			if _, _, err := v.Apply(controlplane.Event{Delete: true, KV: controlplane.KV{Key: controlplane.AliveKey("n1"), ModRevision: 50}}); err != nil {
				t.Fatal(err)
			}
		}
		d := New(v, unlimited, 1)
		from := &types.Grant{Nodes: r.Grant.V.Nodes[:1]}
		d.ReleaseGrant(from)
		spots := grants.PlacementsOn(v, r, from)
		if len(spots) != 1 || spots[0].Index != 0 {
			t.Fatalf("%s: to move are %+v", name, spots)
		}
		spots[0].Node, spots[0].Holds = v.Nodes["n2"], cpus(1000)
		d.Take(v.Nodes["n2"], spots[0].Holds)
		if !d.Move(r, from, spots) || !d.Returns() {
			t.Fatalf("%s: there is space", name)
		}
		if now := d.Granted(r.ID); !slices.Equal(now.Bundles, []string{"n2", "n2"}) || len(now.Nodes) != 1 || grants.HeldOf(now.On("n2"), types.CPU) != 1500 {
			t.Errorf("%s: the grant is %+v", name, now)
		}
		sameTransaction(t, name, d, append(test.want, "if nodes/n2 = 3", "if alive/n2 made 4", "if cordons/n2 = 0", "if namespaces/a = 0",
			"if reservations/a/r = 5", "if grants/a/r = 6", "put grants/a/r", "put allocated/n1", "put allocated/n2")...)
		if a := written[*types.Allocated](d, controlplane.AllocatedKey("n1")); len(a.Holds) != 0 {
			t.Errorf("%s: it still holds %+v", name, a.Holds)
		}
	}
}

// TestRelease: what no task draws on returns at once, the rest as its tasks end, and the grant goes
// last.
func TestRelease(t *testing.T) {
	on := func(whole bool, held ...types.Quantity) []types.GrantNode {
		var out []types.GrantNode
		for i, q := range held {
			out = append(out, types.GrantNode{Node: fmt.Sprint("n", i+1), Holds: cpus(q), Whole: whole})
		}
		return out
	}
	drawn := func(q types.Quantity) []types.Holding {
		return []types.Holding{{Resource: "a:cpu@r", Amount: q}, {Resource: types.CPU, Amount: 1000}}
	}
	lead := func(holder string) []any {
		return []any{controlplane.LeaderKey(grants.GrantRole), &types.Leader{Holder: holder}}
	}
	base := []string{"if grants/a/r = 6", "if reservations/a/r = 5", "if allocated/n1 = 7", "put allocated/n1"}
	for name, test := range map[string]struct {
		grant   types.Grant
		current bool // the reservation is not replaced
		n1      []types.Holding
		more    []any
		left    []types.GrantNode
		free    types.Quantity // of cpu on n1 afterwards
		want    []string
	}{
		"nothing is drawn":       {types.Grant{Phase: types.Granted, Nodes: on(false, 1000)}, false, cpus(1000), nil, nil, 4000, append([]string{"delete grants/a/r"}, base...)},
		"some is drawn":          {types.Grant{Phase: types.Granted, Nodes: on(false, 1000)}, false, drawn(400), nil, on(false, 1000), 3600, append([]string{"put grants/a/r"}, base...)},
		"all is drawn":           {types.Grant{Phase: types.Granted, Nodes: on(false, 1000)}, false, drawn(1000), nil, on(false, 1000), 3000, append([]string{"put grants/a/r"}, base...)},
		"it returned, and waits": {types.Grant{Phase: types.Releasing, Nodes: on(false, 1000)}, false, drawn(400), nil, on(false, 1000), 3000, nil},
		"the last task has left": {types.Grant{Phase: types.Releasing, Nodes: on(false, 1000)}, false, cpus(600), nil, nil, 3400, []string{
			"delete grants/a/r", "if grants/a/r = 6", "if reservations/a/r = 5",
		}},
		"the first node returned before": {types.Grant{Phase: types.Releasing, Nodes: on(true, 1000)}, false, cpus(1000), nil, nil, 4000, append([]string{"delete grants/a/r"}, base...)},
		"no task may draw on it yet":     {types.Grant{Phase: types.Collecting, Nodes: on(false, 1000)}, true, cpus(1000), nil, nil, 4000, append([]string{"delete grants/a/r"}, base...)},
		"it leads": {types.Grant{Phase: types.Granting, Nodes: on(false, 1000)}, true, cpus(1000), lead("a/r"), nil, 4000, append([]string{
			"delete grants/a/r", "if leaders/grant = 8", "delete leaders/grant",
		}, base...)},
		"another one leads": {types.Grant{Phase: types.Granting, Nodes: on(false, 1000)}, true, cpus(1000), lead("a/other"), nil, 4000, append([]string{"delete grants/a/r"}, base...)},
		"nothing is held":   {types.Grant{Phase: types.Granted, Nodes: on(false, 0)}, false, cpus(1000), nil, nil, 3000, []string{"delete grants/a/r", "if grants/a/r = 6", "if reservations/a/r = 5"}},
	} {
		test.grant.Bundles = []string{"n1"}
		if test.grant.Nodes[0].Holds[0].Amount == 0 {
			test.grant.Nodes[0].Holds = nil
		}
		v, r := reserved(t, bundlesOf(1000), &test.grant, append([]any{controlplane.AllocatedKey("n1"), &types.Allocated{Holds: test.n1}}, test.more...)...)
		if !test.current {
			r.Grant.V.Reservation = 4
		}
		d := New(v, unlimited, 1)
		if !d.Release(r) {
			t.Fatalf("%s: there is space", name)
		}
		if free, _ := d.Free(v.Nodes["n1"], types.CPU); free != test.free {
			t.Errorf("%s: %d is free", name, free)
		}
		sameTransaction(t, name, d, test.want...)
		if left := written[*types.Grant](d, controlplane.GrantKey("a", "r")); left != nil {
			if left.Phase != types.Releasing || fmt.Sprint(left.Nodes) != fmt.Sprint(test.left) {
				t.Errorf("%s: it leaves %s %+v", name, left.Phase, left.Nodes)
			}
		} else if test.left != nil && d.Len() > 0 {
			t.Errorf("%s: it leaves nothing", name)
		}
	}
}

// TestReleaseByNode: a grant that exceeds a transaction returns node by node, and one node that
// exceeds it returns resource by resource.
func TestReleaseByNode(t *testing.T) {
	g := &types.Grant{Phase: types.Granted, Bundles: []string{"n1", "n2"}, Nodes: []types.GrantNode{{Node: "n1", Holds: cpus(1000)}, {Node: "n2", Holds: cpus(500)}}}
	v, r := reserved(t, bundlesOf(1000, 500), g,
		controlplane.AllocatedKey("n1"), &types.Allocated{Holds: cpus(1000)}, controlplane.AllocatedKey("n2"), &types.Allocated{Holds: cpus(500)})
	r.Grant.V.Reservation = 4
	d := New(v, controlplane.Limits{Ops: Spare + 1, Bytes: 1 << 20}, 1)
	if !d.Release(r) || d.NumNodes() != 1 {
		t.Fatalf("%d nodes", d.NumNodes())
	}
	d.Seal()
	left := written[*types.Grant](d, controlplane.GrantKey("a", "r"))
	if len(left.Nodes) != 1 || left.Nodes[0].Node != "n2" || !left.Nodes[0].Whole || !slices.Equal(left.Bundles, []string{"", "n2"}) {
		t.Errorf("left is %+v of %v", left.Nodes, left.Bundles)
	}
	d = New(v, controlplane.Limits{Ops: Spare + 1, Bytes: 1 << 20}, 1)
	d.Decide("something")
	if d.Release(r) || d.Len() != 1 {
		t.Error("it follows another decision without space")
	}
	pool := func(name string) types.Holding {
		return types.Holding{Resource: types.ResourceID("a:" + name), Amount: 1, Cluster: true}
	}
	g = &types.Grant{Phase: types.Granted, Bundles: []string{"n1"}, Nodes: []types.GrantNode{{Node: "n1", Holds: []types.Holding{pool("x"), pool("y"), pool("z")}}}}
	v, r = reserved(t, bundlesOf(1000), g,
		controlplane.PoolKey("a", "x"), &types.Allocated{Holds: []types.Holding{{Resource: "a:x", Amount: 1}}},
		controlplane.PoolKey("a", "y"), &types.Allocated{Holds: []types.Holding{{Resource: "a:y", Amount: 1}}},
		controlplane.PoolKey("a", "z"), &types.Allocated{Holds: []types.Holding{{Resource: "a:z", Amount: 1}}})
	r.Grant.V.Reservation = 4
	d = New(v, controlplane.Limits{Ops: Spare + 3, Bytes: 1 << 20}, 1)
	if !d.Release(r) {
		t.Fatal("it is the first")
	}
	d.Seal()
	if left = written[*types.Grant](d, controlplane.GrantKey("a", "r")); left == nil || len(left.Nodes) != 1 || !left.Nodes[0].Whole || len(left.Nodes[0].Holds) != 2 {
		t.Errorf("left is %+v", left)
	}
}

// TestReleasedGrantOfATask: the released grant of a collecting task is taken again as it was, or
// ends with the leadership that goes with it.
func TestReleasedGrantOfATask(t *testing.T) {
	g := &types.Grant{Phase: types.Collecting, Bundles: []string{"n1"}, Nodes: []types.GrantNode{{Node: "n1", Holds: cpus(1000)}}}
	v, r := reserved(t, bundlesOf(1000), g, controlplane.AllocatedKey("n1"), &types.Allocated{Holds: cpus(1000)},
		controlplane.LeaderKey(grants.AccumulateRole), &types.Leader{Holder: "a/r"})
	d, n := New(v, unlimited, 1), v.Nodes["n1"]
	free := func(want types.Quantity) {
		t.Helper()
		if got, _ := d.Free(n, types.CPU); got != want {
			t.Errorf("%d is free, want %d", got, want)
		}
	}
	d.ReleaseGrant(g)
	free(4000)
	d.ReacquireGrant(g)
	free(3000)
	d.ReleaseGrant(g)
	d.Dissolve(r)
	free(4000)
	sameTransaction(t, "dissolved", d, "if grants/a/r = 6", "if allocated/n1 = 7", "if leaders/accumulate = 8",
		"delete grants/a/r", "delete leaders/accumulate", "put allocated/n1")
}

// TestEndReturnsOfAReleasingGrant: what a task drew on a grant that is being released returns with
// its end, unless the grant still holds the whole node.
func TestEndReturnsOfAReleasingGrant(t *testing.T) {
	for name, test := range map[string]struct {
		phase types.GrantPhase
		whole bool
		want  types.Quantity // of cpu that stays allocated
	}{
		"granted": {types.Granted, false, 400}, "releasing": {types.Releasing, false, 0}, "releasing, and whole there": {types.Releasing, true, 400},
	} {
		grant := &types.Grant{Phase: test.phase, Reservation: 1, Bundles: []string{"n1"}, Nodes: []types.GrantNode{{Node: "n1", Holds: cpus(400), Whole: test.whole}}}
		drawn := types.Holding{Resource: "a:cpu@r", Amount: 400}
		v, x, b := stored(t, func(w *world) {
			w.report.Phase, w.binding.Holds = types.ReportExited, []types.Holding{drawn}
			w.more = []any{controlplane.GrantKey("a", "r"), grant, controlplane.AllocatedKey("n1"), &types.Allocated{Holds: []types.Holding{drawn, {Resource: types.CPU, Amount: 400}}}}
		})
		d := New(v, unlimited, 1)
		d.Act(EndExited, x, b, time.Unix(9, 0))
		compares := slices.Contains(transaction(d), "if grants/a/r = 7")
		left := written[*types.Allocated](d, controlplane.AllocatedKey("n1"))
		if left.Of("a:cpu@r") != 0 || left.Of(types.CPU) != test.want || compares != (test.want == 0) {
			t.Errorf("%s: %+v stays, compares the grant: %t", name, left.Holds, compares)
		}
	}
}

// TestRoomForGang: where a gang has space, its grant and the binds of its tasks fit.
func TestRoomForGang(t *testing.T) {
	for n := 1; n <= 5; n++ {
		v := small(t, n, 0)
		var kvs []any
		for i := range n {
			node := fmt.Sprint("n", i)
			kvs = append(kvs, controlplane.NodeKey(node), v.Nodes[node].Info.V, controlplane.AliveKey(node), &types.Alive{},
				controlplane.TaskKey("a", node), &types.Task{Requests: types.NewRequests(map[string]types.Quantity{"cpu@r": 1000})})
		}
		r := &types.Reservation{}
		for range n {
			r.Bundles = append(r.Bundles, bundlesOf(1000)...)
		}
		v = schedulertest.Snapshot(t, append(kvs, controlplane.ReservationKey("a", "r"), r)...)
		ops := 1
		for !New(v, controlplane.Limits{Ops: ops, Bytes: 1 << 20}, 1).RoomForGang(n) {
			ops++
		}
		d, gang := New(v, controlplane.Limits{Ops: ops, Bytes: 1 << 20}, 1), v.Reservations[cluster.ID{Namespace: "a", ID: "r"}]
		nodes := []string{"n0", "n1", "n2", "n3", "n4"}
		if !d.Grant(gang, placed(d, gang, nodes...), 0) {
			t.Errorf("the grant of %d bundles exceeds %d operations", n, ops)
		}
		for _, node := range nodes[:n] {
			task := v.Task(cluster.ID{Namespace: "a", ID: node})
			if needs := grants.Vectors(v, task)[0]; !d.Bind(task, v.Nodes[node], 0, needs, time.Unix(1, 0)) {
				t.Errorf("%s of %d exceeds %d operations", node, n, ops)
			}
		}
		if txn := d.Seal(); len(txn.Compares)+Spare > ops || len(txn.Ops)+Spare > ops {
			t.Errorf("%d compares and %d operations of at most %d", len(txn.Compares), len(txn.Ops), ops)
		}
	}
}
