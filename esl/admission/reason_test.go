package admission

import (
	"fmt"
	"testing"
	"time"

	"github.com/escher-sched/escher/controlplane"
	"github.com/escher-sched/escher/e2e/viewtest"
	"github.com/escher-sched/escher/esl"
	"github.com/escher-sched/escher/types"
)

// TestReasonCountsTasks: the reason of a plan says how many tasks are admitted.
func TestReasonCountsTasks(t *testing.T) {
	q := Queue{Rate: 10}
	for n, want := range map[int]string{1: "admit 1 task", 2: "admit 2 tasks"} {
		w := viewtest.NewBench(t, 1)
		pool := q.pool("q")
		w.Put(controlplane.ResourceKey("d", pool.Name, types.ClusterWide), &types.Resource{Capacity: pool.Capacity})
		for i := range n {
			asks := types.NewRequests(map[string]types.Quantity{"cpu": 1000, pool.Name: esl.One, fmt.Sprintf("j.queue.%d", i): 1})
			w.Put(controlplane.TaskKey("d", fmt.Sprintf("t-%d", i)), &types.Task{Job: "j", Requests: asks, Submitted: int64(i)})
		}
		w.View.Reached(w.Revision)
		s := &esl.State{View: w.View, Now: time.Unix(100, 0), Namespace: "d", ID: "q", Label: q.Kind(), Kinds: esl.Kinds{}.With(func() esl.Policy { return q })}
		if plan := q.Next(s); plan.Reason != want {
			t.Errorf("%q, want %q", plan.Reason, want)
		}
	}
}
