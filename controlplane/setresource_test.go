package controlplane_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"

	"github.com/escher-sched/escher/controlplane"
	"github.com/escher-sched/escher/controlplane/memstore"
	"github.com/escher-sched/escher/types"
)

// set sets a resource and fails the test if that fails.
func (w *world) set(name string, capacity types.Quantity, where controlplane.Where, opts ...controlplane.SetOptions) controlplane.SetResult {
	w.t.Helper()
	var o controlplane.SetOptions
	if len(opts) > 0 {
		o = opts[0]
	}
	res, err := w.SetResource(context.Background(), name, capacity, where, o)
	if err != nil {
		w.t.Fatal(err)
	}
	return res
}

func TestSetResourceIsAbsolute(t *testing.T) {
	w := newWorld(t)
	session := w.node("n1")
	w.node("n2")
	for _, c := range []struct {
		capacity types.Quantity
		where    controlplane.Where
		opts     controlplane.SetOptions
		want     caps
	}{
		{1500, controlplane.OnNode("n1"), controlplane.SetOptions{}, caps{"n1": 1500}},
		{500, controlplane.OnNode("n1"), controlplane.SetOptions{}, caps{"n1": 500}},
		{types.Inf, controlplane.OnNode("n1", "n2"), controlplane.SetOptions{}, caps{"n1": types.Inf, "n2": types.Inf}},
		{0, controlplane.OnNode("n1"), controlplane.SetOptions{}, caps{"n2": types.Inf}},
		{0, controlplane.OnNode("n1"), controlplane.SetOptions{Declare: true}, caps{"n1": 0, "n2": types.Inf}},
		{7, controlplane.OnEvery(), controlplane.SetOptions{}, caps{"+": 7}},
		{3, controlplane.OnNode("n2"), controlplane.SetOptions{}, caps{"+": 7, "n2": 3}},
		{0, controlplane.Where{}, controlplane.SetOptions{}, caps{}},
		{0, controlplane.InCluster(), controlplane.SetOptions{Declare: true}, caps{"*": 0}},
		{9, controlplane.InCluster(), controlplane.SetOptions{}, caps{"*": 9}},
		{0, controlplane.InCluster(), controlplane.SetOptions{}, caps{}},
	} {
		w.set("x", c.capacity, c.where, c.opts)
		w.wantHas("x", c.want)
		before := w.store.Revision()
		if res := w.set("x", c.capacity, c.where, c.opts); w.store.Revision() != before || res.Parts != 1 {
			t.Errorf("%d %s: setting it again wrote something: %+v", c.capacity, c.where, res)
		}
	}
	w.set("x", 1, controlplane.OnNode("n1"))
	var r types.Resource
	if !w.get(controlplane.ResourceKey("team", "x", "n1"), &r) || r.NodeSession != session {
		t.Errorf("%+v is not of session %d", r, session)
	}
}

func TestSetResourceOnLabels(t *testing.T) {
	w := newWorld(t)
	w.node("n1", "rack=r1")
	w.node("n2", "rack=r2")
	rack := func(r string) controlplane.Where { return controlplane.OnEvery(types.Label{Name: "rack", Value: r}) }
	w.set("x", 1, controlplane.OnNode("n1", "n2"))
	w.set("x", 5, rack("r1"))
	w.wantHas("x", caps{"+": 5, "n2": 1})
	var r types.Resource
	if !w.get(controlplane.ResourceKey("team", "x", "+"), &r) || r.Selector == nil || r.Selector.Labels[0].Value != "r1" {
		t.Errorf("stored is %+v", r)
	}
	w.refused(types.Precondition, func() error {
		_, err := w.SetResource(t.Context(), "x", 0, rack("r2"), controlplane.SetOptions{})
		return err
	}, "rack=r1", "remove it with those labels")
	w.refused(types.Precondition, func() error {
		_, err := w.SetResource(t.Context(), "x", 5, rack("r9"), controlplane.SetOptions{})
		return err
	}, "none of 2 nodes has rack=r9", "future nodes")
	w.set("x", 6, rack("r9"), controlplane.SetOptions{Future: true})
	w.wantHas("x", caps{"+": 6, "n2": 1})
	w.set("x", 0, rack("r9"))
	w.wantHas("x", caps{"n2": 1})
	w.set("x", 4, controlplane.Where{Nodes: []string{"n1", "n2"}, Labels: []types.Label{{Name: "rack", Value: "r1"}}})
	w.wantHas("x", caps{"n1": 4, "n2": 1})
}

// TestOrderOfLabelsHasNoMeaning: a resource is the same in whatever order its labels are written.
func TestOrderOfLabelsHasNoMeaning(t *testing.T) {
	w := newWorld(t)
	w.node("n1", "rack=r1", "disk=ssd")
	rack, disk := types.Label{Name: "rack", Value: "r1"}, types.Label{Name: "disk", Value: "ssd"}
	written := []types.Label{rack, disk, rack}
	w.set("x", 5, controlplane.OnEvery(written...))
	var r types.Resource
	if !w.get(controlplane.ResourceKey("team", "x", "+"), &r) || !slices.Equal(r.Selector.Labels, []types.Label{disk, rack}) {
		t.Errorf("stored is %+v", r.Selector)
	}
	if !slices.Equal(written, []types.Label{rack, disk, rack}) {
		t.Errorf("the labels of the caller are %v", written)
	}
	before := w.store.Revision()
	if w.set("x", 5, controlplane.OnEvery(disk, rack)); w.store.Revision() != before {
		t.Error("another order wrote something")
	}
	w.put(controlplane.ResourceKey("team", "x", "+"), &types.Resource{Capacity: 5, Selector: &types.Selector{Labels: []types.Label{rack, disk}}})
	w.set("x", 0, controlplane.OnEvery(disk, rack))
	w.wantHas("x", caps{})
}

func TestSetResourceOfALifetime(t *testing.T) {
	w := newWorld(t)
	w.node("n1")
	for lifetime, key := range map[types.Lifetime]string{
		types.OfTask:        controlplane.TaskKey("team", "o-1"),
		types.OfSession:     controlplane.SessionKey("team", "o-1"),
		types.OfReservation: controlplane.ReservationKey("team", "o-1"),
		types.OfPolicy:      controlplane.PoliciesKey("team", "o-1"),
		types.OfJob:         controlplane.JobKey("team", "o-1"),
	} {
		opts := controlplane.SetOptions{Lifetime: lifetime, Owner: "o-1"}
		w.refused(types.Precondition, func() error {
			_, err := w.SetResource(t.Context(), "x", 1, controlplane.OnNode("n1"), opts)
			return err
		}, "owner: there is no "+string(lifetime)+` "o-1"`, "create it first")
		w.put(key, &types.Session{})
		w.set("x", 1, controlplane.OnNode("n1"), opts)
		var r types.Resource
		if !w.get(controlplane.ResourceKey("team", "x", "n1"), &r) || r.Lifetime != lifetime || r.Owner != "o-1" {
			t.Errorf("stored is %+v", r)
		}
	}
}

func TestSetResourceRefuses(t *testing.T) {
	w := newWorld(t)
	w.node("n1")
	w.node("n2")
	w.put(controlplane.NodeKey("dead"), &types.Node{})
	w.set("pool", 1, controlplane.InCluster())
	on := controlplane.OnNode("n1")
	for _, c := range []struct {
		class    types.Class
		name     string
		capacity types.Quantity
		where    controlplane.Where
		opts     controlplane.SetOptions
		says     []string
	}{
		{types.Invalid, "gpu", 1, on, controlplane.SetOptions{}, []string{"name: ", "physical"}},
		{types.Invalid, "a/b", 1, on, controlplane.SetOptions{}, []string{"physical"}},
		{types.Invalid, "a b", 1, on, controlplane.SetOptions{}, []string{"use letters"}},
		{types.Invalid, strings.Repeat("x", 300), 1, on, controlplane.SetOptions{}, []string{"shorten it"}},
		{types.Invalid, "gpu@train", 1, on, controlplane.SetOptions{}, []string{"use Reserve"}},
		{types.Invalid, "x", -1, on, controlplane.SetOptions{}, []string{"capacity: -0.001 is negative", "give 0"}},
		{types.Invalid, "x", types.MaxQuantity + 1, on, controlplane.SetOptions{}, []string{"too large", "inf means no bound"}},
		{types.Invalid, "x", 1, controlplane.OnNode("n1", "n1"), controlplane.SetOptions{}, []string{"where.nodes[1]", "twice"}},
		{types.Invalid, "x", 1, controlplane.OnNode("n1", "a/b"), controlplane.SetOptions{}, []string{"where.nodes[1]: "}},
		{types.Invalid, "x", 1, controlplane.OnNode("n1", "n7", "n8"), controlplane.SetOptions{}, []string{`"n7", "n8" is unknown`, "3 registered nodes", "n1"}},
		{types.Invalid, "x", 1, controlplane.Where{Nodes: []string{"n1"}, Cluster: true}, controlplane.SetOptions{}, []string{"give one of them"}},
		{types.Invalid, "x", 1, controlplane.OnEvery(types.Label{Name: "rack"}), controlplane.SetOptions{}, []string{"where.labels[0].value"}},
		{types.Invalid, "x", 1, on, controlplane.SetOptions{Owner: "o"}, []string{`owner: "o"`, "without a lifetime"}},
		{types.Invalid, "x", 1, on, controlplane.SetOptions{Lifetime: "day", Owner: "o"}, []string{`lifetime: "day"`, "use task"}},
		{types.Invalid, "x", 1, on, controlplane.SetOptions{Lifetime: types.OfTask}, []string{"owner: is empty"}},
		{types.Invalid, "cpu", -1, controlplane.OnNode(""), controlplane.SetOptions{}, []string{"name: ", "capacity: ", "where.nodes[0]: "}},
		{types.Precondition, "x", 1, controlplane.OnNode("n1", "dead"), controlplane.SetOptions{}, []string{"node dead is not alive", "wait"}},
		{types.Precondition, "pool", 1, on, controlplane.SetOptions{}, []string{"one pool", "remove it there first"}},
		{types.Precondition, "pool", 1, controlplane.OnEvery(), controlplane.SetOptions{}, []string{"one pool"}},
		{types.Precondition, "x", 1, controlplane.Where{Nodes: []string{"n1"}, Labels: []types.Label{{Name: "rack", Value: "r1"}}}, controlplane.SetOptions{}, []string{"no node matches"}},
	} {
		w.refused(c.class, func() error {
			_, err := w.SetResource(t.Context(), c.name, c.capacity, c.where, c.opts)
			return err
		}, c.says...)
	}
	w.set("x", 0, controlplane.OnNode("dead")) // removing nothing succeeds
}

// Transactions are small, so setting many resources takes parts, and the result says so.
func TestSetResourceInParts(t *testing.T) {
	w := newWorld(t, memstore.WithLimits(controlplane.Limits{Ops: 22, Bytes: 1 << 20}))
	var names []string
	want := make(caps)
	for i := range 40 {
		names = append(names, fmt.Sprintf("n%02d", i))
		w.node(names[i])
		want[names[i]] = 3
	}
	if res := w.set("x", 3, controlplane.OnNode(names...)); res.Parts != 4 {
		t.Errorf("it took %d parts, want 40 nodes, 10 a part", res.Parts)
	}
	w.wantHas("x", want)
	if res := w.set("x", 5, controlplane.OnEvery()); res.Parts < 2 {
		t.Errorf("deleting 40 keys took %d parts", res.Parts)
	}
	w.wantHas("x", caps{"+": 5})
	w.refused(types.Invalid, func() error {
		_, err := w.Begin().SetResource("x", 3, controlplane.OnNode(names...), controlplane.SetOptions{}).Commit(t.Context())
		return err
	}, "takes 22 at once", "--max-txn-ops")
}

// A value set by another client between two parts stays.
func TestSetResourceInPartsWritesNothingTwice(t *testing.T) {
	w := newWorld(t, memstore.WithLimits(controlplane.Limits{Ops: 21, Bytes: 1 << 20}))
	var names []string
	for i := range 15 {
		names = append(names, fmt.Sprintf("n%02d", i))
		w.node(names[i])
	}
	w.lossy.before = func(n int) {
		if n == 2 {
			w.put(controlplane.ResourceKey("team", "x", "n00"), &types.Resource{Capacity: 77})
		}
	}
	w.lossy.commits()
	w.set("x", 3, controlplane.OnNode(names...))
	if got := w.has("x"); got["n00"] != 77 || got["n14"] != 3 {
		t.Errorf("got %v", got)
	}
}

func TestSetResourceAgainstOthers(t *testing.T) {
	w := newWorld(t)
	w.node("n1")
	synctest.Test(t, func(t *testing.T) {
		w.lossy.before = func(n int) {
			if n <= 3 {
				w.put(controlplane.ResourceKey("team", "x", "n1"), &types.Resource{Capacity: types.Quantity(n)})
			}
		}
		w.set("x", 9, controlplane.OnNode("n1"))
		w.wantHas("x", caps{"n1": 9})
		if n := w.lossy.commits(); n != 4 {
			t.Errorf("it took %d commits, want 4", n)
		}
		// The node leaves and returns in between.
		var session int64
		w.lossy.before = func(n int) {
			if n == 1 {
				w.delete(controlplane.AliveKey("n1"))
				session = w.put(controlplane.AliveKey("n1"), &types.Alive{})
			}
		}
		w.set("x", 10, controlplane.OnNode("n1"))
		var r types.Resource
		if w.get(controlplane.ResourceKey("team", "x", "n1"), &r); r.NodeSession != session {
			t.Errorf("%+v is not of session %d", r, session)
		}
		// Another client makes it a pool in between.
		w.lossy.commits()
		w.lossy.before = func(n int) {
			if n == 1 {
				w.delete(controlplane.ResourceKey("team", "x", "n1"))
				w.put(controlplane.ResourceKey("team", "x", "*"), &types.Resource{Capacity: 1})
			}
		}
		if _, err := w.SetResource(t.Context(), "x", 11, controlplane.OnNode("n1"), controlplane.SetOptions{}); !types.Is(err, types.Precondition) {
			t.Errorf("got %v", err)
		}
	})
}

// A client that has set a resource on a node notices a new session of the node.
func TestSetResourceOnANodeThatChanged(t *testing.T) {
	w := newWorld(t)
	w.node("n1")
	w.set("x", 1, controlplane.OnNode("n1"))
	w.delete(controlplane.AliveKey("n1"))
	session := w.put(controlplane.AliveKey("n1"), &types.Alive{})
	w.set("x", 1, controlplane.OnNode("n1"))
	var r types.Resource
	if w.get(controlplane.ResourceKey("team", "x", "n1"), &r); r.NodeSession != session {
		t.Errorf("%+v is not of session %d", r, session)
	}
	w.delete(controlplane.AliveKey("n1"))
	set := func() error {
		_, err := w.SetResource(t.Context(), "x", 1, controlplane.OnNode("n1"), controlplane.SetOptions{})
		return err
	}
	w.refused(types.Precondition, set, "node n1 is not alive")
	w.delete(controlplane.NodeKey("n1"))
	w.refused(types.Invalid, set, `"n1" is unknown`)
}

func TestSetResourceGivesUpUnderEndlessChange(t *testing.T) {
	w := newWorld(t)
	w.node("n1")
	synctest.Test(t, func(t *testing.T) {
		w.lossy.before = func(n int) {
			w.put(controlplane.ResourceKey("team", "x", "n1"), &types.Resource{Capacity: types.Quantity(n)})
		}
		if _, err := w.SetResource(t.Context(), "x", 5000, controlplane.OnNode("n1"), controlplane.SetOptions{}); !types.Is(err, types.Conflict) {
			t.Errorf("got %v", err)
		}
	})
}

// A resource is set, and once, whatever the fate of the first copies.
func TestSetResourceNotAnswered(t *testing.T) {
	for _, fates := range [][]fate{
		{lost}, {forgotten}, {late}, {unavailable}, {forgotten, lost}, {late, forgotten}, {late, lost}, {lost, lost, lost}, {forgotten, unavailable, late},
	} {
		for _, capacity := range []types.Quantity{5, 0} {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t)
				w.node("n1")
				w.set("x", 1, controlplane.OnNode("n1"))
				w.lossy.next(fates...)
				before := w.store.Revision()
				if _, err := w.SetResource(t.Context(), "x", capacity, controlplane.OnNode("n1"), controlplane.SetOptions{}); err != nil {
					t.Fatalf("%v: %v", fates, err)
				}
				want := caps{"n1": 5}
				if capacity == 0 {
					want = caps{}
				}
				w.wantHas("x", want)
				if n := w.store.Revision() - before; n != 1 {
					t.Errorf("%v: it was written %d times", fates, n)
				}
			})
		}
	}
}

// A copy that was applied without an answer and then overwritten is not sent again, because that
// would undo the newer value.
func TestSetResourceLateNeverOverwrites(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.node("n1")
		w.lossy.next(lost)
		w.lossy.before = func(n int) {
			if n == 2 {
				w.put(controlplane.ResourceKey("team", "x", "n1"), &types.Resource{Capacity: 77})
			}
		}
		_, err := w.SetResource(t.Context(), "x", 5, controlplane.OnNode("n1"), controlplane.SetOptions{})
		if !types.Is(err, types.Conflict) || !strings.Contains(err.Error(), "did not answer") {
			t.Errorf("got %v", err)
		}
		w.wantHas("x", caps{"n1": 77})
	})
}

func TestSetResourceNeverAnswered(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.node("n1")
		ctx, cancel := context.WithCancel(t.Context())
		w.lossy.before = func(n int) {
			w.lossy.next(forgotten)
			if n == 5 {
				cancel()
			}
		}
		w.lossy.next(forgotten)
		if _, err := w.SetResource(ctx, "x", 5, controlplane.OnNode("n1"), controlplane.SetOptions{}); err == nil {
			t.Error("it succeeded")
		}
		w.wantHas("x", caps{})
	})
}

func TestSetResourceRaces(t *testing.T) {
	w := newWorld(t)
	w.node("n1")
	var wg sync.WaitGroup
	for i := range 8 {
		wg.Go(func() {
			for j := range 10 {
				if _, err := w.SetResource(t.Context(), "x", types.Quantity(1+10*i+j), controlplane.OnNode("n1"), controlplane.SetOptions{}); err != nil {
					t.Error(err)
				}
			}
		})
	}
	wg.Wait()
	if n := w.has("x")["n1"]; (n-1)%10 != 9 {
		t.Errorf("%d is not the last of any writer", n)
	}
}
