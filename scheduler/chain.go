package scheduler

import (
	"slices"

	"github.com/escher-sched/escher/controlplane"
	"github.com/escher-sched/escher/controlplane/cluster"
)

// All draws on one pool change one key, so their transactions commit one after the other. Several
// are in flight at once, to avoid a wait for each answer. A draft is decided on what the previous
// one leaves of the pool, and compares the value that this one puts. The value carries the id of
// its transaction, so no other transaction puts the same. So a draft commits only if the previous
// one does and no other draw came between. Drafts are sent in order. One that overtakes another is
// refused, along with those behind it, and sent again unchanged.

// chain links a draft to others that draw on the same pools.
type chain struct {
	// after are the unanswered drafts that this one assumes committed; before are those that assume
	// it of this one.
	after, before []*Transaction
	// follows reports whether after ever had entries.
	follows bool
	// open reports whether another draft may queue behind it: it is in flight, and no predecessor
	// was refused.
	open bool
	// doomed reports whether a predecessor was refused for good, as this draft will be.
	doomed bool
	// returned means that it must be sent again, repeated that it was. settled means that all its
	// predecessors were answered when it was sent.
	returned, repeated, settled bool
	// early is the answer that it committed, if that came before the answer of a predecessor.
	early *controlplane.Result
	// gone is closed once it is on its way; nil if none can be behind it.
	gone chan struct{}
}

// deepest bounds the transactions in flight that draw on one pool: the store has one to do while
// the next one arrives. More transactions are sent closer together and overtake more: one of 30
// with two, one of four with four, which is no faster.
const deepest = 2

// calm is the number of committed pool transactions after which one more may be in flight. A
// refusal for good fails all those behind it and halves the depth.
const calm = 8

// depth is the current bound on transactions in flight per pool.
type depth struct{ most, committed int }

// follow returns the draft in flight behind which another one can draw on p; nil if there is none.
func (c *Core) follow(p *cluster.Pool) *Transaction {
	line := c.drawing[p]
	if len(line) == 0 || len(line) >= c.depth.most || !line[len(line)-1].open {
		return nil
	}
	return line[len(line)-1]
}

// mayDraw reports whether a draft can draw on p.
func (c *Core) mayDraw(p *cluster.Pool) bool { return !c.locked(p) || c.follow(p) != nil }

// whenIdle rechecks w once a draft can draw on p; false if one can now.
func (c *Core) whenIdle(p *cluster.Pool, w any) bool { return !c.mayDraw(p) && c.whenUnlocked(p, w) }

// queueUp puts a draft behind those whose pools it draws on as they leave them.
func (c *Core) queueUp(d *Transaction) {
	for p, behind := range d.Draws() {
		if !behind {
			continue
		}
		h := c.follow(p)
		if d.follows = true; !slices.Contains(d.after, h) {
			d.after = append(d.after, h)
			h.before = append(h.before, d)
		}
	}
}

// sends records that a draft is sent, for the first time or again.
func (c *Core) sends(d *Transaction) *Transaction {
	d.open, d.returned, d.settled = true, false, len(d.after) == 0
	if d.DrawsAny() {
		d.gone = make(chan struct{})
	}
	return d
}

// toRepeat returns the next draft to send again; nil if there is none.
func (c *Core) toRepeat() *Transaction {
	for len(c.repeats) > 0 {
		d := c.repeats[0]
		if c.repeats = c.repeats[1:]; !d.doomed { // a doomed draft ends with its predecessor
			return c.sends(d)
		}
	}
	return nil
}

// isPending reports whether a draft stays in flight after an answer.
func (c *Core) isPending(d *Transaction, res controlplane.Result) bool {
	switch {
	case d.doomed:
		return false
	case res.Committed:
		if len(d.after) > 0 {
			// The predecessors committed too, at an unknown revision.
			d.early = &res
		}
		return len(d.after) > 0
	case res.Read != nil || !d.follows || d.settled:
		return false
	}
	// It may have overtaken a predecessor. That one is there by now, unless it was not answered. So
	// the draft is sent again at once, and once more when the fate of the predecessor is known.
	d.shut()
	d.returned = true
	if d.repeated && len(d.after) > 0 || slices.ContainsFunc(d.after, func(h *Transaction) bool { return !h.open && !slices.Contains(c.repeats, h) }) {
		return true
	}
	c.repeat(d)
	return true
}

func (c *Core) repeat(d *Transaction) {
	d.repeated = true
	c.repeats = append(c.repeats, d)
}

// shut lets no draft queue behind this one or its successors.
func (d *Transaction) shut() {
	d.open = false
	for _, x := range d.before {
		x.shut()
	}
}

// answered removes a draft from the order of those that draw on pools. If it did not commit, its
// successors will not either.
func (c *Core) answered(d *Transaction, committed bool, revision int64) {
	switch {
	case committed && d.DrawsAny():
		c.depth.grow()
	case !committed && !d.doomed && (d.follows || len(d.before) > 0):
		c.depth = depth{most: max(1, c.depth.most/2)}
	}
	for _, h := range d.after {
		h.before = except(h.before, d)
	}
	behind := d.before
	d.after, d.before = nil, nil
	for _, x := range behind {
		if x.after = except(x.after, d); !committed {
			x.doom()
		}
	}
	for _, x := range behind {
		switch {
		case !slices.Contains(c.inFlight, x):
			// It was answered with another of its predecessors.
		case x.doomed && x.returned:
			c.repeats = except(c.repeats, x)
			c.Done(x, controlplane.Result{Revision: revision}, nil, c.now)
		case len(x.after) > 0:
		case x.early != nil:
			c.Done(x, *x.early, nil, c.now)
		case x.returned && !slices.Contains(c.repeats, x):
			c.repeat(x)
		}
	}
}

func except(drafts []*Transaction, d *Transaction) []*Transaction {
	return slices.DeleteFunc(drafts, func(x *Transaction) bool { return x == d })
}

// doom marks a draft and its successors as certain to be refused.
func (d *Transaction) doom() {
	d.doomed, d.open = true, false
	for _, x := range d.before {
		x.doom()
	}
}

// grow counts a committed transaction.
func (d *depth) grow() {
	if d.committed++; d.committed >= calm && d.most < deepest {
		*d = depth{most: d.most + 1}
	}
}

// isInVain reports whether a draft was refused because of its predecessors, and not its contents.
func (d *Transaction) isInVain(res controlplane.Result) bool {
	return d.doomed || d.follows && res.Read == nil
}
