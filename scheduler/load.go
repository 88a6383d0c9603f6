package scheduler

import (
	"time"

	"github.com/escher-sched/escher/controlplane"
	"github.com/escher-sched/escher/controlplane/cluster"
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
