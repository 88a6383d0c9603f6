package scheduler

import (
	"maps"
	"slices"
	"time"

	"github.com/escher-sched/escher/controlplane"
	"github.com/escher-sched/escher/controlplane/cluster"
	"github.com/escher-sched/escher/scheduler/draft"
	"github.com/escher-sched/escher/scheduler/queue"
	"github.com/escher-sched/escher/types"
)

// ApplyUpdate applies an update of a list-watch, which may be a part of a listing. Do not call Next
// before the last part: until then the view shows a state that never existed. It does not use the
// content of the update after it returns.
func (c *Core) ApplyUpdate(u controlplane.Update, now time.Time) {
	first := c.view.Revision == 0
	switch {
	case u.More && first:
		c.now = now
		c.loadPart(u.Events)
		return
	case u.More:
		c.now = now
		c.applyEvents(u.Events)
		return
	}
	events := u.Events
	if u.Has != nil {
		events = append(events, c.view.Gone(u.Revision, u.Has)...)
	}
	c.Apply(controlplane.Batch{Revision: u.Revision, Events: events}, now)
	if first {
		for t := range c.view.Tasks() {
			c.touchTask(t)
		}
	}
}

// loadPart applies a part of the first listing. It skips rechecks for the most frequent kinds:
// without the rest, many of them seem to need work.
func (c *Core) loadPart(events []controlplane.Event) {
	for i := range events {
		key, changed := c.apply(&events[i])
		switch key.Kind {
		case controlplane.Tasks:
			// Statuses and bindings came before: the task waits, or they are gone.
			if t := c.view.Task(cluster.ID{Namespace: key.Namespace, ID: key.ID}); t != nil {
				c.fold(t)
			}
		case controlplane.Statuses, controlplane.Bindings, controlplane.Reports:
		default:
			if changed {
				c.touch(key)
			}
		}
	}
	c.deciding = nil
}

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
