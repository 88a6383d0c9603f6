package scheduler

import (
	"maps"
	"slices"

	"github.com/escher-sched/escher/controlplane"
	"github.com/escher-sched/escher/controlplane/cluster"
	"github.com/escher-sched/escher/controlplane/grants"
	"github.com/escher-sched/escher/scheduler/draft"
	"github.com/escher-sched/escher/types"
)

// settleBindings adds the actions that bindings need to the draft: see draft.ActionFor.
func (c *Core) settleBindings(d *Transaction) {
	var later []*cluster.Binding
	c.bindings.Drain(func(b *cluster.Binding) bool {
		if d.closed || d.Len() >= 2*c.batch {
			return false
		}
		t := c.view.Task(b.Task.ID)
		if t == nil || b.Gone() || !c.division.Settles(t) {
			return true
		}
		c.deciding = b
		v := draft.ActionFor(t, b)
		switch {
		case v == draft.NoAction || c.waitFor(d, v, t, b):
			return true
		case d.Has(t):
			later = append(later, b)
			return true
		case v == draft.EndLost && !c.loss.May(b, len(c.nodes.All()), c.now):
			return true
		}
		return c.mayJoin(d, t) && d.Act(v, t, b, c.now)
	})
	for _, b := range later {
		c.bindings.Push(b)
	}
}

// mayJoin reports whether a decision about a task may join the draft. A task in alone needs an
// empty draft, and closes it.
func (c *Core) mayJoin(d *Transaction, t *cluster.Task) bool {
	_, alone := c.alone[t.ID]
	if !alone {
		return true
	}
	if !d.Empty() {
		return false
	}
	d.closed = true
	return true
}

// waitFor reports whether something that an action changes is in flight; the binding is then
// rechecked later.
func (c *Core) waitFor(d *Transaction, v draft.Action, t *cluster.Task, b *cluster.Binding) bool {
	if c.whenUnlocked(t, b) {
		return true
	}
	if v != draft.EndExited && v != draft.EndLost {
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
		c.stuck.Push(b)
	}
	return allocated.Unread()
}

// cancelTasks ends tasks that were stopped, or whose deadline passed, while they waited.
func (c *Core) cancelTasks(d *Transaction) {
	c.tasks.Drain(func(t *cluster.Task) bool {
		if d.closed {
			return false
		}
		c.deciding = t
		if c.view.Task(t.ID) != t || !c.view.Visible(t) || t.Info.V.Stop == nil && !draft.IsOverdue(t.Info.V, c.now) ||
			t.Phase() != types.Pending || len(t.Bindings) > 0 || !c.division.Settles(t) {
			return true
		}
		if c.whenUnlocked(t, t) || d.Has(t) {
			return true
		}
		return c.mayJoin(d, t) && d.Cancel(t)
	})
}

// failOverdue moves entries past their deadline from the queue to the tasks to end.
func (c *Core) failOverdue() {
	for e := c.queue.Overdue(c.now); e != nil; e = c.queue.Overdue(c.now) {
		c.queue.Take(e)
		if t := c.view.Task(e.ID); t != nil {
			c.tasks.Push(t)
		}
	}
}

// The allocated amounts of a pool have a key of their own. It outlives the pool as long as tasks
// hold any of it, and is deleted afterwards: there may be as many pools as there ever were jobs.

// isOver reports whether the account of a pool is obsolete.
func isOver(p *cluster.Pool) bool {
	return p.Info.Absent() && p.Allocated.V != nil && len(p.Allocated.V.Holds) == 0
}

// touchPool queues the account of a pool for deletion if it is obsolete.
func (c *Core) touchPool(rid types.ResourceID) {
	if p := c.view.Pools[rid]; p != nil && isOver(p) {
		c.accounts.Push(rid)
	}
}

// touchPools calls touchPool for every pool.
func (c *Core) touchPools() {
	for _, rid := range slices.SortedFunc(maps.Keys(c.view.Pools), compareResource) {
		c.touchPool(rid)
	}
}

// closeAccounts adds the deletion of obsolete accounts to the draft. It compares only the account:
// an absent account says the same, that nothing is allocated. So the pool may return meanwhile and
// needs no lock.
func (c *Core) closeAccounts(d *Transaction) {
	c.accounts.Drain(func(rid types.ResourceID) bool {
		p := c.view.Pools[rid]
		ns, name, _ := rid.Split()
		if p == nil || !isOver(p) || d.Considers(p) || !c.division.Owns(ns, "") || c.whenUnlocked(rid, rid) {
			return true
		}
		if d.closed || d.Len() >= 2*c.batch || !d.Room(1, 1) {
			return false
		}
		d.Decide(rid)
		key := controlplane.PoolKey(ns, name)
		d.Change.IfUnchanged(key, p.Allocated.Mod)
		d.Remove(key)
		return true
	})
}
