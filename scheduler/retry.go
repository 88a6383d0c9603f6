package scheduler

import (
	"github.com/escher-sched/escher/controlplane/cluster"
)

// postponement is a task to recheck at a time, in Unix nanoseconds: it must not be bound before, or
// its deadline passes then and another scheduler places it. The earliest is first in the heap.
type postponement struct {
	at int64
	id cluster.ID
}

// Before makes postponement an element of a heap.
func (p postponement) Before(q postponement) bool {
	return p.at < q.at || p.at == q.at && compareID(p.id, q.id) < 0
}

// Placed makes postponement an element of a heap, from which only the first is removed.
func (postponement) Placed(int) {}

// postpone reports whether a task must not be bound yet, because its last attempt failed and must
// not burden others. The task is rechecked when it may be bound.
func (c *Core) postpone(t *cluster.Task) bool {
	if t.Status.V == nil || t.Status.V.Retry <= c.now.UnixNano() {
		return false
	}
	c.recheckAt(t.ID, t.Status.V.Retry)
	return true
}

// recheckAt rechecks a task at a time, in Unix nanoseconds, instead of at an earlier call's.
func (c *Core) recheckAt(id cluster.ID, at int64) {
	if c.awaited[id] != at {
		c.awaited[id] = at
		c.postponed.Push(postponement{at, id})
	}
}

// resume rechecks the tasks whose time has come.
func (c *Core) resume() {
	for len(c.postponed) > 0 && c.postponed[0].at <= c.now.UnixNano() {
		x := c.postponed.Pop()
		if c.awaited[x.id] != x.at {
			continue // it was postponed again
		}
		delete(c.awaited, x.id)
		if t := c.view.Task(x.id); t != nil {
			c.touchTask(t)
		}
	}
}

// resumes is when the next postponed task is rechecked, in Unix nanoseconds; 0 means none.
func (c *Core) resumes() int64 {
	if len(c.postponed) == 0 {
		return 0
	}
	return c.postponed[0].at
}
