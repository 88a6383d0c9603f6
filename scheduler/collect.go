package scheduler

import (
	"slices"
	"strings"

	"github.com/escher-sched/escher/controlplane/cluster"
	"github.com/escher-sched/escher/scheduler/grants"
	"github.com/escher-sched/escher/scheduler/search"
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
				c.accumulateAgain()
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
		c.accum.skipped = true
		return false
	}
	return d.Collect(r, at, x)
}

// The choice of nodes for a claimant: those closest to having the wanted capacity.

// untargeted reports whether a grant needs other nodes: a bundle has no node, or an ineligible one.
func (c *Core) untargeted(g *types.Grant) bool {
	return slices.Contains(g.Bundles, "") ||
		slices.ContainsFunc(g.Nodes, func(at types.GrantNode) bool { return !c.view.Nodes[at.Node].Eligible() })
}

// targets returns the grant of x to add to, with a node for each bundle where one exists. Holdings
// on nodes that are no longer eligible are returned; the rest stays. nil means that nothing can be
// done at present.
func (c *Core) targets(d *Transaction, x claimant) *types.Grant {
	r := x.Reservation
	g := x.newGrant(c.now)
	if r.Grant.V != nil {
		if g = grants.Clone(r.Grant.V); !c.untargeted(g) {
			return g
		}
		if c.waitForGrant(d, r) {
			return nil
		}
		c.giveUpLost(d, r, g)
	}
	if !c.assign(d, x, g) && len(c.accum.left) > 0 {
		clear(c.accum.left)
		c.assign(d, x, g)
	}
	if r.Grant.V == nil && slices.Contains(g.Bundles, "") {
		return nil
	}
	return g
}

// assign assigns nodes to the bundles of x without one in g, its future grant, and reports whether
// all have one then.
func (c *Core) assign(d *Transaction, x claimant, g *types.Grant) bool {
	wanted, all := make(search.Wanted), true
	order, lacked := grants.BundleOrder(c.view, x.Reservation), c.lackedAbove(x)
	for _, b := range order {
		if name := g.Bundles[b.Index]; name != "" {
			wanted.Add(name, b.Needs)
		}
	}
	for _, b := range order {
		if g.Bundles[b.Index] != "" {
			continue
		}
		n := c.nodes.Target(d.Draft, g, b.Needs, wanted, func(n *cluster.Node) bool {
			_, left := c.accum.left[n.Name]
			return left || anyLacked(lacked, n.Name, b.Needs)
		})
		if n == nil {
			all = false
			continue
		}
		g.Bundles[b.Index] = n.Name
		if !slices.ContainsFunc(g.Nodes, func(at types.GrantNode) bool { return at.Node == n.Name }) {
			g.Nodes = append(g.Nodes, types.GrantNode{Node: n.Name})
		}
		wanted.Add(n.Name, b.Needs)
	}
	slices.SortFunc(g.Nodes, func(a, b types.GrantNode) int { return strings.Compare(a.Node, b.Node) })
	return all
}

// patience is the time without progress, in multiples of Config.AccumulateAfter, before a
// collection leaves a node. It counts from the known end of the tasks there, if that is later.
const patience = 10

// isStuck reports whether x should collect elsewhere: nothing has been freed for long, and no known
// end is ahead. It also schedules the next check.
func (c *Core) isStuck(x claimant) bool {
	c.accum.follow(x, c.now.UnixNano())
	if x.Grant.V == nil || c.accum.resting && c.accum.round == c.accum.ended {
		return false
	}
	c.accum.resting = false
	since := c.accum.progress
	if known := grants.Completion(c.view, x.Reservation, x.Grant.V); !known.IsZero() {
		since = max(since, known.UnixNano())
	}
	at := since + patience*int64(c.cfg.AccumulateAfter)
	if at <= c.now.UnixNano() {
		return true
	}
	c.accum.wake = earlier(c.accum.wake, at)
	return false
}

// follow tracks the progress of the collection of x, by any scheduler.
func (a *accumulator) follow(x claimant, now int64) {
	g := x.Grant.V
	switch {
	case a.busy != x.key():
		a.progress, a.round, a.resting = now, a.ended, false
		a.left = make(map[string]struct{})
	case g != a.last:
		a.progress = now
	}
	if g != nil && a.last != nil && a.busy == x.key() {
		for _, at := range a.last.Nodes {
			if !slices.ContainsFunc(g.Nodes, func(is types.GrantNode) bool { return is.Node == at.Node }) {
				a.left[at.Node] = struct{}{}
			}
		}
	}
	a.last = g
}

// moveOn returns what g, the future grant of x, holds on its first incomplete node, and assigns its
// bundles to other nodes: the tasks there may never end. It avoids former nodes while there are
// others. If there is none, g stays as it is until an attempt ends somewhere.
func (c *Core) moveOn(d *Transaction, x claimant, g *types.Grant) {
	if c.inFlightOf(x.Grant.V) {
		return
	}
	c.accum.progress = c.now.UnixNano()
	i := slices.IndexFunc(g.Nodes, func(at types.GrantNode) bool {
		return slices.ContainsFunc(grants.WantedOn(c.view, x.Reservation, g, at.Node), func(w grants.Want) bool { return grants.HeldOf(at.Holds, w.ID) < w.Sum() })
	})
	if i < 0 {
		c.accum.resting, c.accum.round = true, c.accum.ended
		return
	}
	from, moved := g.Nodes[i], grants.Clone(g)
	moved.Nodes = slices.Delete(moved.Nodes, i, i+1)
	for b, name := range moved.Bundles {
		if name == from.Node {
			moved.Bundles[b] = ""
		}
	}
	c.accum.left[from.Node] = struct{}{}
	if !c.assign(d, x, moved) {
		clear(c.accum.left)
		c.accum.resting, c.accum.round = c.accum.round == c.accum.ended, c.accum.ended
		return
	}
	if d.ReturnUndrawn(x.Reservation, from) {
		*g = *moved
	}
}

// giveUpLost returns what g, the future grant of r, holds on nodes that are no longer eligible.
func (c *Core) giveUpLost(d *Transaction, r *cluster.Reservation, g *types.Grant) {
	kept := make(map[string]bool) // holdings that the draft has no space to return
	nodes := g.Nodes[:0]
	for _, at := range g.Nodes {
		switch {
		case c.view.Nodes[at.Node].Eligible():
		case d.ReturnUndrawn(r, at):
			continue
		default:
			kept[at.Node] = true
		}
		nodes = append(nodes, at)
	}
	g.Nodes = nodes
	for i, name := range g.Bundles {
		if name != "" && !kept[name] && !c.view.Nodes[name].Eligible() {
			g.Bundles[i] = ""
		}
	}
}

// Backfill (Lifka 1995, EASY): the known ends of tasks bound when the accumulating reservation is
// complete. A task that ends before then may use the capacity collected so far: see useCollected.

// lendable is the resource on which a backfill task waits besides those it lacks. It stands for a
// change of the collected capacity, or of the known ends of other tasks.
const lendable types.ResourceID = "<"
