package scheduler

import "container/heap"

// deadlineHeap holds the entries that have a deadline, the earliest first.
type deadlineHeap []*entry

func (h deadlineHeap) Len() int           { return len(h) }
func (h deadlineHeap) Less(i, j int) bool { return h[i].deadline < h[j].deadline }
func (h deadlineHeap) Swap(i, j int) {
	h[i], h[j] = h[j], h[i]
	h[i].due, h[j].due = int32(i), int32(j)
}
func (h *deadlineHeap) Push(x any) {
	e := x.(*entry)
	e.due = int32(len(*h))
	*h = append(*h, e)
}
func (h *deadlineHeap) Pop() any {
	old := *h
	e := old[len(old)-1]
	old[len(old)-1] = nil
	*h = old[:len(old)-1]
	return e
}

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
		e := c.queue.deadlines[0]
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
		heap.Push(&q.deadlines, e)
	}
}

// unremind forgets that.
func (q *queue) unremind(e *entry) {
	if e.deadline != 0 {
		heap.Remove(&q.deadlines, int(e.due))
	}
}
