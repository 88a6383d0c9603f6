package scheduler

import (
	"slices"
	"strings"

	"github.com/escher-sched/escher/controlplane/cluster"
	"github.com/escher-sched/escher/controlplane/grants"
	"github.com/escher-sched/escher/types"
)

// collect takes the free and wanted capacity, as much as fits into the draft. The remainder stays
// reserved for the next draft. The grant is granted once nothing is missing.
func (c *Core) collect(d *Transaction, r *cluster.Reservation, g *types.Grant) {
	devices, on := grants.DevicesRelied(c.view, r, g), grants.BundlesOn(g)
	d.whole = len(on[""]) == 0
	for i := range g.Nodes {
		at := &g.Nodes[i]
		d.whole = d.whole && c.view.Nodes[at.Node].Eligible()
		for _, x := range grants.Wanted(c.view, r, on[at.Node]) {
			switch {
			case !c.view.Nodes[at.Node].Eligible() || d.HoldsAll(at, x):
			case d.RoomToCollect(devices):
				d.whole = c.collectOne(d, r, at, x) && d.whole
			case d.NumNodes() == 0:
				d.whole = false // it will never fit
			default:
				d.whole = false
				c.first, d.closed = true, true
				c.collectAgain()
				return
			}
		}
	}
	if d.whole {
		g.Phase = types.Granted
		d.RelyOnDevices(r, g)
	}
}

// collectOn takes the free and wanted capacity on a node of a grant, if it is eligible.
func (c *Core) collectOn(d *Transaction, r *cluster.Reservation, at *types.GrantNode, wanted []grants.Want) {
	if !c.view.Nodes[at.Node].Eligible() {
		return
	}
	for _, x := range wanted {
		c.collectOne(d, r, at, x)
	}
}

// collectOne is Draft.Collect, unless the node or pool is in flight.
func (c *Core) collectOne(d *Transaction, r *cluster.Reservation, at *types.GrantNode, x grants.Want) bool {
	if d.HoldsAll(at, x) {
		return true
	}
	if p := c.view.Pool(x.ID); c.locked(c.view.Nodes[at.Node]) || p != nil && c.locked(p) {
		c.collects.skipped = true
		return false
	}
	return d.Collect(r, at, x)
}

// anyIneligible reports whether one of the nodes of bundles is none, or takes no tasks.
func (c *Core) anyIneligible(nodes []string) bool {
	return slices.ContainsFunc(nodes, func(name string) bool {
		n := c.view.Nodes[name]
		return n == nil || !n.Eligible()
	})
}

// redirect returns the grant of x to add to, with its bundles on the given nodes. Holdings on nodes
// whose bundles have changed are returned; the rest stays. all reports whether the draft had space to
// return all of them. nil means that nothing can be done at present.
func (c *Core) redirect(d *Transaction, x claimant, on []string) (g *types.Grant, all bool) {
	r := x.Reservation
	if g, all = x.newGrant(c.now), true; r.Grant.V != nil {
		if g = grants.Clone(r.Grant.V); slices.Equal(g.Bundles, on) {
			return g, true
		}
		if c.waitForGrant(d, r) {
			return nil, false
		}
	}
	is := c.allowed(x, on)
	was, will := grants.BundlesOn(g), grants.BundlesOn(&types.Grant{Bundles: is})
	nodes := g.Nodes[:0]
	for _, at := range g.Nodes {
		if same := slices.Equal(was[at.Node], will[at.Node]); !same && !d.ReturnUndrawn(r, at) {
			all = false
			for _, i := range was[at.Node] {
				is[i] = at.Node
			}
		} else if !same {
			continue
		}
		nodes = append(nodes, at)
	}
	g.Nodes, g.Bundles = nodes, is
	for _, name := range is {
		if name != "" && !slices.ContainsFunc(g.Nodes, func(at types.GrantNode) bool { return at.Node == name }) {
			g.Nodes = append(g.Nodes, types.GrantNode{Node: name})
		}
	}
	slices.SortFunc(g.Nodes, func(a, b types.GrantNode) int { return strings.Compare(a.Node, b.Node) })
	if r.Grant.V == nil && len(g.Nodes) == 0 {
		return nil, true
	}
	return g, all
}

// allowed returns the nodes of the bundles of x, without those where a bundle may not be.
func (c *Core) allowed(x claimant, on []string) []string {
	out := make([]string, len(on))
	for _, b := range grants.BundleOrder(c.view, x.Reservation) {
		n := c.view.Nodes[on[b.Index]]
		if n != nil && n.Info.V != nil && !slices.ContainsFunc(b.Needs, func(need cluster.Need) bool {
			capacity, ok := c.view.Capacity(n, need.ID)
			return need.ID.IsPlacement() && (!ok || capacity < need.Amount)
		}) {
			out[b.Index] = n.Name
		}
	}
	return out
}

// lendable is the resource on which a backfill task waits besides those it lacks. It stands for a
// change of the collected capacity, or of the time until which it is lent.
const lendable types.ResourceID = "<"
