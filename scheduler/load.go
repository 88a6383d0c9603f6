package scheduler

import (
	"time"

	"github.com/escher-sched/escher/controlplane"
	"github.com/escher-sched/escher/controlplane/cluster"
)

// ApplyUpdate takes in an update of a list-watch, which may be a part of a listing:
// until the last one came, Next must not be called, for the view is none that ever was.
// It uses what the update has, and returns before that ends.
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

// loadPart applies a part of the first listing. What there is most of it does not look at:
// without the rest, much of that seems to want something done.
func (c *Core) loadPart(events []controlplane.Event) {
	for i := range events {
		key, changed := c.apply(&events[i])
		switch key.Kind {
		case controlplane.Tasks:
			// Statuses and bindings came before: it waits, or they are gone.
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
