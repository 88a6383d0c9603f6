package scheduler

import (
	"fmt"
	"time"

	"github.com/escher-sched/escher/controlplane/cluster"
	"github.com/escher-sched/escher/types"
)

// retry has a task wait for another attempt that has failed by status s, if it is to have
// one and there is time for it before its deadline.
func (c *Core) retry(t *cluster.Task, s *types.Status) {
	task, failures := t.Info.V, failuresOf(t.Status.V)+1
	if s.Phase != types.Failed || task == nil || task.Stop != nil || failures > task.Retries {
		return
	}
	at := c.now.Add(types.RetryDelay(failures, time.Duration(s.Ended-s.Started))).UnixNano()
	if task.Deadline != 0 && task.Deadline <= at {
		return
	}
	if s.Reason == "" {
		s.Reason = fmt.Sprintf("exit code %d", s.ExitCode)
	}
	s.Reason = types.CutReason(fmt.Sprintf("failure %d: %s", failures, s.Reason))
	s.Phase, s.Retry = types.Pending, at
}

// failuresOf returns how many attempts of a task failed, as its status says.
func failuresOf(s *cluster.StatusValue) int {
	if s == nil {
		return 0
	}
	return s.Failures
}

// postponement is a task that waits until it may be bound again, at a time in Unix nanoseconds.
// The earliest one comes first.
type postponement struct {
	at int64
	id cluster.ID
}

// Before makes it an element of a heap.
func (p postponement) Before(q postponement) bool {
	return p.at < q.at || p.at == q.at && compareID(p.id, q.id) < 0
}

// Placed makes it an element of a heap, from which only the first one is taken.
func (postponement) Placed(int) {}

// postpone reports whether a task may not be bound yet, because its last attempt failed
// and others are not to have to bear it. It is looked at again when it may.
func (c *Core) postpone(t *cluster.Task) bool {
	if t.Status.V == nil || t.Status.V.Retry <= c.now.UnixNano() {
		return false
	}
	if x := (postponement{t.Status.V.Retry, t.ID}); c.awaited[x.id] != x.at {
		c.awaited[x.id] = x.at
		c.postponed.Push(x)
	}
	return true
}

// resume queues the tasks that may be bound again by now.
func (c *Core) resume() {
	for len(c.postponed) > 0 && c.postponed[0].at <= c.now.UnixNano() {
		x := c.postponed.Pop()
		if c.awaited[x.id] != x.at {
			continue // it was postponed anew
		}
		delete(c.awaited, x.id)
		if t := c.view.Task(x.id); t != nil {
			c.touchTask(t)
		}
	}
}

// resumes is when the next task may be bound again, in Unix nanoseconds; 0 if none waits
// for that.
func (c *Core) resumes() int64 {
	if len(c.postponed) == 0 {
		return 0
	}
	return c.postponed[0].at
}
