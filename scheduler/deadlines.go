package scheduler

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

// failOverdue moves entries past their deadline from the queue to the tasks to end.
func (c *Core) failOverdue() {
	for at := c.queue.deadline(); at != 0 && at <= c.now.UnixNano(); at = c.queue.deadline() {
		e := c.queue.deadlines[0].Entry
		c.queue.take(e)
		if t := c.view.Task(e.id); t != nil {
			c.tasks.push(t)
		}
	}
}

// earlier returns the earlier of two times, where 0 means never.
func earlier(a, b int64) int64 {
	if a == 0 || b != 0 && b < a {
		return b
	}
	return a
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
