package room

import (
	"testing"
	"time"

	"github.com/escher-sched/escher/controlplane"
	"github.com/escher-sched/escher/controlplane/cluster"
	"github.com/escher-sched/escher/types"
)

// TestPreemptInVain: after a complete reservation that helped no task, the next one waits twice as
// long each time, until one has helped.
func TestPreemptInVain(t *testing.T) {
	s := occupied(t, "a n1 4 1 1", "b n2 4 1 1", "c n3 4 1 1")
	put(t, s, controlplane.JobKey("d", "high"), &types.Job{Tasks: 1})
	put(t, s, controlplane.TaskKey("d", "w"), &types.Task{Job: "high", Priority: 5, Requests: types.NewRequests(map[string]types.Quantity{"cpu": 4000})})
	var memo any
	s.Memo = &memo
	id := cluster.ID{Namespace: "d", ID: s.Own("0")}
	for i, want := range []time.Duration{time.Second, 2 * time.Second, 4 * time.Second} {
		plan := Preempt{}.Next(s)
		if len(plan.Reserve) != 1 {
			t.Fatalf("%d: %+v", i, plan)
		}
		made := cluster.Reservation{ID: id}
		made.Info.V, made.Info.Create = &plan.Reserve[0].Reservation, int64(100+i)
		made.Info.V.Submitted = s.Now.UnixNano()
		made.Grant.V = &types.Grant{Phase: types.Granted, Reservation: made.Info.Create}
		s.View.Reservations[id] = &made
		for range 2 { // a second call may come before the commit
			if plan := (Preempt{}).Next(s); len(plan.Unreserve) != 1 {
				t.Fatalf("%d: %+v", i, plan)
			}
		}
		delete(s.View.Reservations, id)
		if plan := (Preempt{}).Next(s); !plan.Nothing() || !plan.RequeueAfter.Equal(s.Now.Add(want)) {
			t.Errorf("%d: %+v, not to be made again before %s", i, plan, want)
		}
		s.Now = s.Now.Add(want)
	}
	over := cluster.Reservation{ID: id}
	over.Info.V, over.Info.Create = &types.Reservation{}, 200
	over.Grant.V = &types.Grant{Phase: types.HandedOver, Reservation: 200}
	tries := memo.(*triedInVain)
	if tries.note(s, &over); tries.wait != 0 || !tries.until.IsZero() {
		t.Errorf("it has helped, and there remains %+v", *tries)
	}
}

// TestPreemptNeverWhole gives up soon a reservation that is incomplete though all victims have
// ended, and makes the next one only after a wait, which doubles.
func TestPreemptNeverWhole(t *testing.T) {
	s := occupied(t, "a n1 4 1 1", "b n2 4 9 1", "c n3 4 9 1")
	put(t, s, controlplane.JobKey("d", "high"), &types.Job{Tasks: 1})
	put(t, s, controlplane.TaskKey("d", "w"), &types.Task{Job: "high", Priority: 5, Submitted: s.Now.Add(-time.Minute).UnixNano(), Requests: types.NewRequests(map[string]types.Quantity{"cpu": 4000})})
	var memo any
	s.Memo = &memo
	asks := Preempt{}.Next(s).Reserve
	if len(asks) != 1 {
		t.Fatalf("%+v", asks)
	}
	asks[0].Submitted = s.Now.UnixNano()
	put(t, s, controlplane.ReservationKey("d", asks[0].ID), &asks[0].Reservation)
	put(t, s, controlplane.GrantKey("d", asks[0].ID), &types.Grant{Phase: types.Collecting, Reservation: s.View.Revision, Nodes: []types.GrantNode{{Node: "n1"}}})
	if plan := (Preempt{}).Next(s); len(plan.Evict) != 1 || len(plan.Unreserve) != 0 {
		t.Fatalf("%+v", plan)
	}
	put(t, s, controlplane.TaskKey("d", "a"), &types.Task{Priority: 1, Evict: 1})
	for range 2 {
		s.Now = s.Now.Add(time.Minute)
		if plan := (Preempt{}).Next(s); !plan.Nothing() {
			t.Fatalf("while a task ends: %+v", plan)
		}
	}
	put(t, s, controlplane.StatusKey("d", "a"), &types.Status{Phase: types.Succeeded, Attempt: 1})
	put(t, s, controlplane.AllocatedKey("n1"), &types.Allocated{})
	if plan := (Preempt{}).Next(s); !plan.Nothing() || !plan.RequeueAfter.Equal(s.Now.Add(vainIdle)) {
		t.Fatalf("when all have ended: %+v", plan)
	}
	s.Now = s.Now.Add(vainIdle)
	if plan := (Preempt{}).Next(s); len(plan.Unreserve) != 1 {
		t.Fatalf("some time later: %+v", plan)
	}
	if tries := memo.(*triedInVain); !tries.until.Equal(s.Now.Add(vainFirst)) {
		t.Errorf("made again at %s, not in %s", tries.until, vainFirst)
	}
}

// TestAwaits waits as long as a task is leaving the nodes of the reservation, or any node if it
// takes cluster-wide resources.
func TestAwaits(t *testing.T) {
	s := occupied(t, "a n1 4 1 1", "b n2 4 1 1", "c n3 4 1 1")
	put(t, s, controlplane.TaskKey("d", "b"), &types.Task{Evict: 1})
	put(t, s, controlplane.ResourceKey("d", "lic", types.ClusterWide), &types.Resource{Capacity: 1000})
	for _, c := range []struct {
		node, asks string
		want       bool
	}{{"n1", "cpu", false}, {"n2", "cpu", true}, {"n1", "lic", true}} {
		r := &cluster.Reservation{ID: cluster.ID{Namespace: "d", ID: "r"}}
		r.Info.V = &types.Reservation{Bundles: []types.Bundle{{Node: c.node, Requests: types.NewRequests(map[string]types.Quantity{c.asks: 1000})}}}
		if got := awaitsLeaving(s, r); got != c.want {
			t.Errorf("of %s on %s: %v", c.asks, c.node, got)
		}
	}
}

// TestPreemptAccumulated counts what the job has accumulated as free, but not what others have.
func TestPreemptAccumulated(t *testing.T) {
	for job, want := range map[string]int{"high": 0, "other": 1} {
		s := occupied(t, "a n1 4 1 1", "b n2 4 5 1", "c n3 4 1 1 "+job)
		s.View.Reservations[cluster.ID{Namespace: "d", ID: job + ".gang"}].Grant.V.Phase = types.Collecting
		c := newClearing(s, 5, time.Minute, true)
		asks := []types.Bundle{{Requests: types.NewRequests(map[string]types.Quantity{"cpu": 4000})}}
		if _, ok := c.clear(asker{"d", "high", 5}, asks); !ok || len(c.evicted) != want {
			t.Errorf("of job %s: fits is %v with %d evicted, not %d", job, ok, len(c.evicted), want)
		}
	}
}
