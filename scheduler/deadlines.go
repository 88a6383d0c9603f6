package scheduler

// expiring is an entry that has a deadline. The earliest one comes first.
type expiring struct{ *entry }

// Before makes it an element of a heap.
func (e expiring) Before(f expiring) bool { return e.deadline < f.deadline }

// Placed makes it an element of a heap.
func (e expiring) Placed(at int) { e.due = int32(at) }

// deadline is the earliest one of what waits, in Unix nanoseconds; 0 if there is none.
func (q *queue) deadline() int64 {
	if len(q.deadlines) == 0 {
		return 0
	}
	return q.deadlines[0].deadline
}

// failOverdue takes what has waited beyond its deadline out of the queue, to be
// ended.
func (c *Core) failOverdue() {
	for at := c.queue.deadline(); at != 0 && at <= c.now.UnixNano(); at = c.queue.deadline() {
		e := c.queue.deadlines[0].entry
		c.queue.take(e)
		if t := c.view.Task(e.id); t != nil {
			c.tasks.push(t)
		}
	}
}

// earlier returns the earlier of two moments, of which 0 is never.
func earlier(a, b int64) int64 {
	if a == 0 || b != 0 && b < a {
		return b
	}
	return a
}

// remind notes when an entry must have been placed.
func (q *queue) remind(e *entry) {
	if e.deadline != 0 {
		q.deadlines.Push(expiring{e})
	}
}

// unremind forgets that.
func (q *queue) unremind(e *entry) {
	if e.deadline != 0 {
		q.deadlines.Remove(int(e.due))
	}
}
