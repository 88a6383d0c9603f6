package scheduler

import (
	"container/heap"
	"strconv"
	"strings"
	"time"

	"github.com/escher-sched/escher/controlplane/cluster"
	"github.com/escher-sched/escher/types"
)

// The queue holds what waits to be placed: tasks and reservations, by shape. All
// of one shape ask for the same, so that where one does not fit none does: a shape
// is tried by its head, and waits as a whole.
//
// A shape is ready (in the heap, by priority and age of its head), waiting (listed
// under each resource that it lacks, until there is more of one of them), or
// stalled (nodes it might fit are in flight).

// entry is one task or reservation that waits.
type entry struct {
	id        cluster.ID
	bundles   bool // a reservation
	priority  int
	submitted int64
	// deadline is when it fails if it still waits, in Unix nanoseconds; 0 is never.
	deadline  int64
	shape     *shape
	pos       int // in the heap of its shape
	due       int // in the heap of deadlines
	conflicts int
}

// before orders entries: the highest priority first, then the oldest, then by id so
// that the order is total.
func (e *entry) before(f *entry) bool {
	switch {
	case e.priority != f.priority:
		return e.priority > f.priority
	case e.submitted != f.submitted:
		return e.submitted < f.submitted
	case e.id.Namespace != f.id.Namespace:
		return e.id.Namespace < f.id.Namespace
	case e.id.ID != f.id.ID:
		return e.id.ID < f.id.ID
	}
	return e.bundles && !f.bundles
}

// shape is a set of entries that ask for the same.
type shape struct {
	key     string
	entries entryHeap
	pos     int // in the heap of ready shapes; -1 when not in it
	lacks   []types.ResourceID
	// cursor is where the next search begins, among all nodes.
	cursor int
	// seen is how much of the log of changed nodes was looked at when the
	// shape last failed; -1: all nodes must be looked at.
	seen int
	// until is the next moment at which more may be allowed; 0 is never.
	until int64
	// resolved are the needs of each alternative, as of the namespace's
	// revision.
	resolved   [][]cluster.Need
	resolvedAt int64
}

func (s *shape) head() *entry { return s.entries[0] }

type entryHeap []*entry

func (h entryHeap) Len() int           { return len(h) }
func (h entryHeap) Less(i, j int) bool { return h[i].before(h[j]) }
func (h entryHeap) Swap(i, j int) {
	h[i], h[j] = h[j], h[i]
	h[i].pos, h[j].pos = i, j
}
func (h *entryHeap) Push(x any) {
	e := x.(*entry)
	e.pos = len(*h)
	*h = append(*h, e)
}
func (h *entryHeap) Pop() any {
	old := *h
	e := old[len(old)-1]
	old[len(old)-1] = nil
	*h = old[:len(old)-1]
	return e
}

type shapeHeap []*shape

func (h shapeHeap) Len() int           { return len(h) }
func (h shapeHeap) Less(i, j int) bool { return h[i].head().before(h[j].head()) }
func (h shapeHeap) Swap(i, j int) {
	h[i], h[j] = h[j], h[i]
	h[i].pos, h[j].pos = i, j
}
func (h *shapeHeap) Push(x any) {
	s := x.(*shape)
	s.pos = len(*h)
	*h = append(*h, s)
}
func (h *shapeHeap) Pop() any {
	old := *h
	s := old[len(old)-1]
	old[len(old)-1] = nil
	*h = old[:len(old)-1]
	s.pos = -1
	return s
}

// queue is all that waits.
type queue struct {
	entries map[entryKey]*entry
	shapes  map[string]*shape
	ready   shapeHeap
	waiting map[types.ResourceID]map[*shape]struct{}
	stalled []*shape
	timers  timerHeap
	// deadlines are the entries that have one.
	deadlines deadlineHeap
}

type entryKey struct {
	id      cluster.ID
	bundles bool
}

func newQueue() *queue {
	return &queue{
		entries: make(map[entryKey]*entry),
		shapes:  make(map[string]*shape),
		waiting: make(map[types.ResourceID]map[*shape]struct{}),
	}
}

// add queues an entry under the key of its shape; one that is queued so already
// stays.
func (q *queue) add(e *entry, key string) {
	k := entryKey{e.id, e.bundles}
	if was := q.entries[k]; was != nil {
		if was.shape.key == key && was.priority == e.priority && was.submitted == e.submitted {
			return
		}
		q.remove(k)
	}
	q.entries[k] = e
	q.remind(e)
	s := q.shapes[key]
	if s == nil {
		s = &shape{key: key, pos: -1, seen: -1}
		q.shapes[key] = s
		e.shape = s
		heap.Push(&s.entries, e)
		heap.Push(&q.ready, s)
		return
	}
	e.shape = s
	heap.Push(&s.entries, e)
	switch {
	case s.pos >= 0:
		heap.Fix(&q.ready, s.pos)
	case s.until != 0:
		// Its alternatives may be allowed at another time.
		q.makeReady(s)
	}
}

// remove takes an entry out; none is success.
func (q *queue) remove(k entryKey) {
	e := q.entries[k]
	if e == nil {
		return
	}
	delete(q.entries, k)
	q.unremind(e)
	s := e.shape
	heap.Remove(&s.entries, e.pos)
	if len(s.entries) == 0 {
		q.drop(s)
		return
	}
	if s.pos >= 0 {
		heap.Fix(&q.ready, s.pos)
	}
}

// drop forgets a shape of which no entry is left. A ready one has lost its head, so
// its place in the heap must be taken away without comparing it.
func (q *queue) drop(s *shape) {
	delete(q.shapes, s.key)
	q.unwait(s)
	if s.pos < 0 {
		return
	}
	i, last := s.pos, len(q.ready)-1
	q.ready.Swap(i, last)
	q.ready.Pop()
	if i < last {
		heap.Fix(&q.ready, i)
	}
}

// makeReady puts a shape up to be tried.
func (q *queue) makeReady(s *shape) {
	if s.pos >= 0 || len(s.entries) == 0 {
		return
	}
	q.unwait(s)
	heap.Push(&q.ready, s)
}

// rest takes the first shape out of the ready ones.
func (q *queue) rest(s *shape) {
	heap.Remove(&q.ready, s.pos)
}

// wait lists a shape, at rest, under what it lacks.
func (q *queue) wait(s *shape, lacks []types.ResourceID) {
	s.lacks = lacks
	for _, rid := range lacks {
		set := q.waiting[rid]
		if set == nil {
			set = make(map[*shape]struct{})
			q.waiting[rid] = set
		}
		set[s] = struct{}{}
	}
}

func (q *queue) unwait(s *shape) {
	for _, rid := range s.lacks {
		if set := q.waiting[rid]; set != nil {
			if delete(set, s); len(set) == 0 {
				delete(q.waiting, rid)
			}
		}
	}
	s.lacks = nil
}

// wake makes ready what lacks rid.
func (q *queue) wake(rid types.ResourceID) {
	for s := range q.waiting[rid] {
		q.makeReady(s)
	}
}

// wakeUpTo makes ready what lacks rid and asks for at most so much of it.
func (q *queue) wakeUpTo(rid types.ResourceID, free types.Quantity) {
	for s := range q.waiting[rid] {
		if s.asksAtMost(rid, free) {
			q.makeReady(s)
		}
	}
}

// asksAtMost reports whether what is in the shape asks for at most so much of rid, by
// any of its alternatives that ask for it, or if it is not known for how much.
func (s *shape) asksAtMost(rid types.ResourceID, free types.Quantity) bool {
	known := false
	for _, needs := range s.resolved {
		for _, x := range needs {
			if x.ID != rid {
				continue
			}
			if x.Amount <= free {
				return true
			}
			known = true
		}
	}
	return !known
}

// unstall makes ready what waited for nodes in flight.
func (q *queue) unstall() {
	for _, s := range q.stalled {
		if q.shapes[s.key] == s {
			q.makeReady(s)
		}
	}
	q.stalled = q.stalled[:0]
}

// at wakes a shape at a moment, in Unix nanoseconds.
func (q *queue) at(s *shape, when int64) {
	s.until = when
	heap.Push(&q.timers, timer{when, s})
}

// expire makes ready the shapes whose moment has come, and returns the next one, 0
// if there is none.
func (q *queue) expire(now time.Time) int64 {
	for len(q.timers) > 0 {
		t := q.timers[0]
		switch {
		case t.shape.until != t.when || q.shapes[t.shape.key] != t.shape:
			heap.Pop(&q.timers)
		case t.when <= now.UnixNano():
			heap.Pop(&q.timers)
			t.shape.until = 0
			t.shape.seen = -1
			q.makeReady(t.shape)
		default:
			return t.when
		}
	}
	return 0
}

type timer struct {
	when  int64
	shape *shape
}

type timerHeap []timer

func (h timerHeap) Len() int           { return len(h) }
func (h timerHeap) Less(i, j int) bool { return h[i].when < h[j].when }
func (h timerHeap) Swap(i, j int)      { h[i], h[j] = h[j], h[i] }
func (h *timerHeap) Push(x any)        { *h = append(*h, x.(timer)) }
func (h *timerHeap) Pop() any {
	old := *h
	t := old[len(old)-1]
	*h = old[:len(old)-1]
	return t
}

// taskShape is the key of the shape of a task. Tasks with alternatives of
// different priority are kept apart: the oldest of a shape is allowed the most, and
// must be its head.
func taskShape(ns string, t *types.Task) string {
	var b strings.Builder
	b.WriteString(ns)
	writeRequests(&b, t.Requests)
	if t.MaxRun > 0 {
		// Only who ends in time may backfill.
		b.WriteString("<" + t.MaxRun.String())
	}
	for _, a := range t.Alternatives {
		b.WriteByte('|')
		b.WriteString(a.After.String())
		writeRequests(&b, a.Requests)
	}
	if len(t.Alternatives) > 0 {
		b.WriteString("^" + strconv.Itoa(t.Priority))
	}
	return b.String()
}

// bundleShape is the key of the shape of a reservation.
func bundleShape(ns string, r *types.Reservation) string {
	var b strings.Builder
	b.WriteString("#" + ns)
	for _, x := range r.Bundles {
		b.WriteByte('|')
		b.WriteString(x.Node)
		writeRequests(&b, x.Requests)
	}
	return b.String()
}

func writeRequests(b *strings.Builder, r types.Requests) {
	for _, x := range r {
		b.WriteByte(' ')
		b.WriteString(x.Name)
		b.WriteByte('=')
		b.WriteString(strconv.FormatInt(int64(x.Amount), 36))
	}
}
