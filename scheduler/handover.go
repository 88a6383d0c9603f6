package scheduler

import (
	"maps"
	"slices"

	"github.com/escher-sched/escher/controlplane/cluster"
	"github.com/escher-sched/escher/scheduler/draft"
	"github.com/escher-sched/escher/types"
)

// touchScheduler rechecks what changed hands since a scheduler came or went. There may be millions
// of tasks, and others wait for it.
func (c *Core) touchScheduler(name string) {
	moved, named := c.division.Changed(name)
	if len(moved) == 0 && !named {
		return
	}
	var others []*cluster.Task
	for t := range c.view.Tasks() {
		if _, ok := moved[t.ID.Namespace]; !ok && !(named && t.Info.V != nil && t.Info.V.Scheduler == name) || c.isSettled(t) {
			continue
		}
		if !c.waitsOnly(t) {
			others = append(others, t)
			continue
		}
		c.touchTask(t)
	}
	c.touchInOrder(others)
	for _, id := range slices.SortedFunc(maps.Keys(c.view.Reservations), cluster.ID.Compare) {
		if _, ok := moved[id.Namespace]; ok {
			c.touchReservation(c.view.Reservations[id])
		}
	}
	c.touchPools()
}

// isSettled reports whether a task needs no action by any scheduler: it has ended, or runs.
func (c *Core) isSettled(t *cluster.Task) bool {
	if t.Phase() == types.Pending || t.Phase().Ended() != (len(t.Bindings) == 0) {
		return false
	}
	return !slices.ContainsFunc(t.Bindings, func(b *cluster.Binding) bool { return draft.ActionFor(t, b) != draft.NoAction })
}

// waitsOnly reports whether a task only waits for placement, so that the order of rechecks does not
// matter.
func (c *Core) waitsOnly(t *cluster.Task) bool {
	return len(t.Bindings) == 0 && t.Info.V != nil && t.Phase() == types.Pending && t.Info.V.Stop == nil &&
		!draft.IsOverdue(t.Info.V, c.now) && !t.Info.V.Accumulate
}

// touchInOrder rechecks tasks in a deterministic order.
func (c *Core) touchInOrder(tasks []*cluster.Task) {
	slices.SortFunc(tasks, func(a, b *cluster.Task) int { return a.ID.Compare(b.ID) })
	for _, t := range tasks {
		c.touchTask(t)
	}
}
