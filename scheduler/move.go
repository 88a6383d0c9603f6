package scheduler

import (
	"maps"
	"slices"
	"strings"

	"github.com/escher-sched/escher/scheduler/queue"

	"github.com/escher-sched/escher/controlplane"
	"github.com/escher-sched/escher/controlplane/cluster"
	"github.com/escher-sched/escher/types"
)

// The bundles of a MoveBundles reservation leave a lost or drained node once no task draws on them
// there. All of them get other nodes in one transaction, or in several if one is too small; each
// returns the holdings on the former nodes. Until all of them fit, the grant keeps what it holds.
// So it is whole at every moment: tasks on its other nodes continue, tasks without a node wait, and
// a node that returns in time still has its bundles. Two gangs that each miss more than is free
// never hold what the other needs.

// leaving returns the holdings of a grant on nodes that its bundles leave. held reports whether a
// presumed network failure holds back others.
func (c *Core) leaving(r *cluster.Reservation) (from []types.GrantNode, held bool) {
	for _, at := range LeftNodes(c.view, r) {
		if n := c.view.Nodes[at.Node]; n.Alive.Absent() && !n.Dead() && c.inStorm() {
			held = true
			continue
		}
		from = append(from, at)
	}
	return from, held
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
		if !n.Alive.Absent() && !drained || n.Allocated.Unread() || drawnOn(r, n, at) || bidden(r, at.Node) {
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

// queueMove queues a granted reservation whose bundles move, and dequeues it if none do.
func (c *Core) queueMove(r *cluster.Reservation) {
	k := queue.Key{ID: r.ID, Reservation: true}
	if r.Info.V == nil || r.Info.V.Lost != types.MoveBundles || !c.owns(r.ID.Namespace, "") {
		c.queue.Remove(k)
		return
	}
	from, held := c.leaving(r)
	if held {
		c.loss.grants.push(r)
	}
	if len(from) == 0 {
		c.queue.Remove(k)
		return
	}
	if c.locked(r) {
		return
	}
	c.text = queue.AppendReservation(c.text[:0], r.ID.Namespace, r.Info.V)
	c.text = append(append(c.text, '@'), r.ID.ID...) // its own shape: it searches besides what it holds
	for _, at := range from {
		c.text = append(append(c.text, '-'), at.Node...)
	}
	c.queue.Add(queue.Entry{
		ID: r.ID, Reservation: true, Priority: r.Info.V.Order(), Submitted: r.Info.V.Submitted, Conflicts: c.retries[k],
	}, queue.KeyOf(c.text))
}

// touchMoves rechecks the reservations that hold something on a node that joined, vanished or
// drains.
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

// placeMove gives the moving bundles other nodes, all or none.
func (c *Core) placeMove(d *Draft, r *cluster.Reservation) (outcome, []types.ResourceID) {
	nodes, _ := c.leaving(r)
	return c.placeMoveFrom(d, r, nodes)
}

// placeMoveFrom gives the bundles on the given nodes other ones. If that exceeds a transaction, it
// moves those on the first half, and the rest later: all of them fit.
func (c *Core) placeMoveFrom(d *Draft, r *cluster.Reservation, nodes []types.GrantNode) (outcome, []types.ResourceID) {
	from := &types.Grant{Nodes: nodes}
	if c.inFlightOf(from) {
		return stalled, nil
	}
	p := packing{core: c, draft: d, spots: PlacementsOn(c.view, r, from)}
	if !d.empty() && !d.roomForGang(len(p.spots)+len(nodes)) {
		return full, nil
	}
	p.looks = looksBack + len(p.spots)
	c.releaseGrant(d, from)
	fits := p.place(0)
	if fits && d.move(r, from, p.spots) {
		return placed, nil
	}
	for _, x := range p.spots {
		if fits {
			d.Undo(x.node, x.holds)
		}
	}
	c.reacquireGrant(d, from)
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

// PlacementsOn resolves the bundles of a reservation that are on the nodes of from.
func PlacementsOn(v *cluster.View, r *cluster.Reservation, from *types.Grant) []BundlePlacement {
	return slices.DeleteFunc(BundleOrder(v, r), func(x BundlePlacement) bool {
		node := r.Grant.V.Bundles[x.Index]
		return !slices.ContainsFunc(from.Nodes, func(at types.GrantNode) bool { return at.Node == node })
	})
}

// move writes the grant of r with the released bundles at their spots; false when the draft lacks
// space. It compares that the nodes are still gone or draining.
func (d *Draft) move(r *cluster.Reservation, from *types.Grant, spots []BundlePlacement) bool {
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

// movedGrant is g without its holdings on the nodes of from, and with those of to.
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
