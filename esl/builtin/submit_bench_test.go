package builtin

import (
	"context"
	"fmt"
	"testing"

	"github.com/escher-sched/escher/controlplane"
	"github.com/escher-sched/escher/controlplane/memstore"
	"github.com/escher-sched/escher/esl/gang"
	"github.com/escher-sched/escher/types"
)

// BenchmarkPrepare is a gang, and a plain job of the same tasks, up to the commit.
func BenchmarkPrepare(b *testing.B) {
	ctx := context.Background()
	store := memstore.New()
	put := controlplane.NewChange(controlplane.NewBatch())
	for i := range 32 {
		put.Put(controlplane.NodeKey(fmt.Sprint("n", i)), &types.Node{Capacity: types.NewRequests(map[string]types.Quantity{"cpu": 8000})})
	}
	if _, err := controlplane.Commit(ctx, store, put.Txn()); err != nil {
		b.Fatal(err)
	}
	plain, err := controlplane.New(store, "d")
	if err != nil {
		b.Fatal(err)
	}
	c := New(plain)
	for _, n := range []int{32, 256} {
		tasks := make([]controlplane.Submission, n)
		for i := range tasks { // made for each submission, not shared by all
			asked := types.NewRequests(map[string]types.Quantity{"cpu": 256_000 / types.Quantity(n)})
			tasks[i] = controlplane.Submission{Task: types.Task{Name: "member", Requests: asked}, Spec: &types.Spec{Image: "x"}}
		}
		b.Run(fmt.Sprintf("%d/gang", n), func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if _, _, err := c.Prepare(ctx, controlplane.Job{Name: "gang", Tasks: tasks}, gang.Gang{}); err != nil {
					b.Fatal(err)
				}
			}
		})
		b.Run(fmt.Sprintf("%d/plain", n), func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				plain.Begin().LaunchJob(controlplane.Job{Name: "gang", Tasks: tasks})
			}
		})
	}
}
