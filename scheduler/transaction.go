package scheduler

import (
	"slices"

	"github.com/escher-sched/escher/controlplane"
	"github.com/escher-sched/escher/controlplane/cluster"
	"github.com/escher-sched/escher/scheduler/draft"
	"github.com/escher-sched/escher/scheduler/queue"
)

// Transaction is a draft of a Core: with what it locks while it is in flight, and its place in the
// order of those that draw on the same pools.
type Transaction struct {
	*draft.Draft
	chain
	// collecting is the grant of what collects, if the draft changes it.
	collecting *collecting
	// whole reports whether the grant last collected for holds all that it wants.
	whole bool
	// of is what the draft collects for, hands over, or makes return what it has; nil if there is none.
	of *claimant
	// kept are the nodes of a collection.
	kept    []*cluster.Node
	entries []*queue.Entry
	// last is the node of the last task placed; nil if unknown.
	last   *cluster.Node
	closed bool
}

// newDraft makes a draft of the core.
func (c *Core) newDraft(limits controlplane.Limits, batch uint64) *Transaction {
	expected := min(c.queue.ToPlace()+c.bindings.Len()+c.tasks.Len(), c.batch)
	return &Transaction{Draft: draft.NewFor(&c.hooks, c.view, limits, batch, expected)}
}

// draftHooks are the hooks of the core's drafts.
func (c *Core) draftHooks() draft.Hooks {
	return draft.Hooks{
		Keys: c.nodes.Keys,
		Behind: func(p *cluster.Pool) *draft.Draft {
			if h := c.follow(p); h != nil {
				return h.Draft
			}
			return nil
		},
		Noted:   c.nodes.NoteOf,
		Cordons: c.nodes.Cordons,
	}
}

// lock prevents decisions about everything in the draft.
func (c *Core) lock(d *Transaction) {
	c.queueUp(d)
	for n := range d.Nodes() {
		c.nodes.SetLocked(n, true)
	}
	for _, x := range d.Decided() {
		if _, ok := c.locks[x]; !ok {
			c.locks[x] = nil
		}
		if p, ok := x.(*cluster.Pool); ok {
			c.drawing[p] = append(c.drawing[p], d)
		}
	}
	c.keep(d)
}

// unlock releases the locks of the draft and rechecks what waited for them.
func (c *Core) unlock(d *Transaction) {
	for n := range d.Nodes() {
		c.nodes.SetLocked(n, false)
		s := c.state(n)
		waiters := s.waiters
		s.waiters = nil
		c.lookAgain(waiters)
	}
	for _, x := range d.Decided() {
		if p, ok := x.(*cluster.Pool); ok {
			if line := except(c.drawing[p], d); len(line) > 0 {
				// Other drafts still draw on the pool; new ones may follow behind them.
				c.drawing[p] = line
				waiters := c.locks[x]
				c.locks[x] = nil
				c.lookAgain(waiters)
				continue
			}
			delete(c.drawing, p)
		}
		waiters := c.locks[x]
		delete(c.locks, x)
		c.lookAgain(waiters)
	}
	c.unkeep(d)
	c.queue.Unstall()
	if c.collects.skipped {
		c.collectAgain()
	}
}

func (c *Core) lookAgain(waiters []any) {
	for _, w := range waiters {
		c.again(w)
	}
}

// locked reports whether x is in flight.
func (c *Core) locked(x any) bool {
	if n, ok := x.(*cluster.Node); ok {
		return c.nodes.Locked(n)
	}
	_, ok := c.locks[x]
	return ok
}

// whenUnlocked rechecks w once x is no longer in flight; false if x is not in flight.
func (c *Core) whenUnlocked(x, w any) bool {
	if n, ok := x.(*cluster.Node); ok {
		locked := c.nodes.Locked(n)
		if locked {
			s := c.state(n)
			s.waiters = append(s.waiters, w)
		}
		return locked
	}
	waiters, ok := c.locks[x]
	if ok {
		c.locks[x] = append(waiters, w)
	}
	return ok
}

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
