package controlplane_test

import (
	"testing"

	"github.com/escher-sched/escher/controlplane"
	"github.com/escher-sched/escher/types"
)

// TestRaise raises a waiting task or reservation, and takes it back, without other changes. It
// leaves a task with a node unchanged.
func TestRaise(t *testing.T) {
	w := newWorld(t)
	w.put(controlplane.TaskKey("team", "waits"), &types.Task{Priority: 2})
	w.put(controlplane.TaskKey("team", "runs"), &types.Task{Priority: 2})
	w.put(controlplane.StatusKey("team", "runs"), &types.Status{Phase: types.Running, Attempt: 1})
	w.put(controlplane.ReservationKey("team", "r"), &types.Reservation{Priority: 2})
	for _, by := range []int{3, 3, -1, 0} {
		if _, err := w.Begin().Raise("waits", by).Raise("runs", by).RaiseReservation("r", by).Commit(t.Context()); err != nil {
			t.Fatal(err)
		}
		var waits, runs types.Task
		var r types.Reservation
		w.get(controlplane.TaskKey("team", "waits"), &waits)
		w.get(controlplane.TaskKey("team", "runs"), &runs)
		w.get(controlplane.ReservationKey("team", "r"), &r)
		if waits.Order() != 2+by || waits.Priority != 2 || r.Order() != 2+by || r.Priority != 2 || runs.Order() != 2 || by == 0 && waits.Later != nil {
			t.Errorf("by %d: %d, %d and %d", by, waits.Order(), r.Order(), runs.Order())
		}
	}
	w.refused(types.Invalid, func() error { _, err := w.Begin().Raise("waits", 1<<21).Commit(t.Context()); return err }, "raise: by 2097152 is too much")
	w.refused(types.NotFound, func() error { _, err := w.Begin().RaiseReservation("none", 1).Commit(t.Context()); return err }, "there is no reservation none")
}
