package scheduler

import (
	"slices"

	"github.com/escher-sched/escher/controlplane"
	"github.com/escher-sched/escher/controlplane/cluster"
	"github.com/escher-sched/escher/types"
)

// All that draws on one pool changes one key, so that its transactions can only be
// committed one after the other. Not to lose the time in between, the next one is decided
// and encoded while one is in flight, on what that leaves of the pool, and sent when it is
// answered: the revision of the answer is what the pool is compared with then. If it was
// not committed, or somebody else drew on the pool since, the next one is forgotten.

// chain is what a draft has to do with others that draw on the same pools.
type chain struct {
	// after is the draft in flight that this one assumes to be committed, before the
	// one that assumes that of this one; nil if there is none.
	after, before *Draft
	// assumed are the pools as after leaves them, and which compare is on each.
	assumed []assumption
	// sent tells that it is in flight.
	sent bool
}

type assumption struct {
	pool    *cluster.Pool
	compare int
}

// follow returns the draft in flight after which d, if that is after no other one than
// after, can draw on p; nil if there is none.
func (c *Core) follow(after *Draft, p *cluster.Pool) *Draft {
	h := c.drawing[p]
	if h == nil || !h.sent || h.before != nil || after != nil && after != h {
		return nil
	}
	return h
}

// mayDraw reports whether a draft can draw on p, and on the pools for which this was asked
// before with the same after: at first that of the draft.
func (c *Core) mayDraw(p *cluster.Pool, after **Draft) bool {
	if !c.locked(p) {
		return true
	}
	h := c.follow(*after, p)
	if h != nil {
		*after = h
	}
	return h != nil
}

// whenIdle looks at w once p is no longer in flight; false if a draft can draw on it: see
// mayDraw.
func (c *Core) whenIdle(p *cluster.Pool, after **Draft, w any) bool {
	return !c.mayDraw(p, after) && c.whenUnlocked(p, w)
}

// leftOf returns what is in use of a pool as the draft before leaves it, if d is to be
// after one, else as the view has it.
func (d *Draft) leftOf(p *cluster.Pool) (alloc *types.Allocated, after *Draft) {
	if d.core != nil && d.core.locked(p) {
		if h := d.core.follow(d.after, p); h != nil {
			return h.pools[p].alloc, h
		}
	}
	return p.Allocated.V, nil
}

// assume compares a pool with what the draft before makes of it.
func (d *Draft) assume(p *cluster.Pool) {
	ns, name, _ := p.ID.Split()
	compares, _ := d.Change.Size()
	d.assumed = append(d.assumed, assumption{p, compares})
	d.Change.If(controlplane.Compare{Key: controlplane.PoolKey(ns, name), Revision: -1})
}

// prepare keeps a draft until the one before it is answered.
func (c *Core) prepare(d *Draft) {
	d.after.before = d
	c.prepared = append(c.prepared, d)
}

// answered sends the draft behind one that was answered, or forgets it.
func (c *Core) answered(d *Draft, committed bool, revision int64) {
	x := d.before
	if x == nil {
		return
	}
	d.before, x.after = nil, nil
	c.prepared = slices.DeleteFunc(c.prepared, func(y *Draft) bool { return y == x })
	if !committed || slices.ContainsFunc(x.assumed, func(a assumption) bool { return a.pool.Allocated.Mod != revision }) {
		c.abandon(x, d)
		return
	}
	for _, a := range x.assumed {
		x.Change.Revise(a.compare, revision)
	}
	c.sendable = append(c.sendable, x)
}

// abandon forgets a draft that was not sent, behind one that was refused or is answered.
func (c *Core) abandon(x, d *Draft) {
	for _, a := range x.assumed {
		if c.isBehind(d) {
			c.drawing[a.pool] = d
		}
	}
	c.giveUp(x)
	c.unlock(x)
	c.lookAgain(x.held)
}

// isBehind reports whether a draft was refused by what is not seen yet.
func (c *Core) isBehind(d *Draft) bool {
	return slices.ContainsFunc(c.behind, func(b behind) bool { return b.draft == d })
}
