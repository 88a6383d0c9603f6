package scheduler

import (
	"maps"
	"slices"
	"strings"

	"github.com/escher-sched/escher/controlplane"
	"github.com/escher-sched/escher/controlplane/cluster"
	"github.com/escher-sched/escher/types"
)

// The bundles of a reservation that says so move when their node is lost, or drained, and
// no task draws on them there any more: all of them get other nodes in one transaction, or in
// several where that has no room for it, each of which gives back what was held on the former
// ones. Until there is room for all of them the grant holds what it held. So it is whole at every moment: tasks on its other nodes
// go on, those without a node wait, and a node that is back before that has its bundles
// still. Two gangs that each miss more than there is never hold what the other needs.

// leaving returns what a grant holds on nodes that its bundles are to leave; held tells
// that there would be more if so many nodes were not gone that it must be the network.
func (c *Core) leaving(r *cluster.Reservation) (from []types.GrantNode, held bool) {
	for _, at := range leaving(c.view, r) {
		if n := c.view.Nodes[at.Node]; n.Alive.Absent() && !n.Dead() && c.inStorm() {
			held = true
			continue
		}
		from = append(from, at)
	}
	return from, held
}

// leaving returns what a grant holds on nodes that its bundles are to leave.
func leaving(v *cluster.View, r *cluster.Reservation) []types.GrantNode {
	if !r.Current() || r.Info.V.Lost != types.MoveBundles || r.Grant.V.Phase != types.Granted {
		return nil
	}
	var out []types.GrantNode
	for _, at := range r.Grant.V.Nodes {
		n := v.Nodes[at.Node]
		drained := n.Cordon.V != nil && (n.Cordon.V.Drain == types.DrainMove || n.Cordon.V.Drain == types.DrainFinish)
		if !n.Alive.Absent() && !drained || n.Allocated.Unread() || drawnOn(r, n, at) || bidden(r, at.Node) {
			continue
		}
		out = append(out, at)
	}
	return out
}

// bidden reports whether a bundle of the reservation must be on a node.
func bidden(r *cluster.Reservation, node string) bool {
	return slices.ContainsFunc(r.Info.V.Bundles, func(b types.Bundle) bool { return b.Node == node })
}

// queueMove queues a granted reservation of which bundles are to move, and takes it out
// of the queue if there are none.
func (c *Core) queueMove(r *cluster.Reservation) {
	k := entryKey{r.ID, true}
	if r.Info.V == nil || r.Info.V.Lost != types.MoveBundles || !c.owns(r.ID.Namespace, "") {
		c.queue.remove(k)
		return
	}
	from, held := c.leaving(r)
	if held {
		c.loss.grants.push(r)
	}
	if len(from) == 0 {
		c.queue.remove(k)
		return
	}
	if c.locked(r) {
		return
	}
	c.text = appendBundleShape(c.text[:0], r.ID.Namespace, r.Info.V)
	c.text = append(append(c.text, '@'), r.ID.ID...) // what is asked for is where nothing is held yet
	for _, at := range from {
		c.text = append(append(c.text, '-'), at.Node...)
	}
	c.queue.add(entry{
		id: r.ID, bundles: true, priority: r.Info.V.Order(), submitted: r.Info.V.Submitted, conflicts: c.retries[k],
	}, keyOfShape(c.text))
}

// touchMoves looks at the reservations that hold something on a node which came, went, or
// is drained.
func (c *Core) touchMoves(n *cluster.Node) {
	found := make(map[cluster.ID]*cluster.Reservation)
	n.Has(func(rid types.ResourceID) {
		if r := c.grantBehind(rid); r != nil && r.Info.V != nil && r.Info.V.Lost == types.MoveBundles {
			found[r.ID] = r
		}
	})
	for _, id := range slices.SortedFunc(maps.Keys(found), compareID) {
		c.queueMove(found[id])
	}
}

// placeMove gives the bundles that are to move other nodes, all of them or none.
func (c *Core) placeMove(d *Draft, r *cluster.Reservation) (outcome, []types.ResourceID) {
	nodes, _ := c.leaving(r)
	return c.placeMoveFrom(d, r, nodes)
}

// placeMoveFrom gives the bundles on some nodes other ones. Where that is more than a
// transaction takes, those on the first half of them, and the rest later: that all of them fit
// has been seen.
func (c *Core) placeMoveFrom(d *Draft, r *cluster.Reservation, nodes []types.GrantNode) (outcome, []types.ResourceID) {
	from := &types.Grant{Nodes: nodes}
	if c.inFlightOf(from) {
		return stalled, nil
	}
	p := packing{core: c, draft: d, spots: spotsOn(c.view, r, from)}
	if !d.empty() && !d.roomForGang(len(p.spots)+len(nodes)) {
		return full, nil
	}
	p.looks = looksBack + len(p.spots)
	c.layDown(d, from)
	fits := p.place(0)
	if fits && d.move(r, from, p.spots) {
		return placed, nil
	}
	for _, x := range p.spots {
		if fits {
			d.undo(x.node, x.holds)
		}
	}
	c.takeUp(d, from)
	switch {
	case fits && !d.empty():
		return full, nil
	case fits && len(nodes) > 1:
		return c.placeMoveFrom(d, r, nodes[:len(nodes)/2])
	case p.skipped:
		return stalled, nil
	}
	return noFit, allIDs(p.spots)
}

// spotsOn resolves the bundles of a reservation that are on the nodes of from.
func spotsOn(v *cluster.View, r *cluster.Reservation, from *types.Grant) []spot {
	return slices.DeleteFunc(bundleOrder(v, r), func(x spot) bool {
		node := r.Grant.V.Bundles[x.index]
		return !slices.ContainsFunc(from.Nodes, func(at types.GrantNode) bool { return at.Node == node })
	})
}

// move writes the grant of r as it is when what was laid down of it is where spots say;
// false when there is no room. It is compared that the nodes are gone, or drained, still.
func (d *Draft) move(r *cluster.Reservation, from *types.Grant, spots []spot) bool {
	more := 0
	for _, at := range from.Nodes {
		more += 3 + len(at.Holds)
	}
	if !d.grantAs(r, movedGrant(r.Grant.V, from, grantOf(r, spots)), spots, more) {
		return false
	}
	for _, at := range from.Nodes {
		n := d.view.Nodes[at.Node]
		d.keep(n, at.Holds)
		d.Change.IfCreated(d.keysOf(n).alive, n.Session())
		if n.Alive.V != nil {
			d.Change.IfUnchanged(controlplane.CordonKey(n.Name), n.Cordon.Mod)
		}
	}
	return true
}

// movedGrant is grant g with some of its bundles elsewhere: without what it had on the
// nodes of from, and with what to has.
func movedGrant(g, from, to *types.Grant) *types.Grant {
	out := cloneGrant(g)
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
			out.Nodes[i].Holds = addHolding(out.Nodes[i].Holds, h)
		}
	}
	return out
}
