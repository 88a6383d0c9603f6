package room

import (
	"slices"
	"testing"

	"github.com/escher-sched/escher/controlplane"
	"github.com/escher-sched/escher/e2e/viewtest"
	"github.com/escher-sched/escher/esl"
	"github.com/escher-sched/escher/types"
)

// TestCore keeps a core of two tasks, besides which there are two others.
func TestCore(t *testing.T) {
	for name, c := range map[string]struct {
		phases [4]types.Phase
		locked bool
		// what keepCore plans
		has, stops, locks, unlocks bool
	}{
		"waits for its place":      {[4]types.Phase{types.Pending, types.Pending, types.Pending, types.Pending}, true, false, false, false, false},
		"its place was taken":      {[4]types.Phase{types.Running, types.Pending, types.Pending, types.Pending}, false, false, false, true, false},
		"has ended":                {[4]types.Phase{types.Succeeded, types.Succeeded, types.Running, types.Pending}, true, true, false, false, true},
		"has ended for long":       {[4]types.Phase{types.Succeeded, types.Succeeded, types.Running, types.Pending}, false, true, false, false, false},
		"one of the core failed":   {[4]types.Phase{types.Running, types.Failed, types.Running, types.Pending}, true, false, true, false, false},
		"one of the others failed": {[4]types.Phase{types.Succeeded, types.Succeeded, types.Failed, types.Pending}, false, true, false, false, false},
	} {
		b := viewtest.NewBench(t, 4)
		ids := []string{"t0", "t1", "t2", "t3"}
		for i, id := range ids {
			task := &types.Task{Job: "j", Requests: types.NewRequests(map[string]types.Quantity{"cpu@j.elastic": 1000})}
			if i >= 2 {
				task.Requests = types.NewRequests(map[string]types.Quantity{"cpu": 1000, "j.elastic.more": esl.One})
			}
			b.Put(controlplane.TaskKey("d", id), task)
			if c.phases[i] != types.Pending {
				b.Put(controlplane.StatusKey("d", id), &types.Status{Phase: c.phases[i], Attempt: 1, Node: "n0000"})
			}
		}
		if c.locked {
			b.Put(controlplane.ReservationKey("d", "j.elastic"), &types.Reservation{Job: "j", Bundles: []types.Bundle{{Requests: types.NewRequests(map[string]types.Quantity{"cpu": 1000})}}})
		}
		s := &esl.State{View: b.View, Namespace: "d", ID: "j", Job: "j", Label: "elastic"}
		core, more := coreOf(s)
		if len(core) != 2 || len(more) != 2 || isMore(core[0]) || !isMore(more[0]) {
			t.Fatalf("%s: %d are in the core, %d outside it", name, len(core), len(more))
		}
		plan, has := keepCore(s, core, more)
		if has != c.has || len(plan.Stop) > 0 != c.stops || len(plan.Reserve) > 0 != c.locks || slices.Contains(plan.Unreserve, "j.elastic") != c.unlocks {
			t.Errorf("%s: %v, %+v", name, has, plan)
		}
	}
}
