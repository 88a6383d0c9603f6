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

// BenchmarkGatesNext is one call for 100,000 tasks that wait at a queue with a rate for an absent
// resource: with Lacking, and without.
func BenchmarkGatesNext(b *testing.B) {
	q := Queue{Rate: 10}
	for _, noted := range []bool{false, true} {
		b.Run(fmt.Sprintf("noted=%t", noted), func(b *testing.B) {
			w := viewtest.NewBench(b, 100)
			pool := q.pool("q")
			w.Put(controlplane.ResourceKey("d", pool.Name, types.ClusterWide), &types.Resource{Capacity: pool.Capacity})
			for i := range 100_000 {
				job := fmt.Sprintf("job-%d", i%100)
				asks := types.NewRequests(map[string]types.Quantity{"cpu": 1000, "foo": 1, pool.Name: esl.One, fmt.Sprintf("%s.queue.%d", job, i/100): 1})
				w.Put(controlplane.TaskKey("d", fmt.Sprintf("t-%d", i)), &types.Task{Job: job, Requests: asks, Submitted: int64(i)})
			}
			w.View.Reached(w.Revision)
			s := &esl.State{View: w.View, Now: time.Unix(100, 0), Namespace: "d", ID: "q", Label: q.Kind(), Kinds: esl.Kinds{}.With(func() esl.Policy { return q })}
			for b.Loop() {
				if noted {
					s.Lacking = make(esl.Lacking)
				}
				if plan := q.Next(s); !plan.Nothing() {
					b.Fatal("a task is admitted")
				}
			}
			if noted && len(s.Lacking) != 1 {
				b.Fatalf("%v are lacking, want foo alone", s.Lacking)
			}
		})
	}
}
