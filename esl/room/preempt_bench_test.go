package room

import (
	"fmt"
	"testing"
	"time"

	"github.com/escher-sched/escher/controlplane"
	"github.com/escher-sched/escher/controlplane/cluster"
	"github.com/escher-sched/escher/esl"
	"github.com/escher-sched/escher/types"
)

// filledNodes is a cluster of so many nodes of 64 cores, each full with 64 tasks of priority 0 to
// 2, and a waiting job: tasks of 8 cores and priority 5, separate or as one gang.
func filledNodes(tb testing.TB, nodes, waiting int, gang bool) *esl.State {
	tb.Helper()
	v := cluster.New()
	revision := int64(0)
	put := func(key string, m types.Message) {
		revision++
		if _, _, err := v.Apply(controlplane.Event{KV: controlplane.KV{Key: key, ModRevision: revision, CreateRevision: revision, Value: types.Encode(1, m)}}); err != nil {
			tb.Fatal(err)
		}
	}
	core := types.NewRequests(map[string]types.Quantity{"cpu": 1000})
	holds := []types.Holding{{Resource: types.CPU, Amount: 1000}}
	for i := range nodes {
		name := fmt.Sprintf("n%04d", i)
		put(controlplane.NodeKey(name), &types.Node{Capacity: types.NewRequests(map[string]types.Quantity{"cpu": 64_000})})
		put(controlplane.AliveKey(name), &types.Alive{TTLSeconds: 15})
		put(controlplane.AllocatedKey(name), &types.Allocated{Holds: []types.Holding{{Resource: types.CPU, Amount: 64_000}}})
		for j := range 64 {
			id, bound := fmt.Sprintf("low-%d-%d", i, j), int64(1+i*64+j)
			put(controlplane.TaskKey("d", id), &types.Task{Requests: core, Priority: j % 3})
			put(controlplane.StatusKey("d", id), &types.Status{Phase: types.Running, Node: name, Attempt: 1, Bound: bound, Started: bound})
			put(controlplane.BindingKey(name, "d", id, 1), &types.Binding{Holds: holds, Bound: bound})
		}
	}
	put(controlplane.JobKey("d", "high"), &types.Job{Name: "high", Tasks: waiting})
	each := types.NewRequests(map[string]types.Quantity{"cpu": 8000})
	r := &types.Reservation{Job: "high", Priority: 5}
	for i := range waiting {
		asks := each
		if gang {
			r.Bundles = append(r.Bundles, types.Bundle{Requests: each})
			asks = types.NewRequests(map[string]types.Quantity{"cpu@high.gang": 8000})
		}
		put(controlplane.TaskKey("d", fmt.Sprintf("high-%d", i)), &types.Task{Job: "high", Requests: asks, Priority: 5})
	}
	if gang {
		put(controlplane.ReservationKey("d", "high.gang"), r)
	}
	v.Reached(revision)
	return &esl.State{View: v, Now: time.Unix(1000, 0), Namespace: "d", ID: "high", Job: "high", Label: Preempt{}.Kind(), Kinds: esl.Kinds{}.With(func() esl.Policy { return Preempt{} }, func() esl.Policy { return Stay{} })}
}

// BenchmarkPreemptNext is one call for 1,000 nodes with 64,000 tasks, for a task and for a gang.
func BenchmarkPreemptNext(b *testing.B) {
	for _, n := range []int{1, 64} {
		b.Run(fmt.Sprintf("gang-of-%d", n), func(b *testing.B) {
			s := filledNodes(b, 1000, n, true)
			for b.Loop() {
				if plan := (Preempt{}).Next(s); len(plan.Reserve) != 1 {
					b.Fatalf("%+v", plan)
				}
			}
		})
	}
}
