package scheduler

import (
	"fmt"
	"testing"

	"github.com/escher-sched/escher/controlplane"
	"github.com/escher-sched/escher/types"
)

// BenchmarkCoreLabels: tasks arrive one by one, each with a request for one, or a hundred, of the
// ephemeral resources of a node.
func BenchmarkCoreLabels(b *testing.B) {
	const nodes, tasks = 100, 2000
	for _, n := range []int{1, types.MaxRequests} {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			vectors := make([]types.Requests, nodes)
			for node := range vectors {
				vectors[node] = labelled(node, n)
			}
			for b.Loop() {
				r := newRig(Config{Limits: benchLimits[1], Seed: 1})
				r.nodes(nodes, kinds())
				r.labels(nodes)
				m := r.start()
				for i := range tasks {
					r.tell(r.event(controlplane.TaskKey("bench", taskOf(i)), &types.Task{
						Name: "bench", Requests: vectors[i%nodes], Spec: "0123456789abcdef0123456789abcdef", Submitted: r.now.UnixNano(),
					}))
					r.run(b)
				}
				r.report(b, r.binds, m)
				r.bound(b, tasks, 1)
			}
		})
	}
}

func labelOf(node, i int) string { return fmt.Sprintf("label-%d-%d", node, i) }

// labels gives each node as many ephemeral resources as a task may request.
func (r *rig) labels(nodes int) {
	for node := range nodes {
		var events []controlplane.Event
		for i := range types.MaxRequests {
			events = append(events, r.event(controlplane.ResourceKey("bench", labelOf(node, i), nodeOf(node)), &types.Resource{
				Capacity: types.Inf, NodeSession: r.keys[controlplane.AliveKey(nodeOf(node))].create,
			}))
		}
		r.tell(events...)
	}
}

// labelled requests n of the resources of a node.
func labelled(node, n int) types.Requests {
	all := make(map[string]types.Quantity, n)
	for i := range n {
		all[labelOf(node, i)] = 1
	}
	return types.NewRequests(all)
}
