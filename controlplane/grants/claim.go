package grants

import (
	"slices"
	"time"

	"github.com/escher-sched/escher/controlplane/cluster"
	"github.com/escher-sched/escher/types"
)

// ClaimOf returns the reservation that a task which accumulates stands for, with what it has
// collected as its grant.
func ClaimOf(v *cluster.View, t *cluster.Task) *cluster.Reservation {
	r := &cluster.Reservation{ID: t.ID, Info: cluster.Cell[types.Reservation]{Mod: t.Info.Mod, Create: t.Info.Create, V: &types.Reservation{
		Bundles:    []types.Bundle{{Requests: t.Info.V.Requests, Devices: t.Info.V.Devices}},
		Priority:   t.Info.V.Order(),
		Submitted:  t.Info.V.Submitted,
		Accumulate: true,
		Collect:    t.Info.V.Collect(),
	}}}
	if x := v.Reservations[t.ID]; x != nil {
		r.Grant = x.Grant
	}
	return r
}

// ClaimedBy returns the waiting task that collected the grant of r; nil if there is none.
func ClaimedBy(v *cluster.View, r *cluster.Reservation) *cluster.Task {
	g := r.Grant.V
	if g == nil || g.Task == 0 {
		return nil
	}
	t := v.Task(r.ID)
	if t == nil || t.Info.V == nil || t.Info.Create != g.Task || t.Info.V.Stop != nil || t.Phase() != types.Pending || !v.Visible(t) {
		return nil
	}
	return t
}

// CollectedBy returns the reservation with the capacity that a waiting task collected; nil if none.
func CollectedBy(v *cluster.View, t *cluster.Task) *cluster.Reservation {
	if t.Info.V == nil || !t.Info.V.Accumulate {
		return nil
	}
	if r := v.Reservations[t.ID]; r != nil && ClaimedBy(v, r) == t {
		return r
	}
	return nil
}

// IsDirected reports whether the maker of a reservation directs it, and it is not complete.
func IsDirected(r *cluster.Reservation) bool {
	return r != nil && r.Info.V != nil && r.Info.V.Directed() && (r.Grant.V == nil || r.Grant.V.Phase == types.Collecting)
}

// Accumulates reports whether a task or reservation has collected part of a grant as a library
// directs.
func Accumulates(r *cluster.Reservation) bool {
	return r.Grant.V != nil && r.Grant.V.Phase == types.Collecting && (r.Info.V == nil || !r.Info.V.Directed())
}

// Completion is when everything that a grant wants could be free, given the known ends of the tasks
// there; the zero time means unknown.
func Completion(v *cluster.View, r *cluster.Reservation, g *types.Grant) time.Time {
	var latest time.Time
	on := BundlesOn(g)
	for _, at := range g.Nodes {
		n := v.Nodes[at.Node]
		for _, x := range Wanted(v, r, on[at.Node]) {
			rest := x.Sum() - HeldOf(at.Holds, x.ID)
			when, ok := freedBy(n, x.ID, rest)
			if !ok {
				return time.Time{}
			}
			if when.After(latest) {
				latest = when
			}
		}
	}
	return latest
}

// freedBy returns when the tasks on n with a known end will have freed amount of rid.
func freedBy(n *cluster.Node, rid types.ResourceID, amount types.Quantity) (time.Time, bool) {
	type end struct {
		at     int64
		amount types.Quantity
	}
	var ends []end
	for _, b := range n.Bindings {
		if b.Info.V != nil && b.Info.V.MaxRun > 0 {
			ends = append(ends, end{b.Info.V.Bound + int64(b.Info.V.MaxRun), heldWith(b.Info.V.Holds, rid)})
		}
	}
	slices.SortFunc(ends, func(a, b end) int { return int(min(1, max(-1, a.at-b.at))) })
	var when time.Time
	for _, e := range ends {
		if amount <= 0 {
			break
		}
		amount -= e.amount
		when = time.Unix(0, e.at)
	}
	return when, amount <= 0
}

// heldWith is HeldOf with what the task draws on a reservation: that ends with the tasks of its gang.
func heldWith(holds []types.Holding, rid types.ResourceID) (sum types.Quantity) {
	for _, h := range holds {
		if h.Resource == rid || h.Resource.Scoped() && h.Resource.Unscoped() == rid {
			sum = sum.Add(h.Amount)
		}
	}
	return sum
}

// HoldsAt reports whether a grant holds some of a resource on a node, or anywhere for a
// cluster-wide resource.
func HoldsAt(v *cluster.View, g *types.Grant, node string, id types.ResourceID) bool {
	anywhere := v.Pool(id) != nil
	return slices.ContainsFunc(g.Nodes, func(at types.GrantNode) bool {
		return (anywhere || at.Node == node) && HeldOf(at.Holds, id) > 0
	})
}

// OverPools reports whether r requests more of a pool than its capacity. It would collect forever
// and keep the pool from all others.
func OverPools(v *cluster.View, r *cluster.Reservation) bool {
	sums := make(map[*cluster.Pool]types.Quantity)
	for _, b := range BundleOrder(v, r) {
		for _, need := range b.Needs {
			if p := v.Pool(need.ID); p != nil {
				if sums[p] = sums[p].Add(need.Amount); sums[p] > p.Capacity() {
					return true
				}
			}
		}
	}
	return false
}
