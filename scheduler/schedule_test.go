package scheduler

import (
	"fmt"
	"reflect"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/escher-sched/escher/controlplane"
	"github.com/escher-sched/escher/controlplane/cluster"
	"github.com/escher-sched/escher/types"
)

// snapshot makes a view of keys and values.
func snapshot(t interface{ Fatal(...any) }, kvs ...any) *cluster.View {
	v := cluster.New()
	for i := 0; i < len(kvs); i += 2 {
		rev := int64(i/2 + 1)
		kv := controlplane.KV{Key: kvs[i].(string), Value: types.Encode(1, kvs[i+1].(types.Message)), CreateRevision: rev, ModRevision: rev}
		if _, _, err := v.Apply(controlplane.Event{KV: kv}); err != nil {
			t.Fatal(err)
		}
	}
	v.Reached(int64(len(kvs)))
	return v
}

func vector(cpu, gpu types.Quantity) types.Requests {
	amounts := make(map[string]types.Quantity)
	if cpu > 0 {
		amounts["cpu"] = cpu
	}
	if gpu > 0 {
		amounts["gpu"] = gpu
	}
	return types.NewRequests(amounts)
}

func TestSchedule(t *testing.T) {
	v := snapshot(t,
		controlplane.NodeKey("n1"), &types.Node{Capacity: vector(2000, 0)}, controlplane.AliveKey("n1"), &types.Alive{},
		controlplane.NodeKey("n2"), &types.Node{Capacity: vector(1000, 0)}, controlplane.AliveKey("n2"), &types.Alive{},
		controlplane.NodeKey("dead"), &types.Node{Capacity: vector(9000, 0)},
		controlplane.TaskKey("a", "large"), &types.Task{Requests: vector(1500, 0), Submitted: 1},
		controlplane.TaskKey("a", "small"), &types.Task{Requests: vector(800, 0), Submitted: 2},
		controlplane.TaskKey("a", "too-much"), &types.Task{Requests: vector(500, 0), Submitted: 3},
		controlplane.TaskKey("a", "urgent"), &types.Task{Requests: vector(400, 0), Submitted: 4, Priority: 1},
		controlplane.TaskKey("a", "stopped"), &types.Task{Requests: vector(1, 0), Stop: &types.Stop{}},
		controlplane.TaskKey("a", "hidden"), &types.Task{Requests: vector(1, 0), Job: "j"},
		controlplane.TaskKey("a", "done"), &types.Task{Requests: vector(1, 0)},
		controlplane.StatusKey("a", "done"), &types.Status{Phase: types.Succeeded, Attempt: 1},
		controlplane.ReservationKey("a", "r"), &types.Reservation{Bundles: []types.Bundle{{Requests: vector(900, 0)}}, Submitted: 5},
	)
	plan := Schedule(v, Config{}, time.Unix(1, 0))
	got := fmt.Sprint(plan.Binds, plan.Grants, plan.Waiting)
	want := "[{a/urgent n1 1 0} {a/large n1 1 0} {a/small n2 1 0}] [] [{a/too-much false [cpu]} {a/r true [cpu]}]"
	if got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
}

// anyCluster is a cluster of up to six nodes, with waiting work.
func anyCluster(t *rapid.T) []any {
	var kvs []any
	for i := range rapid.IntRange(0, 6).Draw(t, "nodes") {
		name := fmt.Sprint("n", i)
		n := &types.Node{Capacity: vector(1000*types.Quantity(rapid.IntRange(1, 4).Draw(t, "cpu")), 1000*types.Quantity(rapid.IntRange(0, 2).Draw(t, "gpu")))}
		kvs = append(kvs, controlplane.NodeKey(name), n)
		if rapid.IntRange(0, 4).Draw(t, "alive") > 0 {
			kvs = append(kvs, controlplane.AliveKey(name), &types.Alive{})
		}
		if rapid.IntRange(0, 4).Draw(t, "cordoned") == 0 {
			kvs = append(kvs, controlplane.CordonKey(name), &types.Cordon{})
		}
	}
	for i := range rapid.IntRange(0, 12).Draw(t, "tasks") {
		x := &types.Task{
			Requests: vector(500*types.Quantity(rapid.IntRange(0, 4).Draw(t, "cpu")), 500*types.Quantity(rapid.IntRange(0, 2).Draw(t, "gpu"))),
			Priority: rapid.IntRange(0, 2).Draw(t, "priority"), Submitted: int64(i),
		}
		kvs = append(kvs, controlplane.TaskKey("a", fmt.Sprint("t", i)), x)
	}
	for i := range rapid.IntRange(0, 2).Draw(t, "reservations") {
		r := &types.Reservation{Submitted: int64(i)}
		for range rapid.IntRange(1, 3).Draw(t, "bundles") {
			r.Bundles = append(r.Bundles, types.Bundle{Requests: vector(500*types.Quantity(rapid.IntRange(1, 4).Draw(t, "cpu")), 0)})
		}
		kvs = append(kvs, controlplane.ReservationKey("a", fmt.Sprint("r", i)), r)
	}
	return kvs
}

func TestScheduleIsPureAndWhole(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		kvs := anyCluster(t)
		v := snapshot(t, kvs...)
		now := time.Unix(100, 0)
		plan := Schedule(v, Config{Seed: 7}, now)
		if again := Schedule(v, Config{Seed: 7}, now); !reflect.DeepEqual(plan, again) {
			t.Fatalf("the same view gave %v, then %v", plan, again)
		}
		if again := Schedule(snapshot(t, kvs...), Config{Seed: 7}, now); !reflect.DeepEqual(plan, again) {
			t.Fatalf("a view that was not scheduled gave %v, not %v", again, plan)
		}
		if n := len(plan.Binds) + len(plan.Grants) + len(plan.Waiting); n != v.NumTasks()+len(v.Reservations) {
			t.Fatalf("%d of %d are in the plan %v", n, v.NumTasks()+len(v.Reservations), plan)
		}
		checkBinds(t, v, plan)
	})
}

// checkBinds checks that every bind is allowed and fits next to the rest.
func checkBinds(t *rapid.T, v *cluster.View, plan Decision) {
	used := make(map[string]types.Quantity)
	for _, b := range plan.Binds {
		n := v.Nodes[b.Node]
		if !n.Eligible() {
			t.Fatalf("%v: %s is not eligible", b, b.Node)
		}
		for _, x := range v.Needs("a", v.Task(b.Task).Info.V.Requests) {
			at := b.Node + " " + string(x.ID)
			used[at] += x.Amount
			if capacity, _ := v.Capacity(n, x.ID); used[at] > capacity {
				t.Fatalf("%v: %d of %s are in use, of %d", plan.Binds, used[at], at, capacity)
			}
		}
	}
	for _, w := range plan.Waiting {
		if w.Reservation || len(plan.Grants) > 0 {
			continue
		}
		for _, n := range v.Nodes {
			if n.Eligible() && fitsBeside(v, n, w.ID, used) {
				t.Fatalf("%s waits, and fits on %s", w.ID, n.Name)
			}
		}
	}
}

func fitsBeside(v *cluster.View, n *cluster.Node, id cluster.ID, used map[string]types.Quantity) bool {
	for _, x := range v.Needs("a", v.Task(id).Info.V.Requests) {
		capacity, ok := v.Capacity(n, x.ID)
		if !ok || capacity-used[n.Name+" "+string(x.ID)] < x.Amount {
			return false
		}
	}
	return true
}
