package scheduler

import (
	"math"
	"slices"
	"time"

	"github.com/escher-sched/escher/controlplane"
	"github.com/escher-sched/escher/controlplane/cluster"
	"github.com/escher-sched/escher/controlplane/grants"
	"github.com/escher-sched/escher/scheduler/draft"
	"github.com/escher-sched/escher/scheduler/queue"
	"github.com/escher-sched/escher/scheduler/search"
	"github.com/escher-sched/escher/types"
)

// A collection never delays entries that precede its claimant in the queue, by priority and then age.
// They are placed first, and take collected capacity if they fit with it. So only later entries wait
// for the claimant. This is the order of the queue, which no library knows.

// entryOf returns x as a queue entry.
func entryOf(x claimant) *queue.Entry {
	return &queue.Entry{ID: x.ID, Reservation: x.task == nil, Priority: x.Info.V.Order(), Submitted: x.Info.V.Submitted}
}

// outrankedBy reports whether an entry precedes x: none precedes what its maker directs.
func (x claimant) outrankedBy(e *queue.Entry) bool {
	return e != nil && !x.Info.V.Directed() && e.Before(entryOf(x))
}

// collected returns the grants of what collects, as d leaves them, in order.
func (c *Core) collected(d *Transaction) []collecting {
	var out []collecting
	for _, x := range c.claimants() {
		switch at := d.collecting; {
		case at != nil && at.x.key() == x.key():
			if at.g.Phase == types.Collecting {
				out = append(out, collecting{at.x, at.g})
			}
		case x.Grant.V != nil && x.Grant.V.Phase == types.Collecting && !d.Has(x.lock()): // otherwise it was just granted elsewhere
			out = append(out, collecting{x, x.Grant.V})
		}
	}
	return out
}

// outranks reports whether a task precedes a claimant that has collected something.
func (c *Core) outranks(d *Transaction, t *cluster.Task) bool {
	e := c.queue.Entry(queue.Key{ID: t.ID})
	return slices.ContainsFunc(c.collected(d), func(at collecting) bool { return at.x.outrankedBy(e) })
}

// readyAhead makes a shape ready if its head, queued under k, precedes a claimant:
// later entries of the shape may have failed before.
func (c *Core) readyAhead(k queue.Key) {
	e := c.queue.Entry(k)
	for x := range c.known {
		if e.Shape.Head() == e && x.outrankedBy(e) {
			c.queue.MakeReady(e.Shape)
			return
		}
	}
}

// isInFlight reports whether the grant cannot change at present: it, or a pool that it draws on, is
// in flight.
func (c *Core) isInFlight(at collecting) bool {
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
// claimant, or ends before the capacity is no longer lent (backfill).
func (c *Core) useCollected(d *Transaction, t *cluster.Task, alternative int, needs []cluster.Need) outcome {
	e := c.queue.Entry(queue.Key{ID: t.ID})
	for _, at := range c.collected(d) {
		ahead := at.x.outrankedBy(e)
		if at.x.task == t || !ahead && !c.endsInTime(at.x, t.Info.V.MaxRun) {
			continue
		}
		if result := c.useOf(d, at, t, alternative, needs, ahead); result != noFit {
			return result
		}
	}
	return noFit
}

// useOf is useCollected of one grant; ahead reports whether the task precedes its claimant.
func (c *Core) useOf(d *Transaction, at collecting, t *cluster.Task, alternative int, needs []cluster.Need, ahead bool) outcome {
	for i := range at.g.Nodes {
		n := c.view.Nodes[at.g.Nodes[i].Node]
		switch {
		case !n.Eligible() || !c.fitsWith(d, at.g, i, needs):
			continue
		case c.locked(n) || c.isInFlight(at) || c.poolInFlight(d.Draft, needs):
			return stalled
		case d.collects(at.x):
			return full
		case !d.Room(2+controlplane.NodeCompares+2*len(needs)+2*len(at.g.Nodes[i].Holds), 3+len(needs)+len(at.g.Nodes[i].Holds)):
			switch {
			case !d.Empty():
				return full
			case ahead && c.fitsInstead(at, n, needs):
				c.yield(d, at.x) // one transaction cannot hold both
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

// collects reports whether the draft changes the grant of another claimant than x.
func (d *Transaction) collects(x claimant) bool {
	return d.collecting != nil && d.collecting.x.key() != x.key()
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
func (c *Core) fitsInstead(at collecting, n *cluster.Node, needs []cluster.Need) bool {
	trial := c.newDraft(controlplane.Limits{Ops: math.MaxInt, Bytes: math.MaxInt}, 1)
	trial.ReleaseGrant(at.g)
	_, fits := trial.Fits(n, needs)
	_, short := trial.PoolShort(needs)
	return fits && !short
}

// grantCollected grants a reservation that fits with collected capacity, if it precedes the
// claimant, or is needed no longer than the capacity is lent.
func (c *Core) grantCollected(d *Transaction, r *cluster.Reservation) (outcome, []types.ResourceID) {
	p := search.NewPacking(c.nodes, d.Draft, grants.BundleOrder(c.view, r))
	e := c.queue.Entry(queue.Key{ID: r.ID, Reservation: true})
	for _, at := range c.collected(d) {
		ahead := at.x.outrankedBy(e)
		if at.x.key() == e.Key() || !ahead && !c.endsInTime(at.x, r.Info.V.MaxRun) {
			continue
		}
		if result := c.grantOf(d, at, r, p, ahead); result != noFit {
			return result, nil
		}
	}
	lacks := grants.AllIDs(p.Spots)
	if r.Info.V.MaxRun > 0 {
		lacks = append(lacks, lendable)
	}
	return noFit, lacks
}

// grantOf is grantCollected with one grant; ahead reports whether the reservation precedes its claimant.
func (c *Core) grantOf(d *Transaction, at collecting, r *cluster.Reservation, p *search.Packing, ahead bool) outcome {
	if c.isInFlight(at) {
		return stalled
	}
	if d.collects(at.x) {
		return full
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
		return placed
	case fits && !d.Empty():
		return full
	case fits && ahead: // one transaction cannot hold both: return all collected capacity first
		c.yield(d, at.x)
		return stalled
	case p.Skipped:
		return stalled
	}
	return noFit
}

// lend returns the collected capacity, calls place, and takes back the remainder; if place fails,
// nothing changes.
func (c *Core) lend(d *Transaction, at collecting, place func() bool) bool {
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
			if slices.Contains(at.x.on(), on.Node) { // otherwise it is being returned
				c.collectOn(d, at.x.Reservation, on, grants.Wanted(c.view, at.x.Reservation, bundles[on.Node]))
			}
		}
		c.nodes.Note(d.Draft, n)
	}
	if d.collecting == nil {
		d.setCollecting(at.x, after)
	}
	d.collecting.g = after
	c.collectAgain()
	return true
}

// placeOutranking places waiting entries that precede x, on nodes of x only if no other node fits.
// If the draft has no space for all of them, the next one continues.
func (c *Core) placeOutranking(d *Transaction, x claimant) {
	if x.Info.V.Directed() {
		return
	}
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

// wakeOutranking wakes shapes that precede x and may fit with what the draft returns: otherwise x
// would take it in the same transaction.
func (c *Core) wakeOutranking(d *Transaction, x claimant) {
	c.wakeReturned(d, x.Grant.V, func(s *queue.Shape) bool { return x.outrankedBy(s.Head()) })
}

// wakeReturned wakes shapes that pass may, and may fit with what the draft returns, and with what g holds;
// nil means nothing. The view shows only after the commit what is returned.
func (c *Core) wakeReturned(d *Transaction, g *types.Grant, may func(*queue.Shape) bool) {
	if !d.Returns() {
		return
	}
	for n := range d.Nodes() {
		was := n.Allocated.V
		if was == nil {
			continue
		}
		var holds []types.Holding
		if g != nil {
			holds = g.On(n.Name)
		}
		for _, h := range was.Holds {
			if d.AllocatedOn(n).Of(h.Resource) >= h.Amount {
				continue
			}
			free, _ := d.Free(n, h.Resource)
			c.queue.WakeIf(h.Resource, free.Add(grants.HeldOf(holds, h.Resource)), func(s *queue.Shape) bool {
				return may(s) && c.fitsAny(d.Draft, n, s, holds)
			})
		}
	}
	for p := range d.Draws() {
		c.queue.WakeIf(p.ID, types.Inf, may)
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

// endsInTime reports whether what runs for so long, 0 for unknown, ends before what x has collected is no
// longer lent (Lifka 1995, EASY).
func (c *Core) endsInTime(x claimant, maxRun time.Duration) bool {
	return maxRun > 0 && x.on() != nil && c.now.Add(maxRun).UnixNano() <= x.Info.V.Collect.LendUntil
}
