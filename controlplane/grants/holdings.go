package grants

import (
	"bytes"
	"slices"
	"strings"

	"github.com/escher-sched/escher/controlplane/cluster"
	"github.com/escher-sched/escher/controlplane/match"
	"github.com/escher-sched/escher/types"
)

// HeldOf returns the held amount of a resource.
func HeldOf(holds []types.Holding, rid types.ResourceID) types.Quantity {
	var sum types.Quantity
	for _, h := range holds {
		if h.Resource == rid {
			sum += h.Amount
		}
	}
	return sum
}

// Add adds h to the holding of the same resource, without changing holds.
func Add(holds []types.Holding, h types.Holding) []types.Holding {
	var pools []types.Holding
	sum := &types.Allocated{}
	for _, x := range append(slices.Clone(holds), h) {
		if x.Cluster {
			pools = append(pools, x)
			continue
		}
		sum.Take(x)
	}
	for _, x := range mergePools(pools) {
		x.Cluster = true
		sum.Holds = append(sum.Holds, x)
	}
	return sum.Holds
}

func mergePools(pools []types.Holding) []types.Holding {
	sum := &types.Allocated{}
	for _, x := range pools {
		sum.Take(x)
	}
	return sum.Holds
}

// Devices returns the held devices of a resource.
func Devices(holds []types.Holding, rid types.ResourceID) []types.DeviceShare {
	var out []types.DeviceShare
	for _, h := range holds {
		if h.Resource == rid {
			out = append(out, h.Devices...)
		}
	}
	return out
}

// Without returns shares minus the used ones.
func Without(shares, used []types.DeviceShare) []types.DeviceShare {
	var out []types.DeviceShare
	for _, s := range shares {
		if rest := s.Share - match.ShareOf(used, s.ID); rest > 0 {
			out = append(out, types.DeviceShare{ID: s.ID, Share: rest})
		}
	}
	return out
}

// Base returns the part of a grant that a scoped holding on a node draws on.
func Base(g *types.Grant, node string, h types.Holding) types.Holding {
	base := types.Holding{Resource: h.Resource.Unscoped(), Amount: h.Amount, Devices: h.Devices}
	for _, x := range g.On(node) {
		if x.Resource == base.Resource {
			base.Cluster = x.Cluster
		}
	}
	return base
}

// ReturnsDrawn reports whether drawn amounts of a reservation on a node return as tasks end: it is
// being released, and its undrawn amounts there have returned.
func ReturnsDrawn(r *cluster.Reservation, node string) bool {
	if r == nil || r.Grant.V == nil || r.Grant.V.Phase != types.Releasing {
		return false
	}
	return !slices.ContainsFunc(r.Grant.V.Nodes, func(at types.GrantNode) bool { return at.Whole && at.Node == node })
}

// DrawnOn reports whether a task draws on what a grant holds on node n.
func DrawnOn(r *cluster.Reservation, n *cluster.Node, at types.GrantNode) bool {
	for _, h := range at.Holds {
		if n.Used(h.Resource.Scope(r.ID.Namespace, r.ID.ID)) > 0 {
			return true
		}
	}
	return false
}

// New returns the grant of placed spots; other bundles have no node.
func New(r *cluster.Reservation, spots []BundlePlacement) *types.Grant {
	g := &types.Grant{Phase: types.Granted, Reservation: r.Info.Create, Bundles: make([]string, len(r.Info.V.Bundles))}
	sums := make(map[string]*types.Allocated)
	pools := make(map[string]*types.Allocated)
	for _, x := range spots {
		name := x.Node.Name
		g.Bundles[x.Index] = name
		if sums[name] == nil {
			sums[name], pools[name] = &types.Allocated{}, &types.Allocated{}
			g.Nodes = append(g.Nodes, types.GrantNode{Node: name})
		}
		for _, h := range x.Holds {
			if h.Cluster {
				pools[name].Take(h)
			} else {
				sums[name].Take(h)
			}
		}
	}
	slices.SortFunc(g.Nodes, func(a, b types.GrantNode) int { return strings.Compare(a.Node, b.Node) })
	for i := range g.Nodes {
		at := &g.Nodes[i]
		at.Holds = sums[at.Node].Holds
		for _, h := range pools[at.Node].Holds {
			h.Cluster = true
			at.Holds = append(at.Holds, h)
		}
	}
	return g
}

// Clone returns a deep copy of a grant.
func Clone(g *types.Grant) *types.Grant {
	c := *g
	c.Bundles = slices.Clone(g.Bundles)
	c.Nodes = slices.Clone(g.Nodes)
	for i := range c.Nodes {
		c.Nodes[i].Holds = (&types.Allocated{Holds: g.Nodes[i].Holds}).Clone().Holds
	}
	return &c
}

// Moved returns g without its holdings on the nodes of from, and with those of to.
func Moved(g, from, to *types.Grant) *types.Grant {
	out := Clone(g)
	out.Nodes = slices.DeleteFunc(out.Nodes, func(at types.GrantNode) bool {
		return slices.ContainsFunc(from.Nodes, func(gone types.GrantNode) bool { return gone.Node == at.Node })
	})
	for i, node := range to.Bundles {
		if node != "" {
			out.Bundles[i] = node
		}
	}
	for _, at := range to.Nodes {
		i, ok := slices.BinarySearchFunc(out.Nodes, at.Node, func(n types.GrantNode, name string) int { return strings.Compare(n.Node, name) })
		if !ok {
			out.Nodes = slices.Insert(out.Nodes, i, types.GrantNode{Node: at.Node})
		}
		for _, h := range at.Holds {
			out.Nodes[i].Holds = Add(out.Nodes[i].Holds, h)
		}
	}
	return out
}

// Equal reports whether a grant equals the written one.
func Equal(g, written *types.Grant) bool {
	return written != nil && bytes.Equal(types.Encode(0, g), types.Encode(0, written))
}
