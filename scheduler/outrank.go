package scheduler

import (
	"math"
	"slices"

	"github.com/escher-sched/escher/controlplane"
	"github.com/escher-sched/escher/controlplane/cluster"
	"github.com/escher-sched/escher/scheduler/draft"
	"github.com/escher-sched/escher/scheduler/grants"
	"github.com/escher-sched/escher/scheduler/queue"
	"github.com/escher-sched/escher/scheduler/search"
	"github.com/escher-sched/escher/types"
)

// The accumulating claimant never delays entries that precede it in the queue, by priority and then
// age. They are placed first, take collected capacity if they fit with it, and accumulate instead
// if they may. So only later entries wait for the claimant.

// entryOf returns x as a queue entry.
func entryOf(x claimant) *queue.Entry {
	return &queue.Entry{ID: x.ID, Reservation: x.task == nil, Priority: x.Info.V.Order(), Submitted: x.Info.V.Submitted}
}

// outrankedBy reports whether an entry precedes x.
func (x claimant) outrankedBy(e *queue.Entry) bool { return e != nil && e.Before(entryOf(x)) }

// collected is the accumulating grant, as a draft leaves it, and its claimant.
type collected struct {
	x claimant
	g *types.Grant
}

// collected returns the accumulating grant, as d leaves it; false if there is none.
func (c *Core) collected(d *Transaction) (collected, bool) {
	x, ok := c.accumulating()
	switch {
	case !ok:
		return collected{}, false
	case d.collecting != nil:
		return collected{x, d.collecting.g}, d.collecting.g.Phase == types.Accumulating
	}
	return collected{x, x.Grant.V}, !d.Has(x.lock()) // otherwise it was just granted elsewhere
}

// outranks reports whether a task precedes the accumulating claimant.
func (c *Core) outranks(d *Transaction, t *cluster.Task) bool {
	at, ok := c.collected(d)
	return ok && at.x.outrankedBy(c.queue.Entry(queue.Key{ID: t.ID}))
}

// readyAhead makes a shape ready if its head, queued under k, precedes the accumulating claimant:
// later entries of the shape may have failed before.
func (c *Core) readyAhead(k queue.Key) {
	if x, ok := c.accumulating(); ok {
		if e := c.queue.Entry(k); x.outrankedBy(e) && e.Shape.Head() == e {
			c.queue.MakeReady(e.Shape)
		}
	}
}

// isInFlight reports whether the grant cannot change at present: it, or a pool that it draws on, is
// in flight.
func (c *Core) isInFlight(at collected) bool {
	if c.locked(at.x.lock()) {
		return true
	}
	for _, on := range at.g.Nodes {
		for _, h := range on.Holds {
			if h.Cluster && c.locked(c.view.PoolOf(h.Resource)) {
				return true
			}
		}
	}
	return false
}

// useCollected binds a task to a node where it fits with collected capacity, if it precedes the
// claimant, or ends before the collection could be complete (backfill).
func (c *Core) useCollected(d *Transaction, t *cluster.Task, alternative int, needs []cluster.Need) outcome {
	at, ok := c.collected(d)
	if !ok || at.x.task == t || !c.outranks(d, t) && !c.endsInTime(at, t) {
		return noFit
	}
	for i := range at.g.Nodes {
		n := c.view.Nodes[at.g.Nodes[i].Node]
		switch {
		case !n.Eligible() || !c.fitsWith(d, at.g, i, needs):
			continue
		case c.locked(n) || c.isInFlight(at) || c.poolInFlight(d.Draft, needs):
			return stalled
		case !d.Room(2+controlplane.NodeCompares+2*len(needs)+2*len(at.g.Nodes[i].Holds), 3+len(needs)+len(at.g.Nodes[i].Holds)):
			switch {
			case !d.Empty():
				return full
			case c.outranks(d, t) && c.fitsInstead(at, n, needs):
				c.dissolve(d, at.x) // one transaction cannot hold both
				return stalled
			}
			continue // it will never fit
		}
		if c.lend(d, at, func() bool {
			_, fits := d.Fits(n, needs)
			_, short := d.PoolShort(needs)
			return fits && !short && d.Bind(t, n, alternative, needs, c.now)
		}) {
			return placed
		}
	}
	return noFit
}

// fitsWith reports whether needs may fit on the i-th node of a grant with what the grant holds
// there and in pools.
func (c *Core) fitsWith(d *Transaction, g *types.Grant, i int, needs []cluster.Need) bool {
	n, holds := c.view.Nodes[g.Nodes[i].Node], g.Nodes[i].Holds
	for _, x := range needs {
		free, known := types.Quantity(0), true
		if p := c.view.Pool(x.ID); p != nil {
			free = d.PoolFree(p)
			for _, at := range g.Nodes {
				free = free.Add(grants.HeldOf(at.Holds, x.ID))
			}
		} else {
			free, known = d.Free(n, x.ID)
			free = free.Add(grants.HeldOf(holds, x.ID))
		}
		if !known || free < x.Amount {
			return false
		}
	}
	return true
}

// fitsInstead reports whether needs fit on n if all collected capacity is returned.
func (c *Core) fitsInstead(at collected, n *cluster.Node, needs []cluster.Need) bool {
	trial := c.newDraft(controlplane.Limits{Ops: math.MaxInt, Bytes: math.MaxInt}, 1)
	trial.ReleaseGrant(at.g)
	_, fits := trial.Fits(n, needs)
	_, short := trial.PoolShort(needs)
	return fits && !short
}

// grantCollected grants a reservation that fits with collected capacity, if it precedes the
// claimant.
func (c *Core) grantCollected(d *Transaction, r *cluster.Reservation) (outcome, []types.ResourceID) {
	p := search.NewPacking(c.nodes, d.Draft, grants.BundleOrder(c.view, r))
	at, ok := c.collected(d)
	if !ok || !at.x.outrankedBy(c.queue.Entry(queue.Key{ID: r.ID, Reservation: true})) {
		return noFit, grants.AllIDs(p.Spots)
	}
	if c.isInFlight(at) {
		return stalled, nil
	}
	fits := false
	done := c.lend(d, at, func() bool {
		if fits = p.Place(); !fits || d.Grant(r, p.Spots, 4+4*min(len(p.Spots), len(at.g.Nodes))) {
			return fits
		}
		p.Undo()
		return false
	})
	switch {
	case done:
		return placed, nil
	case fits && !d.Empty():
		return full, nil
	case fits: // one transaction cannot hold both: return all collected capacity first
		c.dissolve(d, at.x)
		return stalled, nil
	case p.Skipped:
		return stalled, nil
	}
	return noFit, grants.AllIDs(p.Spots)
}

// lend returns the collected capacity, calls place, and takes back the remainder; if place fails,
// nothing changes.
func (c *Core) lend(d *Transaction, at collected, place func() bool) bool {
	lent := &types.Grant{}
	for _, on := range at.g.Nodes {
		if !c.locked(c.view.Nodes[on.Node]) {
			lent.Nodes = append(lent.Nodes, on)
		}
	}
	c.releaseGrant(d, lent)
	if !place() {
		c.reacquireGrant(d, lent)
		return false
	}
	after, bundles := grants.Clone(at.g), grants.BundlesOn(at.g)
	for i := range after.Nodes {
		on := &after.Nodes[i]
		n := c.view.Nodes[on.Node]
		switch {
		case c.locked(n):
		case d.IsFree(n, on.Holds):
			d.Take(n, on.Holds)
		default:
			d.Keep(n, on.Holds)
			on.Holds = nil
			c.collectOn(d, at.x.Reservation, on, grants.Wanted(c.view, at.x.Reservation, bundles[on.Node]))
		}
		c.nodes.Note(d.Draft, n)
	}
	if d.collecting == nil {
		d.accumulate(c.view, at.x, after)
	}
	d.collecting.g = after
	c.accumulateAgain()
	return true
}

// placeOutranking places waiting entries that precede x, on nodes of x only if no other node fits.
// If the draft has no space for all of them, the next one continues.
func (c *Core) placeOutranking(d *Transaction, x claimant) {
	limit := entryOf(x)
	c.wakeOutranking(d, x)
	if x.Grant.V != nil {
		c.nodes.Avoid(c.nodesOf(x.Grant.V))
	}
	c.placeUntil(d, limit)
	c.nodes.Avoid(nil)
	if s := c.queue.First(); d.collecting != nil || s != nil && s.Head().Before(limit) {
		c.first, d.closed = true, true
	}
}

// outranked reports whether another candidate should accumulate instead of x: it precedes x, may
// accumulate, has waited long enough, and has nodes to begin on.
func (c *Core) outranked(d *Transaction, x claimant) bool {
	if len(c.accum.candidates) == 0 {
		return false
	}
	if at := c.accum.nextAge; at != 0 && at <= c.now.UnixNano() {
		c.accum.rivals = paced{seen: -1}
	}
	if !c.maySearch(&c.accum.rivals) {
		c.accum.wake = earlier(c.accum.wake, c.accum.nextAge)
		return false
	}
	for i, y := range c.aged() {
		if i == triesPerSearch || !x.outrankedBy(entryOf(y)) {
			return false
		}
		if c.takesCareOf(y) && !grants.OverPools(c.view, y.Reservation) && !c.view.UnreadNamespace(y.ID.Namespace) && c.couldBegin(d, y) {
			return true
		}
	}
	return false
}

// couldBegin reports whether all bundles of y, which has not begun, have a node to collect on.
func (c *Core) couldBegin(d *Transaction, y claimant) bool {
	left := c.accum.left
	c.accum.left = nil // it belongs to the current claimant
	ok := c.assign(d, y, y.newGrant(c.now))
	c.accum.left = left
	return ok
}

// wakeOutranking wakes shapes that precede x and may fit with what the draft returns: otherwise x
// would take it in the same transaction.
func (c *Core) wakeOutranking(d *Transaction, x claimant) {
	if !d.Returns() {
		return
	}
	for n := range d.Nodes() {
		was := n.Allocated.V
		if was == nil {
			continue
		}
		var holds []types.Holding
		if x.Grant.V != nil {
			holds = x.Grant.V.On(n.Name)
		}
		for _, h := range was.Holds {
			if d.AllocatedOn(n).Of(h.Resource) >= h.Amount {
				continue
			}
			free, _ := d.Free(n, h.Resource)
			c.queue.WakeIf(h.Resource, free.Add(grants.HeldOf(holds, h.Resource)), func(s *queue.Shape) bool {
				return x.outrankedBy(s.Head()) && c.fitsAny(d.Draft, n, s, holds)
			})
		}
	}
	for p := range d.Draws() {
		c.queue.WakeIf(p.ID, types.Inf, func(s *queue.Shape) bool { return x.outrankedBy(s.Head()) })
	}
}

// fitsAny reports whether a node has enough for a shape, as a draft leaves it, with what was
// collected there. It returns true if the needs are unknown.
func (c *Core) fitsAny(d *draft.Draft, n *cluster.Node, s *queue.Shape, collected []types.Holding) bool {
	for _, needs := range s.Resolved {
		enough := true
		for _, x := range needs {
			free, _ := d.Free(n, x.ID)
			enough = enough && (c.view.Pool(x.ID) != nil || free.Add(grants.HeldOf(collected, x.ID)) >= x.Amount)
		}
		if enough {
			return true
		}
	}
	return len(s.Resolved) == 0
}

// endsInTime reports whether a task ends before the collection could be complete, given the known
// ends of other tasks (Lifka 1995, EASY).
func (c *Core) endsInTime(at collected, t *cluster.Task) bool {
	return t.Info.V.MaxRun > 0 && !c.now.Add(t.Info.V.MaxRun).After(grants.Completion(c.view, at.x.Reservation, at.g))
}

// An accumulating claimant returns all it holds if an AtOnce reservation of its namespace, for
// waiting tasks of higher priority, could collect it: otherwise both would wait. While that
// reservation lacks capacity, the claimant does not begin on it: otherwise it would take and return
// the same capacity forever.

// priority is the submitted priority, without raises.
func (x claimant) priority() int {
	if x.task != nil {
		return x.task.Info.V.Priority
	}
	return x.Info.V.Priority
}

// above returns the AtOnce reservations for waiting tasks of the namespace of x with higher
// priority.
func (c *Core) above(x claimant) []*cluster.Reservation {
	var out []*cluster.Reservation
	for id := range c.accum.atOnce {
		r := c.view.Reservations[id]
		if id.Namespace == x.ID.Namespace && grants.IsAtOnce(r) && !r.Info.V.ForItself && r.Info.V.Priority > x.priority() && r.Current() {
			out = append(out, r)
		}
	}
	return out
}

// givesWay reports whether x holds capacity that a reservation above it lacks and could take.
func (c *Core) givesWay(x claimant) bool {
	return x.Grant.V != nil && slices.ContainsFunc(c.above(x), func(r *cluster.Reservation) bool { return c.couldTake(r, x.Grant.V) })
}

// couldTake reports whether r could collect more if the holdings of another grant were free.
func (c *Core) couldTake(r *cluster.Reservation, other *types.Grant) bool {
	g := c.directed(r)
	if g == nil || c.accum.refused[r.ID] == lastChange(r) {
		return false
	}
	d := c.newDraft(c.cfg.Limits, 1)
	d.ReleaseGrant(other)
	for i := range g.Nodes {
		at := &g.Nodes[i]
		for _, w := range grants.WantedOn(c.view, r, g, at.Node) {
			if has := grants.HeldOf(at.Holds, w.ID); has < w.Sum() && grants.HoldsAt(c.view, other, at.Node, w.ID) {
				if c.collectOn(d, r, at, []grants.Want{w}); grants.HeldOf(at.Holds, w.ID) > has {
					return true
				}
			}
		}
	}
	return false
}

// shortage is a resource lacking on a node; "" stands for the whole cluster.
type shortage struct {
	node string
	id   types.ResourceID
}

// lackedAbove returns what the reservations above x lack: x must not begin on those.
func (c *Core) lackedAbove(x claimant) map[shortage]bool {
	out := make(map[shortage]bool)
	for _, r := range c.above(x) {
		for _, at := range r.Grant.V.Nodes {
			for _, w := range grants.WantedOn(c.view, r, r.Grant.V, at.Node) {
				if grants.HeldOf(at.Holds, w.ID) >= w.Sum() {
					continue
				}
				if c.view.Pool(w.ID) != nil {
					out[shortage{"", w.ID}] = true
				} else {
					out[shortage{at.Node, w.ID}] = true
				}
			}
		}
	}
	return out
}

// anyLacked reports whether any of needs is lacking on a node, or cluster-wide.
func anyLacked(lacked map[shortage]bool, node string, needs []cluster.Need) bool {
	return len(lacked) > 0 && slices.ContainsFunc(needs, func(x cluster.Need) bool {
		return lacked[shortage{node, x.ID}] || lacked[shortage{"", x.ID}]
	})
}
