package esl_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/escher-sched/escher/controlplane"
	"github.com/escher-sched/escher/e2e/hollow"
	"github.com/escher-sched/escher/esl"
	"github.com/escher-sched/escher/types"
)

// TestPreemptsOfWhoHasMoved: of a job that has moved one is evicted where one will do: what
// they draw on was given up when they had moved, and not with an eviction.
func TestPreemptsOfWhoHasMoved(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, jobs, ids, others := spreadOut(t, esl.Migrate{}, "stop", "1s")
		stopped(t, jobs, others["n02"])
		pass(20 * time.Second)
		if on := where(t, c, ids); on != "n02 n02 n02 n02" {
			t.Fatalf("it is on %q", on)
		}
		fillNode(t, jobs, "n00", 1)
		fillNode(t, jobs, "n01", 1)
		v, err := c.View(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		before := make(map[string]int)
		for _, id := range ids {
			before[id] = v.Task(idOf(id)).Status.V.Attempt
		}
		s := ofPriority(5, 1, hollow.Task(1000))
		s[0].Task.Requests = s[0].Task.Requests.Plus(types.Requests{{Name: "node/n02", Amount: 1000}})
		high := submitted(t, jobs, s, esl.Preempt{})
		pass(10 * time.Second)
		if v, err = c.View(t.Context()); err != nil {
			t.Fatal(err)
		}
		evicted := 0
		for _, id := range ids {
			if v.Task(idOf(id)).Info.V.Evict >= before[id] {
				evicted++
			}
		}
		if on := where(t, c, high.Tasks); on != "n02" || evicted != 1 {
			t.Errorf("it is on %q, and %d were evicted for it", on, evicted)
		}
	})
}

// TestPreemptsWithFormerRoom: room that is being made under the id without a number, as it
// once was, is gone on with, and given up when it is handed over.
func TestPreemptsWithFormerRoom(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, jobs := ordered(t, 1)
		c.StopKeeping()
		low := submitted(t, jobs, ofPriority(1, 4, hollow.Task(1000, "stop", "1s")))
		statuses(t, jobs, controlplane.UntilRunning, low.Tasks...)
		high := submitted(t, jobs, ofPriority(5, 1, hollow.Task(3000)), esl.Preempt{})
		v, err := c.View(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		job := v.Task(idOf(high.Tasks[0])).Info.V.Job
		if err := jobs.Reserve(t.Context(), job+".preempt", types.Reservation{
			Accumulate: true, AtOnce: true, Job: job, Priority: 5,
			Bundles: []types.Bundle{{Node: "n00", Requests: types.NewRequests(map[string]types.Quantity{"cpu": 3000})}},
		}); err != nil {
			t.Fatal(err)
		}
		pass(time.Second)
		c.Keep()
		pass(30 * time.Second)
		if v, err = c.View(t.Context()); err != nil {
			t.Fatal(err)
		}
		if on, r := where(t, c, high.Tasks), v.Reservations[idOf(job+".preempt")]; on != "n00" || r != nil && r.Info.V != nil || evictions(t, c, low.Tasks) != 3 {
			t.Errorf("it is on %q, with room %+v, and %d were evicted for it", on, r, evictions(t, c, low.Tasks))
		}
	})
}
