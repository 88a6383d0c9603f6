package scheduler

import (
	"testing"

	"github.com/escher-sched/escher/controlplane"
	"github.com/escher-sched/escher/types"
)

// TestDefaultsOfANamespace: a task without cpu and memory requests gets those of its namespace,
// otherwise its own. A task that draws on a reservation gets its draws.
func TestDefaultsOfANamespace(t *testing.T) {
	b := newBench(t, Config{})
	b.put(controlplane.NodeKey("n1"), &types.Node{Capacity: types.NewRequests(map[string]types.Quantity{"cpu": 4000, "memory": 4096, "gpu": 4000})},
		controlplane.AliveKey("n1"), &types.Alive{})
	b.put(controlplane.NamespaceKey("d"), &types.Namespace{
		Defaults: types.NewRequests(map[string]types.Quantity{"cpu": 500, "memory": 1024}),
		Quotas:   []types.Quota{{Resource: types.CPU, Pool: "admin:cpus"}},
	})
	b.put(controlplane.ResourceKey("admin", "cpus", types.ClusterWide), &types.Resource{Capacity: 10_000})
	b.put(controlplane.ReservationKey("d", "r"), &types.Reservation{Bundles: []types.Bundle{{Requests: types.NewRequests(map[string]types.Quantity{"gpu": 1000})}}})
	b.task("none", map[string]types.Quantity{"gpu": 1000})
	b.task("some", map[string]types.Quantity{"cpu": 100})
	b.task("draws", map[string]types.Quantity{"gpu@r": 1000})
	b.settle()
	for id, want := range map[string]map[types.ResourceID]types.Quantity{
		"none":  {"cpu": 500, "memory": 1024, "gpu": 1000, "admin:cpus": 500},
		"some":  {"cpu": 100, "memory": 1024, "admin:cpus": 100},
		"draws": {"cpu": 0, "memory": 0},
	} {
		b.expect(id, "bound on n1")
		binding := b.core.view.Task(clusterID("d", id)).Bindings[0].Info.V
		for rid, amount := range want {
			if got := binding.Amount(rid); got != amount {
				t.Errorf("%s holds %d %s, want %d: %v", id, got, rid, amount, binding.Holds)
			}
		}
	}
}
