package queue

import "time"

// expiring is an entry with a deadline, for a heap with the earliest first.
type expiring struct{ *Entry }

// Before makes expiring an element of heap.Heap.
func (e expiring) Before(f expiring) bool { return e.Deadline < f.Deadline }

// Placed makes expiring an element of heap.Heap.
func (e expiring) Placed(at int) { e.due = int32(at) }

// Deadline is the earliest deadline in the queue, in Unix nanoseconds; 0 means none.
func (q *Queue) Deadline() int64 {
	if len(q.deadlines) == 0 {
		return 0
	}
	return q.deadlines[0].Deadline
}

// Overdue returns the entry with the earliest deadline, if that has passed; nil if none has.
func (q *Queue) Overdue(now time.Time) *Entry {
	if at := q.Deadline(); at == 0 || at > now.UnixNano() {
		return nil
	}
	return q.deadlines[0].Entry
}

// remind registers the deadline of an entry.
func (q *Queue) remind(e *Entry) {
	if e.Deadline != 0 {
		q.deadlines.Push(expiring{e})
	}
}

// unremind removes it.
func (q *Queue) unremind(e *Entry) {
	if e.Deadline != 0 {
		q.deadlines.Remove(int(e.due))
	}
}
