package scheduler

import (
	"testing"

	"github.com/escher-sched/escher/controlplane"
	"github.com/escher-sched/escher/types"
)

// TestStoppedThoughItsSchedulerIsNot: a task whose named scheduler does not run is cancelled by
// another one, and placed by none.
func TestStoppedThoughItsSchedulerIsNot(t *testing.T) {
	b := newBench(t, Config{Name: "main", Shared: true})
	b.node("n1", 1000)
	for _, name := range []string{"main", "other"} {
		b.put(controlplane.SchedulerKey(name), &types.Leader{Holder: name})
	}
	b.task("a", map[string]types.Quantity{"cpu": 10}, func(t *types.Task) {
		t.Scheduler, t.Stop = "other", &types.Stop{Reason: "enough"}
	})
	b.task("b", map[string]types.Quantity{"cpu": 10}, func(t *types.Task) { t.Scheduler = "other" })
	b.settle()
	b.expect("a", "pending")
	b.del(controlplane.SchedulerKey("other"))
	b.settle()
	b.expect("a", "cancelled on ")
	b.expect("b", "pending")
}
