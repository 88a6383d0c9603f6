package match

import (
	"maps"
	"slices"

	"github.com/escher-sched/escher/controlplane/cluster"
	"github.com/escher-sched/escher/types"
)

// WithFree returns the names of the nodes, sorted, to which a task with these requests could be
// bound now: alive, not cordoned, with enough free. It ignores defaults and quotas of the
// namespace. It returns none if a requested cluster-wide resource is short.
func WithFree(v *cluster.View, namespace string, requests types.Requests) []string {
	needs := make([]cluster.Need, len(requests))
	for i, r := range requests {
		needs[i] = cluster.Need{ID: types.Resolve(namespace, r.Name), Amount: r.Amount}
		if pool := v.Pool(needs[i].ID); pool != nil && pool.Free() < r.Amount {
			return nil
		}
	}
	var names []string
	for _, name := range slices.Sorted(maps.Keys(v.Nodes)) {
		if n := v.Nodes[name]; n.Eligible() {
			if r := On(v, n); r.Fits(needs) {
				names = append(names, name)
			}
		}
	}
	return names
}
