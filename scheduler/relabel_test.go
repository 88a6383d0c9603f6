package scheduler

import (
	"testing"

	"github.com/escher-sched/escher/controlplane"
	"github.com/escher-sched/escher/controlplane/relabel"
	"github.com/escher-sched/escher/types"
)

// TestWakesForALabel binds tasks that wait for a label as soon as a node gets it, and leaves a task
// that runs where it is when the label is gone.
func TestWakesForALabel(t *testing.T) {
	for name, request := range map[string]string{"placement": "rack/r7", "resource": "slot"} {
		t.Run(name, func(t *testing.T) {
			b := newBench(t, Config{})
			node := &types.Node{Capacity: types.NewRequests(map[string]types.Quantity{"cpu": 1000}), Labels: []types.Label{{Name: "rack", Value: "r1"}}}
			b.put(controlplane.NodeKey("n1"), node, controlplane.AliveKey("n1"), &types.Alive{})
			b.node("n2", 1000)
			b.put(controlplane.ResourceKey("d", "slot", types.EveryNode), &types.Resource{
				Capacity: 1000, Selector: &types.Selector{Labels: []types.Label{{Name: "rack", Value: "r7"}}},
			})
			change := func(add []types.Label, remove ...string) {
				t.Helper()
				if changed, err := relabel.Apply(node, relabel.Change{Add: add, Remove: remove, Overwrite: true}); err != nil || !changed {
					t.Fatal(changed, err)
				}
				b.put(controlplane.NodeKey("n1"), node)
				b.settle()
			}
			b.task("first", map[string]types.Quantity{request: 1000})
			b.settle()
			b.expect("first", "pending")
			change([]types.Label{{Name: "disk", Value: "ssd"}})
			b.expect("first", "pending")
			change([]types.Label{{Name: "rack", Value: "r7"}})
			b.expect("first", "bound on n1")
			change(nil, "rack")
			b.expect("first", "bound on n1")
			b.task("second", map[string]types.Quantity{request: 1000})
			b.settle()
			b.expect("second", "pending")
			b.exited("first")
			b.settle()
			b.expect("second", "pending")
			change([]types.Label{{Name: "rack", Value: "r7"}})
			b.expect("second", "bound on n1")
		})
	}
}
