package scheduler

import "time"

// expiring is an entry with a deadline, for a heap with the earliest first.
type expiring struct{ *Entry }

// Before makes expiring an element of heap.Heap.
func (e expiring) Before(f expiring) bool { return e.deadline < f.deadline }

// Placed makes expiring an element of heap.Heap.
func (e expiring) Placed(at int) { e.due = int32(at) }

// deadline is the earliest deadline in the queue, in Unix nanoseconds; 0 means none.
func (q *queue) deadline() int64 {
	if len(q.deadlines) == 0 {
		return 0
	}
	return q.deadlines[0].deadline
}

// overdue returns the entry with the earliest deadline, if that has passed; nil if none has.
func (q *queue) overdue(now time.Time) *Entry {
	if at := q.deadline(); at == 0 || at > now.UnixNano() {
		return nil
	}
	return q.deadlines[0].Entry
}

// remind registers the deadline of an entry.
func (q *queue) remind(e *Entry) {
	if e.deadline != 0 {
		q.deadlines.Push(expiring{e})
	}
}

// unremind removes it.
func (q *queue) unremind(e *Entry) {
	if e.deadline != 0 {
		q.deadlines.Remove(int(e.due))
	}
}
