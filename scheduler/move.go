package scheduler

import (
	"maps"
	"slices"

	"github.com/escher-sched/escher/controlplane/cluster"
	"github.com/escher-sched/escher/controlplane/grants"
	"github.com/escher-sched/escher/scheduler/queue"
	"github.com/escher-sched/escher/scheduler/search"
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
	for _, at := range grants.LeftNodes(c.view, r) {
		if n := c.view.Nodes[at.Node]; n.Alive.Absent() && !n.Dead() && c.loss.Storm(len(c.nodes.All()), c.now) {
			held = true
			continue
		}
		from = append(from, at)
	}
	return from, held
}

// queueMove queues a granted reservation whose bundles move, and dequeues it if none do.
func (c *Core) queueMove(r *cluster.Reservation) {
	k := queue.Key{ID: r.ID, Reservation: true}
	if r.Info.V == nil || r.Info.V.Lost != types.MoveBundles || !c.division.Owns(r.ID.Namespace, "") {
		c.queue.Remove(k)
		return
	}
	from, held := c.leaving(r)
	if held {
		c.loss.HoldBack(r)
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
	for _, id := range slices.SortedFunc(maps.Keys(found), cluster.ID.Compare) {
		c.queueMove(found[id])
	}
}

// placeMove gives the moving bundles other nodes, all or none.
func (c *Core) placeMove(d *Transaction, r *cluster.Reservation) (outcome, []types.ResourceID) {
	nodes, _ := c.leaving(r)
	return c.placeMoveFrom(d, r, nodes)
}

// placeMoveFrom gives the bundles on the given nodes other ones. If that exceeds a transaction, it
// moves those on the first half, and the rest later: all of them fit.
func (c *Core) placeMoveFrom(d *Transaction, r *cluster.Reservation, nodes []types.GrantNode) (outcome, []types.ResourceID) {
	from := &types.Grant{Nodes: nodes}
	if c.inFlightOf(from) {
		return stalled, nil
	}
	p := search.NewPacking(c.nodes, d.Draft, grants.PlacementsOn(c.view, r, from))
	if !d.Empty() && !d.RoomForGang(len(p.Spots)+len(nodes)) {
		return full, nil
	}
	c.releaseGrant(d, from)
	fits := p.Place()
	if fits && d.Move(r, from, p.Spots) {
		return placed, nil
	}
	if fits {
		p.Undo()
	}
	c.reacquireGrant(d, from)
	switch {
	case fits && !d.Empty():
		return full, nil
	case fits && len(nodes) > 1:
		return c.placeMoveFrom(d, r, nodes[:len(nodes)/2])
	case p.Skipped:
		return stalled, nil
	}
	return noFit, grants.AllIDs(p.Spots)
}
