package scheduler

import "github.com/escher-sched/escher/controlplane/cluster"

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
	if c.accum.skipped {
		c.accumulateAgain()
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
