package room_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/escher-sched/escher/controlplane"
	"github.com/escher-sched/escher/e2e/esltest"
	"github.com/escher-sched/escher/e2e/hollow"
	"github.com/escher-sched/escher/esl/room"
	"github.com/escher-sched/escher/types"
)

// TestPreemptsOfWhoHasMoved evicts one task of a moved job if one is enough: the reservation they
// drew on ended with the move, not with an eviction.
func TestPreemptsOfWhoHasMoved(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, jobs, ids, others := spreadOut(t, room.Migrate{}, "stop", "1s")
		stopped(t, jobs, others["n02"])
		esltest.Pass(20 * time.Second)
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
			before[id] = v.Task(esltest.IDOf(id)).Status.V.Attempt
		}
		s := ofPriority(5, 1, hollow.Task(1000))
		s[0].Task.Requests = s[0].Task.Requests.Plus(types.Requests{{Name: "node/n02", Amount: 1000}})
		high := esltest.Submitted(t, jobs, s, room.Preempt{})
		esltest.Pass(10 * time.Second)
		if v, err = c.View(t.Context()); err != nil {
			t.Fatal(err)
		}
		evicted := 0
		for _, id := range ids {
			if v.Task(esltest.IDOf(id)).Info.V.Evict >= before[id] {
				evicted++
			}
		}
		if on := where(t, c, high.Tasks); on != "n02" || evicted != 1 {
			t.Errorf("it is on %q, and %d were evicted for it", on, evicted)
		}
	})
}

// TestPreemptsWithFormerRoom continues a reservation with an id without a number, as older versions
// made it, and gives it up when it is handed over.
func TestPreemptsWithFormerRoom(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, jobs := esltest.Ordered(t, 1)
		c.StopKeeping()
		low := esltest.Submitted(t, jobs, ofPriority(1, 4, hollow.Task(1000, "stop", "1s")))
		esltest.Statuses(t, jobs, controlplane.UntilRunning, low.Tasks...)
		high := esltest.Submitted(t, jobs, ofPriority(5, 1, hollow.Task(3000)), room.Preempt{})
		v, err := c.View(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		job := v.Task(esltest.IDOf(high.Tasks[0])).Info.V.Job
		if err := jobs.Reserve(t.Context(), job+".preempt", types.Reservation{
			Collect: &types.Collect{On: []string{"n00"}, HandOver: true}, Job: job, Priority: 5,
			Bundles: []types.Bundle{{Node: "n00", Requests: types.NewRequests(map[string]types.Quantity{"cpu": 3000})}},
		}); err != nil {
			t.Fatal(err)
		}
		esltest.Pass(time.Second)
		c.Keep()
		esltest.Pass(30 * time.Second)
		if v, err = c.View(t.Context()); err != nil {
			t.Fatal(err)
		}
		if on, r := where(t, c, high.Tasks), v.Reservations[esltest.IDOf(job+".preempt")]; on != "n00" || r != nil && r.Info.V != nil || evictions(t, c, low.Tasks) != 3 {
			t.Errorf("it is on %q, with room %+v, and %d were evicted for it", on, r, evictions(t, c, low.Tasks))
		}
	})
}
