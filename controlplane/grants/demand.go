// Package grants says what reservations want, and what their grants hold: which resources, on which
// nodes, for which bundles. It is pure: it reads a view, and changes nothing.
package grants

import (
	"cmp"
	"slices"
	"strings"

	"github.com/escher-sched/escher/controlplane/cluster"
	"github.com/escher-sched/escher/controlplane/match"
	"github.com/escher-sched/escher/types"
)

// GrantRole is the leadership of the reservation that is granted in several transactions. At most
// one has it: no two then hold what the other needs. AccumulateRole is one that earlier versions
// gave to what accumulates: it ends with that.
const (
	GrantRole      = "grant"
	AccumulateRole = "accumulate"
)

// BundlePlacement is a bundle with its chosen node.
type BundlePlacement struct {
	Index int
	Node  *cluster.Node
	Needs []cluster.Need
	Holds []types.Holding
}

// BundleOrder resolves the bundles of a reservation. Bundles bound to a node come first. Those that
// restrict the devices follow, because the others may leave none that match; then the largest.
func BundleOrder(v *cluster.View, r *cluster.Reservation) []BundlePlacement {
	var out []BundlePlacement
	bundles := r.Info.V.Bundles
	for i, b := range bundles {
		if i > 0 && b.Node == bundles[i-1].Node && slices.Equal(b.Requests, bundles[i-1].Requests) && sameDevices(b.Devices, bundles[i-1].Devices) {
			out = append(out, BundlePlacement{Index: i, Needs: out[i-1].Needs}) // as in most gangs
			continue
		}
		out = append(out, BundlePlacement{Index: i, Needs: bundleNeeds(v, r.ID.Namespace, b)})
	}
	slices.SortStableFunc(out, func(a, b BundlePlacement) int {
		x, y := bundles[a.Index], bundles[b.Index]
		if (x.Node == "") != (y.Node == "") {
			return strings.Compare(y.Node, x.Node)
		}
		if c := match.CompareChoice(firstOf(x.Devices), firstOf(y.Devices)); c != 0 {
			return c
		}
		for _, rid := range []types.ResourceID{types.GPU, types.Memory, types.CPU} {
			if p, q := x.Requests.Get(string(rid)), y.Requests.Get(string(rid)); p != q {
				return int(min(1, max(-1, q-p)))
			}
		}
		return 0
	})
	return out
}

// bundleNeeds resolves a bundle, including its node.
func bundleNeeds(v *cluster.View, ns string, b types.Bundle) []cluster.Need {
	requests := b.Requests
	if b.Node != "" {
		requests = requests.Plus(types.Requests{{Name: "node/" + b.Node, Amount: 1}})
	}
	return v.BundleNeeds(ns, requests, b.Devices...)
}

// Vectors returns the complete request vector of each alternative of a task; one vector if it has
// no alternatives.
func Vectors(v *cluster.View, t *cluster.Task) [][]cluster.Need {
	if len(t.Info.V.Alternatives) == 0 {
		return [][]cluster.Need{v.Needs(t.ID.Namespace, t.Info.V.Requests, t.Info.V.Devices...)}
	}
	var out [][]cluster.Need
	for _, a := range t.Info.V.Alternatives {
		out = append(out, v.Needs(t.ID.Namespace, t.Info.V.Requests.Plus(a.Requests), t.Info.V.Devices...))
	}
	return out
}

// AllowedAt returns when a task may take alternative i, in Unix nanoseconds.
func AllowedAt(t *cluster.TaskValue, i int) int64 {
	if i >= len(t.Alternatives) {
		return 0
	}
	return t.Submitted + int64(t.Alternatives[i].After)
}

// IDs returns the resources of needs, and AnyNode.
func IDs(needs []cluster.Need) []types.ResourceID {
	out := []types.ResourceID{AnyNode}
	for _, x := range needs {
		out = append(out, x.ID)
	}
	return out
}

// AllIDs returns the resources of all needs of spots, and AnyNode, sorted.
func AllIDs(spots []BundlePlacement) []types.ResourceID {
	var out []types.ResourceID
	for _, x := range spots {
		out = append(out, IDs(x.Needs)...)
	}
	slices.Sort(out)
	return slices.Compact(out)
}

// Want is the demand for one resource of the bundles given to a node.
type Want struct {
	ID types.ResourceID
	// Needs are those of the bundles, in their order.
	Needs []cluster.Need
}

// Add adds those of needs that are of its resource.
func (w *Want) Add(needs []cluster.Need) {
	for _, x := range needs {
		if x.ID == w.ID {
			w.Needs = append(w.Needs, x)
		}
	}
}

// Sum returns the total amount.
func (w Want) Sum() types.Quantity {
	var sum types.Quantity
	for _, x := range w.Needs {
		sum = sum.Add(x.Amount)
	}
	return sum
}

// Chooses reports whether the Want restricts the devices.
func (w Want) Chooses() bool {
	return slices.ContainsFunc(w.Needs, func(x cluster.Need) bool { return x.Devices != nil })
}

// Parts returns the pieces in which devices are collected: by bundle, because a part of a device
// belongs to one. Restricted devices come first, one by one. Whole devices follow, as they become
// free, then the parts, each at once.
func (w Want) Parts() []cluster.Need {
	wholes := types.Quantity(0)
	var chosen, parts []cluster.Need
	for _, y := range w.Needs {
		switch {
		case y.Devices != nil:
			chosen = append(chosen, y)
		case y.Amount%match.Whole == 0:
			wholes = wholes.Add(y.Amount)
		default:
			parts = append(parts, y)
		}
	}
	slices.SortStableFunc(chosen, func(a, b cluster.Need) int { return match.CompareChoice(a.Devices, b.Devices) })
	if wholes > 0 {
		chosen = append(chosen, cluster.Need{ID: w.ID, Amount: wholes})
	}
	return append(chosen, parts...)
}

// WantedOn returns the demand of the bundles given to a node, sorted by resource.
func WantedOn(v *cluster.View, r *cluster.Reservation, g *types.Grant, node string) []Want {
	var bundles []int
	for i, name := range g.Bundles {
		if name == node {
			bundles = append(bundles, i)
		}
	}
	return Wanted(v, r, bundles)
}

// Wanted returns the demand of bundles on the node that they share, sorted by resource.
func Wanted(v *cluster.View, r *cluster.Reservation, bundles []int) []Want {
	var out []Want
	for _, i := range bundles {
		for _, x := range bundleNeeds(v, r.ID.Namespace, r.Info.V.Bundles[i]) {
			if x.ID.IsPlacement() || x.Amount == 0 {
				continue
			}
			at, ok := slices.BinarySearchFunc(out, x.ID, func(w Want, rid types.ResourceID) int { return cmp.Compare(w.ID, rid) })
			if !ok {
				out = slices.Insert(out, at, Want{ID: x.ID})
			}
			out[at].Needs = append(out[at].Needs, x)
		}
	}
	return out
}

// BundlesOn returns the bundles of a grant by node.
func BundlesOn(g *types.Grant) map[string][]int {
	on := make(map[string][]int, len(g.Nodes))
	for i, name := range g.Bundles {
		on[name] = append(on[name], i)
	}
	return on
}

// ChoosesOn reports whether bundles that share a node restrict the devices.
func ChoosesOn(v *cluster.View, r *cluster.Reservation, bundles []int) bool {
	return slices.ContainsFunc(Wanted(v, r, bundles), Want.Chooses)
}

// ManyDevices is the number of nodes above which one compare covers the devices of all nodes,
// rather than one compare per node.
const ManyDevices = 32

// DevicesRelied returns the number of compares for the devices of a grant on which bundles restrict
// the devices: one a node, or one for all.
func DevicesRelied(v *cluster.View, r *cluster.Reservation, g *types.Grant) int {
	n := 0
	if !slices.ContainsFunc(r.Info.V.Bundles, func(b types.Bundle) bool { return len(b.Devices) > 0 }) {
		return n
	}
	on := BundlesOn(g)
	for _, at := range g.Nodes {
		if ChoosesOn(v, r, on[at.Node]) {
			n++
		}
	}
	if n > ManyDevices {
		return 1
	}
	return n
}

// PlacementsOn resolves the bundles of a reservation that are on the nodes of from.
func PlacementsOn(v *cluster.View, r *cluster.Reservation, from *types.Grant) []BundlePlacement {
	return slices.DeleteFunc(BundleOrder(v, r), func(x BundlePlacement) bool {
		node := r.Grant.V.Bundles[x.Index]
		return !slices.ContainsFunc(from.Nodes, func(at types.GrantNode) bool { return at.Node == node })
	})
}

// LeftNodes returns the holdings of a grant on nodes that its bundles leave.
func LeftNodes(v *cluster.View, r *cluster.Reservation) []types.GrantNode {
	if !r.Current() || r.Info.V.Lost != types.MoveBundles || r.Grant.V.Phase != types.Granted {
		return nil
	}
	var out []types.GrantNode
	for _, at := range r.Grant.V.Nodes {
		n := v.Nodes[at.Node]
		drained := n.Cordon.V != nil && (n.Cordon.V.Drain == types.DrainMove || n.Cordon.V.Drain == types.DrainFinish)
		if !n.Alive.Absent() && !drained || n.Allocated.Unread() || DrawnOn(r, n, at) || bidden(r, at.Node) {
			continue
		}
		out = append(out, at)
	}
	return out
}

// bidden reports whether a bundle of the reservation requires a node.
func bidden(r *cluster.Reservation, node string) bool {
	return slices.ContainsFunc(r.Info.V.Bundles, func(b types.Bundle) bool { return b.Node == node })
}

// AnyNode is what a task without requests lacks when it finds no node.
const AnyNode types.ResourceID = ""

// firstOf returns the first of the requests; nil if there are none.
func firstOf(requests []types.DeviceRequest) *types.DeviceRequest {
	if len(requests) == 0 {
		return nil
	}
	return &requests[0]
}

// sameDevices reports whether two lists request the same devices.
func sameDevices(a, b []types.DeviceRequest) bool {
	return slices.EqualFunc(a, b, func(x, y types.DeviceRequest) bool {
		return x.Resource == y.Resource && slices.Equal(x.Models, y.Models) && x.MinMemory == y.MinMemory && x.Topology == y.Topology
	})
}
