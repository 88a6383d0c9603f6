package scheduler

import (
	"slices"

	"github.com/escher-sched/escher/controlplane"
	"github.com/escher-sched/escher/controlplane/cluster"
	"github.com/escher-sched/escher/types"
)

// All that draws on one pool changes one key, so that its transactions can only be
// committed one after the other. Not to wait for the answer of each, some are in flight at
// once: a draft is decided on what the one before it leaves of the pool, and compares the
// value that this puts. The value carries the id of its transaction, so that nobody else
// puts the same: a draft is committed only if the one before it is, and nobody drew on the
// pool in between. They are sent in their order. One that overtakes another all the same
// is refused, as are those behind it, and sent again as it is.

// chain is what a draft has to do with others that draw on the same pools.
type chain struct {
	// after are the drafts that are not answered and that this one assumes to be
	// committed, before those that assume that of this one.
	after, before []*Draft
	// follows tells that there were any that it is after.
	follows bool
	// open tells that another one may be behind it: it is in flight, and nothing was
	// refused yet that it is after.
	open bool
	// doomed tells that one that it is after was refused for good, as it will be.
	doomed bool
	// returned tells that it is to be sent again, repeated that it was; settled that all
	// that it is after were answered when it was sent.
	returned, repeated, settled bool
	// early is the answer that it was committed, if it came before that to one that it
	// is after.
	early *controlplane.Result
	// gone is closed when it is on its way; nil if none can be behind it.
	gone chan struct{}
}

// deepest is how many transactions that draw on one pool are in flight at most: the store
// has one to do while the next one comes. The more there are, the nearer to one another
// they are sent, and the more overtake one another: one of 30 with two, one of four with
// four, which are no faster.
const deepest = 2

// calm is after how many committed transactions that draw on pools one more may be in
// flight again: if one of them is refused for good all those behind it are, so that they
// are fewer then.
const calm = 8

// depth bounds how many transactions that draw on one pool are in flight at present.
type depth struct{ most, committed int }

// follow returns the draft in flight behind which another one can draw on p; nil if there
// is none.
func (c *Core) follow(p *cluster.Pool) *Draft {
	line := c.drawing[p]
	if len(line) == 0 || len(line) >= c.depth.most || !line[len(line)-1].open {
		return nil
	}
	return line[len(line)-1]
}

// mayDraw reports whether a draft can draw on p.
func (c *Core) mayDraw(p *cluster.Pool) bool { return !c.locked(p) || c.follow(p) != nil }

// whenIdle looks at w once a draft can draw on p; false if one can.
func (c *Core) whenIdle(p *cluster.Pool, w any) bool { return !c.mayDraw(p) && c.whenUnlocked(p, w) }

// leftOf returns what is in use of a pool: as the draft behind which d can draw on it
// leaves it, if there is one, else as the view has it.
func (d *Draft) leftOf(p *cluster.Pool) (alloc *types.Allocated, after *Draft) {
	if d.core != nil && d.core.locked(p) {
		if h := d.core.follow(p); h != nil {
			return h.pools[p].alloc, h
		}
	}
	return p.Allocated.V, nil
}

// assume compares a pool with what the draft before makes of it.
func (d *Draft) assume(x *drawn) {
	if d.follows = true; !slices.Contains(d.after, x.after) {
		d.after = append(d.after, x.after)
	}
	ns, name, _ := x.pool.ID.Split()
	d.Change.If(controlplane.Compare{
		Key: controlplane.PoolKey(ns, name), Target: controlplane.Value, Content: string(x.after.pools[x.pool].value),
	})
}

// queueUp puts a draft behind those that it is after.
func (c *Core) queueUp(d *Draft) {
	for _, h := range d.after {
		h.before = append(h.before, d)
	}
}

// sends notes that a draft is sent, for the first time or again.
func (c *Core) sends(d *Draft) *Draft {
	d.open, d.returned, d.settled = true, false, len(d.after) == 0
	if len(d.drawn) > 0 {
		d.gone = make(chan struct{})
	}
	return d
}

// toRepeat returns the next draft to be sent again, nil if there is none.
func (c *Core) toRepeat() *Draft {
	for len(c.repeats) > 0 {
		d := c.repeats[0]
		if c.repeats = c.repeats[1:]; !d.doomed { // else it ends with the one it is behind
			return c.sends(d)
		}
	}
	return nil
}

// isPending reports whether an answer does not end it with a draft yet.
func (c *Core) isPending(d *Draft, res controlplane.Result) bool {
	switch {
	case d.doomed:
		return false
	case res.Committed:
		if len(d.after) > 0 {
			// Those were committed, too, but it is not known at which revision.
			d.early = &res
		}
		return len(d.after) > 0
	case res.Read != nil || !d.follows || d.settled:
		return false
	}
	// It may have overtaken one that it is after. That is there by now, unless it was not
	// answered: so it is sent again at once, and then once it is known what became of that.
	d.shut()
	d.returned = true
	if d.repeated && len(d.after) > 0 || slices.ContainsFunc(d.after, func(h *Draft) bool { return !h.open && !slices.Contains(c.repeats, h) }) {
		return true
	}
	c.repeat(d)
	return true
}

func (c *Core) repeat(d *Draft) {
	d.repeated = true
	c.repeats = append(c.repeats, d)
}

// shut lets no other one be behind a draft, nor behind those that are.
func (d *Draft) shut() {
	d.open = false
	for _, x := range d.before {
		x.shut()
	}
}

// answered takes a draft out of the order of those that draw on pools. If it was not
// committed, those behind it will not be.
func (c *Core) answered(d *Draft, committed bool, revision int64) {
	switch {
	case committed && len(d.drawn) > 0:
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
			// It was answered with one of these that it is behind as well.
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

func except(drafts []*Draft, d *Draft) []*Draft {
	return slices.DeleteFunc(drafts, func(x *Draft) bool { return x == d })
}

// doom notes that a draft will be refused, and all behind it.
func (d *Draft) doom() {
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

// isInVain reports whether a draft was refused for what it is after, and not for what is
// in it.
func (d *Draft) isInVain(res controlplane.Result) bool {
	return d.doomed || d.follows && res.Read == nil
}
