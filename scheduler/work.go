package scheduler

import (
	"github.com/escher-sched/escher/controlplane/cluster"
	"github.com/escher-sched/escher/scheduler/grants"
	"github.com/escher-sched/escher/types"
)

// settleBindings adds the actions that bindings need to the draft: see judge.
func (c *Core) settleBindings(d *Draft) {
	var later []*cluster.Binding
	c.bindings.drain(func(b *cluster.Binding) bool {
		if d.closed || d.items >= 2*c.batch {
			return false
		}
		t := c.view.Task(b.Task.ID)
		if t == nil || b.Gone() || !c.settles(t) {
			return true
		}
		c.deciding = b
		v := judge(t, b)
		switch {
		case v == nothing || c.waitFor(d, v, t, b):
			return true
		case d.has(t):
			later = append(later, b)
			return true
		case v == lose && !c.mayLose(b):
			return true
		}
		return c.mayJoin(d, t) && d.act(v, t, b)
	})
	for _, b := range later {
		c.bindings.push(b)
	}
}

// mayJoin reports whether a decision about a task may join the draft. A task in alone needs an
// empty draft, and closes it.
func (c *Core) mayJoin(d *Draft, t *cluster.Task) bool {
	_, alone := c.alone[t.ID]
	if !alone {
		return true
	}
	if !d.empty() {
		return false
	}
	d.closed = true
	return true
}

// waitFor reports whether something that a verdict changes is in flight; the binding is then
// rechecked later.
func (c *Core) waitFor(d *Draft, v verdict, t *cluster.Task, b *cluster.Binding) bool {
	if c.whenUnlocked(t, b) {
		return true
	}
	if v != release && v != lose {
		return false
	}
	if c.whenUnlocked(b.Node, b) || c.whenKnown(b.Node.Allocated, b) {
		return true
	}
	for _, h := range b.Info.V.Holds {
		if h.Cluster {
			if pool := c.view.PoolOf(h.Resource); c.whenIdle(pool, b) || c.whenKnown(pool.Allocated, b) {
				return true
			}
		}
		r := c.grantBehind(h.Resource)
		if r == nil {
			continue
		}
		if c.whenUnlocked(r, b) {
			return true
		}
		if grants.ReturnsDrawn(r, b.Node.Name) {
			// Drawn amounts return to where the grant had them from.
			base := grants.Base(r.Grant.V, b.Node.Name, h)
			if base.Cluster && c.whenIdle(c.view.PoolOf(base.Resource), b) {
				return true
			}
		}
	}
	return false
}

// whenKnown rechecks b once the allocated amounts are known; false if they are known.
func (c *Core) whenKnown(allocated cluster.Cell[types.Allocated], b *cluster.Binding) bool {
	if allocated.Unread() {
		c.stuck.push(b)
	}
	return allocated.Unread()
}

// cancelTasks ends tasks that were stopped, or whose deadline passed, while they waited.
func (c *Core) cancelTasks(d *Draft) {
	c.tasks.drain(func(t *cluster.Task) bool {
		if d.closed {
			return false
		}
		c.deciding = t
		if c.view.Task(t.ID) != t || !c.view.Visible(t) || t.Info.V.Stop == nil && !isOverdue(t.Info.V, c.now) ||
			t.Phase() != types.Pending || len(t.Bindings) > 0 || !c.settles(t) {
			return true
		}
		if c.whenUnlocked(t, t) || d.has(t) {
			return true
		}
		return c.mayJoin(d, t) && d.cancel(t)
	})
}

// failOverdue moves entries past their deadline from the queue to the tasks to end.
func (c *Core) failOverdue() {
	for e := c.queue.Overdue(c.now); e != nil; e = c.queue.Overdue(c.now) {
		c.queue.Take(e)
		if t := c.view.Task(e.ID); t != nil {
			c.tasks.push(t)
		}
	}
}
