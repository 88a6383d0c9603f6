package scheduler

import (
	"github.com/escher-sched/escher/controlplane/cluster"
	"github.com/escher-sched/escher/controlplane/grants"
	"github.com/escher-sched/escher/scheduler/draft"
	"github.com/escher-sched/escher/scheduler/queue"
	"github.com/escher-sched/escher/types"
)

// solo is the number of conflicts after which a task is sent alone, so that its churn does not fail
// the batches of others.
const solo = 2

// outcome is the result of a try to place the head of a shape.
type outcome int

const (
	placed  outcome = iota
	noFit           // nowhere: it waits
	stalled         // nodes or pools that might fit are in flight
	full            // the draft has no space: try in the next one
)

// placeWaiting fills the draft with waiting entries: in queue order, except for a few placed next
// to others. If some are ready, those are, too, that wait for what the draft returns: otherwise the ready
// ones would take it, whatever their order.
func (c *Core) placeWaiting(d *Transaction) {
	if c.queue.First() != nil {
		c.wakeReturned(d, nil, func(*queue.Shape) bool { return true })
	}
	c.placeUntil(d, nil)
}

// placeUntil is placeWaiting for the entries before limit; nil means no limit.
func (c *Core) placeUntil(d *Transaction, limit *queue.Entry) {
	for !d.closed && len(d.entries)-d.Bundles() < c.batch {
		s := c.queue.First()
		if s == nil {
			return
		}
		e := s.Head()
		if limit != nil && !e.Before(limit) {
			return
		}
		alone := e.Conflicts >= solo
		if alone && !d.Empty() {
			c.first = true
			return
		}
		switch c.try(d, s) {
		case placed:
			d.closed = d.closed || alone
			if limit == nil {
				c.placeBeside(d, e.Priority)
			}
		case full:
			c.first = true
			return
		}
	}
}

// try places the head of a ready shape, or makes the shape wait.
func (c *Core) try(d *Transaction, s *queue.Shape) outcome {
	d.last = nil
	e := s.Head()
	result, lacks := c.placeHead(d, s, e)
	switch result {
	case placed:
		c.queue.Take(e)
		d.entries = append(d.entries, e)
		c.wakeOffered(d)
	case noFit:
		c.queue.Rest(s)
		c.queue.Wait(s, lacks)
		c.restWaiting(s)
	case stalled:
		c.queue.Rest(s)
		c.queue.Stall(s)
	}
	return result
}

// wakeOffered wakes entries that wait for capacity that the draft adds, so that the same
// transaction can place them.
func (c *Core) wakeOffered(d *Transaction) {
	for _, rid := range d.NewlyOffered() {
		c.forgetSeen(rid)
		c.queue.Wake(rid)
	}
}

func (c *Core) placeHead(d *Transaction, s *queue.Shape, e *queue.Entry) (outcome, []types.ResourceID) {
	c.deciding = e
	if c.view.UnreadNamespace(e.ID.Namespace) {
		return noFit, nil // until that changes, which makes the whole namespace ready
	}
	if e.Reservation {
		return c.placeBundles(d, s, c.view.Reservations[e.ID])
	}
	return c.placeTask(d, s, c.view.Task(e.ID))
}

// placeTask places a task if it fits anywhere.
func (c *Core) placeTask(d *Transaction, s *queue.Shape, t *cluster.Task) (outcome, []types.ResourceID) {
	if t.Info.V.Accumulate && d.Has(t) {
		return stalled, nil // the draft collects for it
	}
	if r := grants.CollectedBy(c.view, t); r != nil {
		return c.placeClaimant(d, s, r, t)
	}
	return c.placeAnew(d, s, t)
}

// placeAnew tries the currently allowed alternatives of a task, in order.
func (c *Core) placeAnew(d *Transaction, s *queue.Shape, t *cluster.Task) (outcome, []types.ResourceID) {
	var lacks []types.ResourceID
	inFlight := false
	for i, needs := range c.needsOf(s, t) {
		if at := grants.AllowedAt(t.Info.V, i); at > c.now.UnixNano() {
			c.queue.WakeAt(s, at)
			continue
		}
		n, short, skipped := c.nodes.Find(d.Draft, s, needs)
		if n != nil {
			if d.Bind(t, n, i, needs, c.now) {
				d.last = n
				return placed, nil
			}
			if d.Empty() {
				// It exceeds a transaction. It may rely on fewer keys later.
				return noFit, grants.IDs(needs)
			}
			return full, nil
		}
		switch c.useCollected(d, t, i, needs) {
		case placed:
			return placed, nil
		case full:
			return full, nil
		case stalled:
			skipped = true
		}
		if inFlight = inFlight || skipped; c.outranks(d, t) {
			short = grants.IDs(needs) // what it lacks may have been collected, and then it lacks the rest
		}
		lacks = append(lacks, short...)
	}
	if inFlight {
		return stalled, nil
	}
	if t.Info.V.MaxRun > 0 {
		lacks = append(lacks, lendable)
	}
	return noFit, lacks
}

// needsOf returns the needs of each alternative of the tasks of a shape.
func (c *Core) needsOf(s *queue.Shape, t *cluster.Task) [][]cluster.Need {
	at := int64(0)
	if ns := c.view.Namespaces[t.ID.Namespace]; ns != nil {
		at = ns.Mod
	}
	if s.Resolved == nil || s.ResolvedAt != at {
		s.Resolved, s.ResolvedAt = grants.Vectors(c.view, t), at
	}
	return s.Resolved
}

// poolInFlight reports whether needs draw on pools in flight that the draft cannot draw on.
func (c *Core) poolInFlight(d *draft.Draft, needs []cluster.Need) bool {
	if len(c.drawing) == 0 {
		return false
	}
	for _, x := range needs {
		if p := c.view.Pool(x.ID); p != nil && !d.Considers(p) && !c.mayDraw(p) {
			return true
		}
	}
	return false
}

// Some tasks fit only one node: the only one with a requested resource. In a transaction, a node
// costs the same for one bound task as for four. So each task placed on a node in its turn brings a
// few of those pinned to the node.
//
// A shape is pinned when it is queued, and when newly free capacity wakes it. The pin may be
// outdated, so an early try places a task as in its turn.

// mostBeside bounds the tasks that a node gets in one transaction, all but the first out of turn.
const mostBeside = 8

// placeBeside tries the first few shapes of the same priority that are pinned to the node of the
// last placed task, until that node has enough tasks to be cheap for each.
//
// It runs once per task placed in its turn, and only for a few tasks, so that no waiting entry is
// overtaken without end.
func (c *Core) placeBeside(d *Transaction, priority int) {
	n := d.last
	if n == nil {
		return
	}
	for tried := 1; tried < mostBeside && d.BindsOn(n) < mostBeside && !d.closed && len(d.entries) < c.batch; {
		s := c.queue.PinnedTo(n.Serial)
		switch {
		case s == nil || s.Head().Priority != priority:
			return
		case !c.mayGoBeside(s):
			c.queue.Pin(s, queue.Nowhere)
		default:
			tried++
			if c.try(d, s) == full {
				return // its turn comes, and others may be smaller
			}
		}
	}
}

// mayGoBeside reports whether the head of a shape may be placed out of turn. It may not if it is
// sent alone, collects, or draws on a pool, which belongs to the first in the queue.
func (c *Core) mayGoBeside(s *queue.Shape) bool {
	e := s.Head()
	t := c.view.Task(e.ID)
	if e.Conflicts >= solo || e.Reservation || t.Info.V.Accumulate {
		return false
	}
	for _, needs := range c.needsOf(s, t) {
		for _, x := range needs {
			if c.view.Pool(x.ID) != nil {
				return false
			}
		}
	}
	return true
}

// steer pins the tasks of a new shape to the only node that has one of their requested resources,
// for any alternative.
func (c *Core) steer(s *queue.Shape, t *cluster.Task) {
	for _, r := range t.Info.V.Requests {
		c.text = types.AppendResolved(c.text[:0], t.ID.Namespace, r.Name)
		if n := c.nodes.OnlyAt(types.ResourceID(c.text)); n != nil {
			c.queue.Pin(s, n.Serial)
			return
		}
	}
}
