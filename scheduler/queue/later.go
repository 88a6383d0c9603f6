package queue

import (
	"time"

	"github.com/escher-sched/escher/controlplane/cluster"
	"github.com/escher-sched/escher/controlplane/heap"
)

// Later holds tasks to recheck at a time: they must not be bound before, or their deadline passes
// then and another scheduler places them.
type Later struct {
	// times may include tasks that no longer wait; at has the time of each, in Unix nanoseconds.
	times heap.Heap[recheck]
	at    map[cluster.ID]int64
}

// recheck is an element of Later. The earliest is first in the heap.
type recheck struct {
	at int64
	id cluster.ID
}

// Before makes recheck an element of a heap.
func (p recheck) Before(q recheck) bool {
	return p.at < q.at || p.at == q.at && p.id.Compare(q.id) < 0
}

// Placed makes recheck an element of a heap, from which only the first is removed.
func (recheck) Placed(int) {}

// NewLater returns an empty Later.
func NewLater() *Later { return &Later{at: make(map[cluster.ID]int64)} }

// Len returns the number of tasks.
func (l *Later) Len() int { return len(l.at) }

// Set sets when to recheck a task, in Unix nanoseconds, instead of at an earlier call's time.
func (l *Later) Set(id cluster.ID, at int64) {
	if l.at[id] != at {
		l.at[id] = at
		l.times.Push(recheck{at, id})
	}
}

// Forget removes a task.
func (l *Later) Forget(id cluster.ID) { delete(l.at, id) }

// Due removes and returns a task whose time has come; false if there is none.
func (l *Later) Due(now time.Time) (cluster.ID, bool) {
	for len(l.times) > 0 && l.times[0].at <= now.UnixNano() {
		x := l.times.Pop()
		if l.at[x.id] == x.at { // otherwise it was set again, or forgotten
			delete(l.at, x.id)
			return x.id, true
		}
	}
	return cluster.ID{}, false
}

// Next is the time of the next task, in Unix nanoseconds; 0 means there is none.
func (l *Later) Next() int64 {
	if len(l.times) == 0 {
		return 0
	}
	return l.times[0].at
}
