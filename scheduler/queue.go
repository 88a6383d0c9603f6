package scheduler

import (
	"container/heap"
	"crypto/sha256"
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
	submitted int64
	// deadline is when it fails if it still waits, in Unix nanoseconds; 0 is never.
	deadline  int64
	shape     *shape
	priority  int
	pos       int32 // in the heap of its shape
	due       int32 // in the heap of deadlines
	conflicts int32
	bundles   bool // a reservation
}

func (e *entry) key() entryKey { return entryKey{e.id, e.bundles} }

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

// shape is a set of entries that ask for the same. Millions may wait, each of a shape of
// its own, so that what is small and there in every shape is part of it.
type shape struct {
	key     shapeKey
	entries entryHeap
	lacks   []missing
	// seen is how much of the log of changed nodes was looked at when the
	// shape last failed; -1: all nodes must be looked at.
	seen int
	// until is the next moment at which more may be allowed; 0 is never.
	until int64
	// resolved are the needs of each alternative, as of the namespace's
	// revision.
	resolved   [][]cluster.Need
	resolvedAt int64
	// cursor is where the next search begins, among all nodes.
	cursor int
	pos    int32 // in the heap of ready shapes; -1 when not in it
	// node is the Serial of the node that it is steered to, or nowhere; at is its place
	// among those that are, -1 when it is not listed there.
	node, at int32

	// The first entry is kept here, and so are what entries and lacks are made of while
	// there is one of each.
	first      entry
	onlyEntry  [1]*entry
	onlyLack   [1]missing
	firstTaken bool
	// unit tells that all of it are of one unit, whatever each asks for: see Units.
	unit bool
}

// shapeKey is the same for all that ask for the same: the beginning of a cryptographic
// hash, as what is asked for is anybody's choice.
type shapeKey [16]byte

func keyOfShape(text []byte) shapeKey {
	sum := sha256.Sum256(text)
	return shapeKey(sum[:16])
}

func (s *shape) head() *entry { return s.entries[0] }

type entryHeap []*entry

func (h entryHeap) Len() int           { return len(h) }
func (h entryHeap) Less(i, j int) bool { return h[i].before(h[j]) }
func (h entryHeap) Swap(i, j int) {
	h[i], h[j] = h[j], h[i]
	h[i].pos, h[j].pos = int32(i), int32(j)
}
func (h *entryHeap) Push(x any) {
	e := x.(*entry)
	e.pos = int32(len(*h))
	*h = append(*h, e)
}
func (h *entryHeap) Pop() any {
	old := *h
	e := old[len(old)-1]
	old[len(old)-1] = nil
	*h = old[:len(old)-1]
	return e
}

// readyShape is a shape that is ready, with what mostly decides between two heads: to look
// at the heads of thousands takes longer than all else.
type readyShape struct {
	*shape
	priority  int
	submitted int64
}

func (x *readyShape) update() {
	head := x.head()
	x.priority, x.submitted = head.priority, head.submitted
}

type shapeHeap []readyShape

func (h shapeHeap) Len() int { return len(h) }
func (h shapeHeap) Less(i, j int) bool {
	a, b := &h[i], &h[j]
	if a.priority != b.priority {
		return a.priority > b.priority
	}
	if a.submitted != b.submitted {
		return a.submitted < b.submitted
	}
	return a.head().before(b.head())
}
func (h shapeHeap) Swap(i, j int) {
	h[i], h[j] = h[j], h[i]
	h[i].pos, h[j].pos = int32(i), int32(j)
}
func (h *shapeHeap) Push(x any) {
	s := readyShape{shape: x.(*shape)}
	s.update()
	s.pos = int32(len(*h))
	*h = append(*h, s)
}
func (h *shapeHeap) Pop() any {
	old := *h
	s := old[len(old)-1].shape
	old[len(old)-1] = readyShape{}
	*h = old[:len(old)-1]
	s.pos = -1
	return s
}

// headChanged puts a ready shape where its head belongs.
func (q *queue) headChanged(s *shape) {
	q.ready[s.pos].update()
	heap.Fix(&q.ready, int(s.pos))
	if s.at >= 0 {
		heap.Fix(&q.steered[s.node], int(s.at))
	}
}

// queue is all that waits.
type queue struct {
	entries entries
	shapes  map[shapeKey]*shape
	asleep  sleepers // which are not in entries, shapes and waiting
	most    int      // how many shapes there were since shrink
	ready   shapeHeap
	toPlace int       // how many entries are of ready shapes
	steered []steered // the ready shapes that are steered to each node, by its Serial
	waiting map[types.ResourceID]waiters
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
		entries: newEntries(),
		asleep:  newSleepers(),
		shapes:  make(map[shapeKey]*shape),
		waiting: make(map[types.ResourceID]waiters),
	}
}

// entry returns what is queued under a key, nil if nothing is.
func (q *queue) entry(k entryKey) *entry {
	e := q.entries.get(k)
	if e == nil && !k.bundles {
		if s := q.rouse(q.asleep.entry(k.id)); s != nil {
			return s.head()
		}
	}
	return e
}

// len returns how many are queued.
func (q *queue) len() int { return q.entries.len() + q.asleep.len() }

// add queues an entry under the key of its shape; one that is queued so already
// stays. It returns the shape if that is new: it is steered nowhere yet.
func (q *queue) add(x entry, key shapeKey) (fresh *shape) {
	if was := q.entry(x.key()); was != nil {
		if was.shape.key == key && was.priority == x.priority && was.submitted == x.submitted {
			return nil
		}
		q.remove(x.key())
	}
	s := q.shapes[key]
	if s == nil {
		s = q.rouse(q.asleep.shape(key))
	}
	if s == nil {
		s = &shape{key: key, pos: -1, node: nowhere, at: -1, seen: -1}
		s.entries = s.onlyEntry[:0]
		q.shapes[key] = s
		q.most = max(q.most, len(q.shapes))
		fresh = s
	}
	e := s.keep(x)
	q.entries.put(e)
	q.remind(e)
	heap.Push(&s.entries, e)
	switch {
	case fresh != nil:
		q.makeReady(s)
	case s.pos >= 0:
		q.toPlace++
		q.headChanged(s)
	case s.until != 0:
		// Its alternatives may be allowed at another time.
		q.makeReady(s)
	}
	return fresh
}

// keep returns where an entry of the shape is kept.
func (s *shape) keep(x entry) *entry {
	e := &s.first
	if s.firstTaken {
		e = new(entry)
	}
	s.firstTaken = true
	*e = x
	e.shape = s
	return e
}

// remove takes an entry out; none is success.
func (q *queue) remove(k entryKey) {
	if e := q.entry(k); e != nil {
		q.take(e)
	}
}

// take takes an entry out that is in it.
func (q *queue) take(e *entry) {
	q.entries.remove(e)
	q.unremind(e)
	s := e.shape
	heap.Remove(&s.entries, int(e.pos))
	if s.pos >= 0 {
		q.toPlace--
	}
	if len(s.entries) == 0 {
		q.drop(s)
		return
	}
	if s.pos >= 0 {
		q.headChanged(s)
	}
}

// drop forgets a shape of which no entry is left. A ready one has lost its head, so
// its place in the heap must be taken away without comparing it.
func (q *queue) drop(s *shape) {
	delete(q.shapes, s.key)
	q.unwait(s)
	q.unlist(s)
	if s.pos < 0 {
		return
	}
	i, last := int(s.pos), len(q.ready)-1
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
	q.list(s)
	q.toPlace += len(s.entries)
}

// rest takes a shape out of the ready ones.
func (q *queue) rest(s *shape) {
	heap.Remove(&q.ready, int(s.pos))
	q.unlist(s)
	q.toPlace -= len(s.entries)
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
