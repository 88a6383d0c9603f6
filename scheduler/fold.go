package scheduler

import (
	"github.com/escher-sched/escher/controlplane/cluster"
	"github.com/escher-sched/escher/scheduler/draft"
	"github.com/escher-sched/escher/scheduler/queue"
	"github.com/escher-sched/escher/types"
)

// muchToPlace is the number of ready entries above which new tasks are compacted at once, as their
// turn is far away.
const muchToPlace = 1 << 14

// restQueued compacts a queued task that will wait: for a resource that it lacks, or behind many
// others.
func (c *Core) restQueued(t *cluster.Task, k queue.Key) {
	switch s := c.queue.Entry(k).Shape; {
	case !s.IsReady():
		c.restWaiting(s)
	case c.queue.ToPlace() > muchToPlace:
		c.fold(t)
	}
}

// restWaiting compacts a waiting shape of one task. Of several tasks, every try reads the first.
func (c *Core) restWaiting(s *queue.Shape) {
	if !c.keepsLittle() || s.Len() > 1 || s.Head().Reservation {
		return
	}
	if t := c.view.Task(s.Head().ID); t != nil {
		c.fold(t)
	}
	c.queue.Park(s)
}

// keepsLittle reports whether there are enough tasks to compact waiting ones.
func (c *Core) keepsLittle() bool { return c.folds && c.view.NumTasks() >= c.cfg.FoldFrom }

// fold compacts a task that only waits, or that this scheduler does not place: see
// cluster.View.Compact. A task with pending work stays as it is.
func (c *Core) fold(t *cluster.Task) {
	if x := t.Info.V; x != nil && c.keepsLittle() && x.Stop == nil && !x.Accumulate && t.Phase() == types.Pending && !draft.IsOverdue(x, c.now) && !c.locked(t) {
		c.view.Compact(t)
	}
}
