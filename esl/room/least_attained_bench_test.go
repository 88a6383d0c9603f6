package room

import (
	"fmt"
	"testing"
	"time"

	"github.com/escher-sched/escher/controlplane"
	"github.com/escher-sched/escher/esl"
	"github.com/escher-sched/escher/types"
)

// BenchmarkLeastAttainedNext is one call for 10,000 waiting jobs on 1,000 full nodes, each with a task that may
// be evicted.
func BenchmarkLeastAttainedNext(b *testing.B) {
	const jobs = 10_000
	s := filledNodes(b, 1000, 1, false)
	revision := s.View.Revision
	put := func(key string, m types.Message) {
		revision++
		if _, _, err := s.View.Apply(controlplane.Event{KV: controlplane.KV{Key: key, ModRevision: revision, CreateRevision: revision, Value: types.Encode(1, m)}}); err != nil {
			b.Fatal(err)
		}
	}
	use, err := esl.Stored(esl.Use{Name: "las"})
	if err != nil {
		b.Fatal(err)
	}
	for i := range jobs {
		job := fmt.Sprintf("j%05d", i)
		put(controlplane.TaskKey("d", job), &types.Task{Job: job, Submitted: int64(i + 1), Requests: types.NewRequests(map[string]types.Quantity{"cpu": 1000})})
		put(controlplane.JobKey("d", job), &types.Job{Tasks: 1})
		put(controlplane.PoliciesKey("d", job), &types.Policies{Job: job, Policies: []types.Policy{use}})
	}
	for i := range 1000 { // one task of each node is in a job of the second queue
		id, job := fmt.Sprintf("low-%d-0", i), fmt.Sprintf("l%d", i)
		put(controlplane.TaskKey("d", id), &types.Task{Job: job, Requests: types.NewRequests(map[string]types.Quantity{"cpu": 8000})})
		put(controlplane.JobKey("d", job), &types.Job{Tasks: 1})
		put(controlplane.PoliciesKey("d", job), &types.Policies{Job: job, Policies: []types.Policy{use}})
		for suffix, q := range map[string]types.Quantity{servedPool: 1 << 40, untilPool: 100_000_000} {
			put(controlplane.ResourceKey("d", "las.least-attained."+job+suffix, types.ClusterWide), &types.Resource{Capacity: q})
		}
	}
	s.View.Reached(revision)
	kinds := esl.Kinds{}.With(func() esl.Policy { return LeastAttained{} }, func() esl.Policy { return Stay{} })
	registry := esl.NewRegistry(kinds)
	for id, c := range s.View.Policies {
		registry.Set(id, c)
	}
	p := LeastAttained{}
	at := &esl.State{View: s.View, Now: time.Unix(100_000, 0), Namespace: "d", ID: "las", Label: p.Kind(), Kinds: kinds, Registry: registry, Memo: new(any)}
	for b.Loop() {
		if plan := p.Next(at); len(plan.Reserve) != atATime {
			b.Fatalf("%+v", plan)
		}
	}
}
