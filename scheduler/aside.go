package scheduler

import (
	"github.com/escher-sched/escher/controlplane"
	"github.com/escher-sched/escher/controlplane/cluster"
	"github.com/escher-sched/escher/scheduler/queue"
)

// aside are the keys set aside because a decision about them panicked, with the revision of their
// value. They count as unreadable until they change.
type aside map[string]int64

// apply applies an event to the view, without the value of a key that is set aside.
func (c *Core) apply(e *controlplane.Event) (key controlplane.Key, changed bool) {
	c.deciding = e
	if len(c.aside) > 0 {
		e = c.aside.without(e)
	}
	key, changed, err := c.view.Apply(*e)
	if err != nil {
		c.unread = append(c.unread, err)
	}
	return key, changed
}

// without returns an event without its value if that is set aside. A changed key is no longer set
// aside.
func (a aside) without(e *controlplane.Event) *controlplane.Event {
	mod, ok := a[e.Key]
	if !ok {
		return e
	}
	if mod != e.ModRevision || e.Delete {
		delete(a, e.Key)
		return e
	}
	event := *e
	event.Value = nil
	return &event
}

// suspect returns the key and value revision of the object under decision; ok is false if there is
// no particular one.
func (c *Core) suspect() (key string, mod int64, ok bool) {
	switch x := c.deciding.(type) {
	case *controlplane.Event:
		return x.Key, x.ModRevision, !x.Delete
	case *controlplane.Key:
		return c.suspectAt(*x)
	case *cluster.Binding:
		return controlplane.BindingKey(x.Node.Name, x.Task.ID.Namespace, x.Task.ID.ID, x.Number), x.Info.Mod, true
	case *cluster.Task:
		return controlplane.TaskKey(x.ID.Namespace, x.ID.ID), x.Info.Mod, true
	case *cluster.Reservation:
		return controlplane.ReservationKey(x.ID.Namespace, x.ID.ID), x.Info.Mod, true
	case *queue.Entry:
		if r := c.view.Reservations[x.ID]; x.Reservation && r != nil {
			return controlplane.ReservationKey(x.ID.Namespace, x.ID.ID), r.Info.Mod, true
		}
		if t := c.view.Task(x.ID); t != nil {
			return controlplane.TaskKey(x.ID.Namespace, x.ID.ID), t.Info.Mod, true
		}
	}
	return "", 0, false
}

// suspectAt is suspect for a changed key: it returns the binding, task or reservation of the key.
func (c *Core) suspectAt(k controlplane.Key) (key string, mod int64, ok bool) {
	id := cluster.ID{Namespace: k.Namespace, ID: k.ID}
	switch k.Kind {
	case controlplane.Tasks, controlplane.Statuses:
		if t := c.view.Task(id); t != nil {
			return controlplane.TaskKey(id.Namespace, id.ID), t.Info.Mod, true
		}
	case controlplane.Bindings, controlplane.Reports:
		if t := c.view.Task(id); t != nil {
			for _, b := range t.Bindings {
				if b.Node.Name == k.Node && b.Number == k.Attempt {
					return controlplane.BindingKey(k.Node, id.Namespace, id.ID, k.Attempt), b.Info.Mod, true
				}
			}
		}
	case controlplane.Reservations, controlplane.Grants:
		if r := c.view.Reservations[id]; r != nil {
			return controlplane.ReservationKey(id.Namespace, id.ID), r.Info.Mod, true
		}
	}
	return "", 0, false
}

// subject returns the key of the first task or reservation that a draft decides about; empty if
// there is none.
func (d *Transaction) subject() string {
	for _, x := range d.Decided() {
		switch x := x.(type) {
		case *cluster.Task:
			return controlplane.TaskKey(x.ID.Namespace, x.ID.ID)
		case *cluster.Reservation:
			return controlplane.ReservationKey(x.ID.Namespace, x.ID.ID)
		}
	}
	return ""
}
