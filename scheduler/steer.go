package scheduler

import (
	"github.com/escher-sched/escher/controlplane/cluster"
	"github.com/escher-sched/escher/scheduler/queue"
	"github.com/escher-sched/escher/types"
)

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
