package collect

import (
	"maps"
	"math"
	"slices"

	"github.com/escher-sched/escher/controlplane/cluster"
	"github.com/escher-sched/escher/controlplane/grants"
	"github.com/escher-sched/escher/controlplane/match"
	"github.com/escher-sched/escher/types"
)

// The choice of nodes: for each bundle the node that is closest to having what it wants.

// placesFor returns a node for each bundle of a candidate; nil if it cannot begin.
func (s *State) placesFor(at *moment, x claimant) []string {
	if at.v.UnreadNamespace(x.ID.Namespace) || grants.OverPools(at.v, x.Reservation) || overdrawn(at.v, x) {
		return nil
	}
	on, all := s.assign(at.v, x, make([]string, len(x.Info.V.Bundles)), nil)
	if !all {
		return nil
	}
	return on
}

// targets returns the nodes that x is to collect on: those it has, apart from lost ones, and where
// nothing comes for long.
func (s *State) targets(p *Plan, at *moment, x claimant) []string {
	on := slices.Clone(x.Info.V.Collect.On)
	if len(on) != len(x.Info.V.Bundles) {
		on = make([]string, len(x.Info.V.Bundles))
	}
	for i, name := range on {
		if n := at.v.Nodes[name]; n == nil || !n.Eligible() {
			on[i] = ""
		}
	}
	if slices.Contains(on, "") {
		assigned, all := s.assign(at.v, x, on, s.left)
		if !all && len(s.left) > 0 {
			clear(s.left)
			assigned, _ = s.assign(at.v, x, on, s.left)
		}
		return assigned
	}
	if s.isStuck(p, at, x) {
		return s.moveOn(at, x, on)
	}
	return on
}

// assign gives nodes to the bundles of x that have none in on, and reports whether all have one
// then. It avoids the nodes in left.
func (s *State) assign(v *cluster.View, x claimant, on []string, left map[string]struct{}) (out []string, all bool) {
	out, all = slices.Clone(on), true
	order, lacked := grants.BundleOrder(v, x.Reservation), s.lackedAbove(v, x)
	c := choice{v: v, held: x.Grant.V, wanted: make(map[string]*wants), order: order}
	for _, b := range order {
		if name := on[b.Index]; name != "" {
			c.add(name, b.Needs)
		}
	}
	c.skip = func(n *cluster.Node, needs []cluster.Need) bool {
		_, former := left[n.Name]
		return former || anyLacked(lacked, n.Name, needs)
	}
	for _, b := range order {
		if on[b.Index] != "" {
			continue
		}
		name := c.best(b.Needs)
		if name == "" {
			all = false
			continue
		}
		out[b.Index] = name
		c.add(name, b.Needs)
	}
	return out, all
}

// choice is the choice of nodes for the bundles of one claimant.
type choice struct {
	v     *cluster.View
	held  *types.Grant // nil for none
	order []grants.BundlePlacement
	skip  func(*cluster.Node, []cluster.Need) bool
	// wanted are the requests of the bundles by the node that they are given to.
	wanted map[string]*wants
	// nodes are sorted by name, with the free share of the needs in of.
	nodes  []*cluster.Node
	shares []float64
	of     []cluster.Need
}

// wants are the requests of the bundles given to a node, and their sums.
type wants struct {
	types.Allocated
	needs []cluster.Need
}

// add gives a bundle to a node.
func (c *choice) add(name string, needs []cluster.Need) {
	w := c.wanted[name]
	if w == nil {
		w = &wants{}
		c.wanted[name] = w
	}
	for _, x := range needs {
		w.Take(types.Holding{Resource: x.ID, Amount: x.Amount})
	}
	w.needs = append(w.needs, needs...)
	if i, ok := slices.BinarySearchFunc(c.nodes, name, func(n *cluster.Node, name string) int { return compare(n.Name, name) }); ok && c.of != nil {
		c.shares[i] = c.share(c.nodes[i], c.of)
	}
}

// best returns the node with the largest free share of needs; "" if there is none.
func (c *choice) best(needs []cluster.Need) string {
	if c.nodes == nil {
		for _, name := range slices.Sorted(maps.Keys(c.v.Nodes)) {
			c.nodes = append(c.nodes, c.v.Nodes[name])
		}
		c.shares = make([]float64, len(c.nodes))
	}
	if len(needs) == 0 || len(c.of) == 0 || &needs[0] != &c.of[0] { // most gangs have equal bundles
		c.of = needs
		for i, n := range c.nodes {
			c.shares[i] = c.share(n, needs)
		}
	}
	best := -1
	for i, share := range c.shares {
		if share > never && (best < 0 || share > c.shares[best]) {
			best = i
		}
	}
	if best < 0 {
		return ""
	}
	return c.nodes[best].Name
}

// never is the share of a node where needs cannot be.
const never = -math.MaxFloat64

// share returns the free share of needs on n, next to the bundles given to it: 1 means all of it. It
// is negative if those lack some already, and never if needs cannot be there.
func (c *choice) share(n *cluster.Node, needs []cluster.Need) float64 {
	if !n.Eligible() || c.skip(n, needs) || !c.largeEnough(n, needs) {
		return never
	}
	room := match.On(c.v, n)
	var held []types.Holding
	if c.held != nil {
		held = c.held.On(n.Name)
	}
	least := 1.0
	for _, x := range needs {
		free, _ := room.Free(x.ID)
		if p := c.v.Pool(x.ID); p != nil {
			free = p.Free()
		}
		free = free.Add(grants.HeldOf(held, x.ID))
		if w := c.wanted[n.Name]; w != nil {
			free = free.Minus(w.Of(x.ID))
		}
		if x.Amount > 0 && free < x.Amount {
			least = min(least, float64(free)/float64(x.Amount))
		}
	}
	return least
}

// largeEnough reports whether needs, beside the bundles given to n, would fit on the empty node.
func (c *choice) largeEnough(n *cluster.Node, needs []cluster.Need) bool {
	w := c.wanted[n.Name]
	for _, x := range needs {
		if c.v.Pool(x.ID) != nil {
			continue
		}
		all := grants.Want{ID: x.ID, Needs: []cluster.Need{x}}
		capacity, ok := c.v.Capacity(n, x.ID)
		if w != nil {
			capacity = capacity.Minus(w.Of(x.ID))
			all.Add(w.needs)
		}
		if !ok || capacity < x.Amount || all.Chooses() && !everHas(c.v, n, all) {
			return false
		}
	}
	return true
}

// everHas reports whether n has devices for all of a Want, allocated or not, healthy or not.
func everHas(v *cluster.View, n *cluster.Node, x grants.Want) bool {
	room := match.On(v, n)
	slots := room.EverSlots(cluster.Need{ID: x.ID}, nil)
	return match.Divide(slots, types.MaxQuantity, x.Parts()).Sum() == x.Sum()
}
