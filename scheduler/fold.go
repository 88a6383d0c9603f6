package scheduler

import (
	"github.com/escher-sched/escher/controlplane/cluster"
	"github.com/escher-sched/escher/types"
)

// muchToPlace is how many tasks are to be placed when those that come are not looked at
// again soon.
const muchToPlace = 1 << 14

// restQueued keeps less of a task that was queued if it will wait: until there is more of
// what it lacks, or behind many.
func (c *Core) restQueued(t *cluster.Task, k entryKey) {
	switch s := c.queue.entry(k).shape; {
	case s.pos < 0:
		c.restWaiting(s)
	case c.queue.toPlace > muchToPlace:
		c.fold(t)
	}
}

// restWaiting keeps less of a shape that waits, if it has one task: of many, the first
// one is looked at each time that they are tried.
func (c *Core) restWaiting(s *shape) {
	if !c.keepsLittle() || len(s.entries) > 1 || s.head().bundles || s.unit {
		return
	}
	if t := c.view.Task(s.head().id); t != nil {
		c.fold(t)
	}
	c.queue.sleep(s)
}

// keepsLittle reports whether there are so many tasks that little is kept of those that
// wait.
func (c *Core) keepsLittle() bool { return c.folds && c.view.NumTasks() >= c.cfg.FoldFrom }

// fold folds a task that merely waits, or is not there for this scheduler: see
// cluster.View.Fold. What there is to be done for a task has it as it is.
func (c *Core) fold(t *cluster.Task) {
	if x := t.Info.V; x != nil && c.keepsLittle() && x.Stop == nil && !x.Accumulate && t.Phase() == types.Pending && !isOverdue(x, c.now) && !c.locked(t) {
		c.view.Fold(t)
	}
}
