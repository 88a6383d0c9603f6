package scheduler

import (
	"fmt"
	"reflect"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/escher-sched/escher/controlplane"
	"github.com/escher-sched/escher/controlplane/cluster"
	"github.com/escher-sched/escher/scheduler/schedulertest"
	"github.com/escher-sched/escher/types"
)

func TestSchedule(t *testing.T) {
	v := schedulertest.Snapshot(t,
		controlplane.NodeKey("n1"), &types.Node{Capacity: schedulertest.Vector(2000, 0)}, controlplane.AliveKey("n1"), &types.Alive{},
		controlplane.NodeKey("n2"), &types.Node{Capacity: schedulertest.Vector(1000, 0)}, controlplane.AliveKey("n2"), &types.Alive{},
		controlplane.NodeKey("dead"), &types.Node{Capacity: schedulertest.Vector(9000, 0)},
		controlplane.TaskKey("a", "large"), &types.Task{Requests: schedulertest.Vector(1500, 0), Submitted: 1},
		controlplane.TaskKey("a", "small"), &types.Task{Requests: schedulertest.Vector(800, 0), Submitted: 2},
		controlplane.TaskKey("a", "too-much"), &types.Task{Requests: schedulertest.Vector(500, 0), Submitted: 3},
		controlplane.TaskKey("a", "urgent"), &types.Task{Requests: schedulertest.Vector(400, 0), Submitted: 4, Priority: 1},
		controlplane.TaskKey("a", "stopped"), &types.Task{Requests: schedulertest.Vector(1, 0), Stop: &types.Stop{}},
		controlplane.TaskKey("a", "hidden"), &types.Task{Requests: schedulertest.Vector(1, 0), Job: "j"},
		controlplane.TaskKey("a", "done"), &types.Task{Requests: schedulertest.Vector(1, 0)},
		controlplane.StatusKey("a", "done"), &types.Status{Phase: types.Succeeded, Attempt: 1},
		controlplane.ReservationKey("a", "r"), &types.Reservation{Bundles: []types.Bundle{{Requests: schedulertest.Vector(900, 0)}}, Submitted: 5},
	)
	plan := Schedule(v, Config{}, time.Unix(1, 0))
	got := fmt.Sprint(plan.Binds, plan.Grants, plan.Waiting)
	want := "[{a/urgent n1 1 0} {a/large n1 1 0} {a/small n2 1 0}] [] [{a/too-much false [cpu]} {a/r true [cpu]}]"
	if got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
}

func TestScheduleIsPureAndWhole(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		kvs := schedulertest.AnyCluster(t)
		v := schedulertest.Snapshot(t, kvs...)
		now := time.Unix(100, 0)
		plan := Schedule(v, Config{Seed: 7}, now)
		if again := Schedule(v, Config{Seed: 7}, now); !reflect.DeepEqual(plan, again) {
			t.Fatalf("the same view gave %v, then %v", plan, again)
		}
		if again := Schedule(schedulertest.Snapshot(t, kvs...), Config{Seed: 7}, now); !reflect.DeepEqual(plan, again) {
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
