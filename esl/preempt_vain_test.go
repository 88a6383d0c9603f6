package esl

import (
	"testing"
	"time"

	"github.com/escher-sched/escher/controlplane"
	"github.com/escher-sched/escher/controlplane/cluster"
	"github.com/escher-sched/escher/types"
)

// TestPreemptInVain: room that was whole and helped nobody is made again only after a wait
// that is doubled each time, and no longer once it has helped.
func TestPreemptInVain(t *testing.T) {
	s := occupied(t, "a n1 4 1 1", "b n2 4 1 1", "c n3 4 1 1")
	put := func(key string, m types.Message) {
		if _, _, err := s.View.Apply(controlplane.Event{KV: controlplane.KV{
			Key: key, ModRevision: s.View.Revision + 1, CreateRevision: s.View.Revision + 1, Value: types.Encode(1, m),
		}}); err != nil {
			t.Fatal(err)
		}
		s.View.Reached(s.View.Revision + 1)
	}
	put(controlplane.JobKey("d", "high"), &types.Job{Tasks: 1})
	put(controlplane.TaskKey("d", "w"), &types.Task{Job: "high", Priority: 5, Requests: types.NewRequests(map[string]types.Quantity{"cpu": 4000})})
	var memo any
	s.memo = &memo
	id := cluster.ID{Namespace: "d", ID: s.Own("")}
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
		for range 2 { // it may be asked again before that is done
			if plan := (Preempt{}).Next(s); len(plan.Unreserve) != 1 {
				t.Fatalf("%d: %+v", i, plan)
			}
		}
		delete(s.View.Reservations, id)
		if plan := (Preempt{}).Next(s); !plan.Nothing() || !plan.Again.Equal(s.Now.Add(want)) {
			t.Errorf("%d: %+v, not to be made again before %s", i, plan, want)
		}
		s.Now = s.Now.Add(want)
	}
	over := cluster.Reservation{ID: id}
	over.Info.V, over.Info.Create = &types.Reservation{}, 200
	over.Grant.V = &types.Grant{Phase: types.HandedOver, Reservation: 200}
	tries := memo.(*triedInVain)
	if tries.note(s, &over); *tries != (triedInVain{}) {
		t.Errorf("it has helped, and there remains %+v", *tries)
	}
}

// TestPreemptAccumulated counts what the job has accumulated as free, and nobody else's.
func TestPreemptAccumulated(t *testing.T) {
	for job, want := range map[string]int{"high": 0, "other": 1} {
		s := occupied(t, "a n1 4 1 1", "b n2 4 5 1", "c n3 4 1 1 "+job)
		s.View.Reservations[cluster.ID{Namespace: "d", ID: job + ".gang"}].Grant.V.Phase = types.Accumulating
		c := newClearing(s, 5, time.Minute, true)
		asks := []types.Bundle{{Requests: types.NewRequests(map[string]types.Quantity{"cpu": 4000})}}
		if _, ok := c.clear(asks, 5, "d"); !ok || len(c.evicted) != want {
			t.Errorf("of job %s: fits is %v with %d evicted, not %d", job, ok, len(c.evicted), want)
		}
	}
}
