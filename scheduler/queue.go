package scheduler

import (
	"crypto/sha256"
	"slices"
	"time"

	"github.com/escher-sched/escher/controlplane/cluster"
	"github.com/escher-sched/escher/controlplane/heap"
	"github.com/escher-sched/escher/types"
)

// The queue holds waiting tasks and reservations, by shape. All entries of a shape have the same
// request, so that where one does not fit none does: the queue tries a shape by its head, and the
// shape waits as a whole.
//
// A shape is ready (in the heap, by priority and age of its head), waiting (listed under each
// resource that it lacks, until more of one is free), or stalled (nodes it might fit are in
// flight).

// Entry is one waiting task or reservation.
type Entry struct {
	id        cluster.ID
	submitted int64
	// deadline is when it fails if it still waits, in Unix nanoseconds; 0 means never.
	deadline  int64
	shape     *shape
	priority  int
	pos       int32 // in the heap of its shape
	due       int32 // in the heap of deadlines
	conflicts int32
	bundles   bool // a reservation
}

// NewEntry returns an entry that is in no queue, to compare it with others. The priority includes
// what aging adds; submitted is in Unix nanoseconds.
func NewEntry(id cluster.ID, reservation bool, priority int, submitted int64) *Entry {
	return &Entry{id: id, bundles: reservation, priority: priority, submitted: submitted}
}

// ID returns the id of the task or reservation.
func (e *Entry) ID() cluster.ID { return e.id }

// IsReservation reports whether it is a reservation; otherwise it is a task.
func (e *Entry) IsReservation() bool { return e.bundles }

func (e *Entry) key() entryKey { return entryKey{e.id, e.bundles} }

// before orders entries: the highest priority first, then the oldest, then by id to make the order
// total.
func (e *Entry) before(f *Entry) bool {
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

// compare orders entries for slices.SortFunc.
func (e *Entry) compare(f *Entry) int {
	if e.before(f) {
		return -1
	}
	return 1
}

// Before reports whether e is tried before f.
func (e *Entry) Before(f *Entry) bool { return e.before(f) }

// Placed makes entry an element of the heap of its shape.
func (e *Entry) Placed(at int) { e.pos = int32(at) }

// shape is a set of entries with the same request. Millions may wait with a shape each, so small
// common parts are embedded.
type shape struct {
	key     shapeKey
	entries heap.Heap[*Entry]
	lacks   []missing
	// seen is the position in the log of changed nodes when the shape last failed; -1 means that
	// the next try must visit all nodes.
	seen int
	// until is when more alternatives may become allowed; 0 means never.
	until int64
	// resolved are the needs of each alternative, as of the namespace's revision.
	resolved   [][]cluster.Need
	resolvedAt int64
	// cursor is where the next search of all nodes begins.
	cursor int
	pos    int32 // in the heap of ready shapes; -1 when absent
	// node is the Serial of the node that the shape is pinned to, or nowhere. at is its index among
	// the shapes pinned there; -1 when not listed.
	node, at int32

	// first is the first entry. With firstTaken, onlyEntry and onlyLack, it stores entries and
	// lacks while they have one element.
	first      Entry
	onlyEntry  [1]*Entry
	onlyLack   [1]missing
	firstTaken bool
}

// shapeKey is equal for equal requests. It is a prefix of a cryptographic hash, because users
// choose the requests.
type shapeKey [16]byte

func keyOfShape(text []byte) shapeKey {
	sum := sha256.Sum256(text)
	return shapeKey(sum[:16])
}

func (s *shape) head() *Entry { return s.entries[0] }

// len returns the number of its entries.
func (s *shape) len() int { return len(s.entries) }

// isReady reports whether it is to be tried.
func (s *shape) isReady() bool { return s.pos >= 0 }

// anew returns a shape that is in no queue and was never tried, for one search.
func anew() *shape { return &shape{seen: -1, pos: -1, node: nowhere, at: -1} }

// readyShape is a ready shape with the values that mostly decide between two heads: reading the
// heads of thousands takes longer than all else.
type readyShape struct {
	*shape
	priority  int
	submitted int64
}

func (x *readyShape) update() {
	head := x.head()
	x.priority, x.submitted = head.priority, head.submitted
}

// Before makes readyShape an element of a heap.
func (x readyShape) Before(y readyShape) bool {
	if x.priority != y.priority {
		return x.priority > y.priority
	}
	if x.submitted != y.submitted {
		return x.submitted < y.submitted
	}
	return x.head().before(y.head())
}

// Placed makes readyShape an element of a heap.
func (x readyShape) Placed(at int) { x.pos = int32(at) }

// headChanged restores the position of a ready shape after its head changed.
func (q *queue) headChanged(s *shape) {
	q.ready[s.pos].update()
	q.ready.Fix(int(s.pos))
	if s.at >= 0 {
		q.steered[s.node].Fix(int(s.at))
	}
}

// queue is the set of waiting entries.
type queue struct {
	entries entries
	shapes  map[shapeKey]*shape
	asleep  sleepers // not in entries, shapes and waiting
	most    int      // largest number of shapes since shrink
	ready   heap.Heap[readyShape]
	toPlace int                  // number of entries of ready shapes
	steered []heap.Heap[steered] // ready shapes pinned to each node, by its Serial
	waiting map[types.ResourceID]waiters
	stalled []*shape
	timers  heap.Heap[timer]
	// deadlines are the entries with a deadline.
	deadlines heap.Heap[expiring]
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

// entry returns the entry of a key; nil if there is none.
func (q *queue) entry(k entryKey) *Entry {
	e := q.entries.get(k)
	if e == nil && !k.bundles {
		if s := q.rouse(q.asleep.entry(k.id)); s != nil {
			return s.head()
		}
	}
	return e
}

// len returns the number of entries.
func (q *queue) len() int { return q.entries.len() + q.asleep.Len() }

// all returns the entries that are not parked, in order.
func (q *queue) all() []*Entry {
	out := make([]*Entry, 0, q.entries.len())
	q.entries.each(func(e *Entry) { out = append(out, e) })
	slices.SortFunc(out, (*Entry).compare)
	return out
}

// first returns the ready shape to try next; nil if there is none.
func (q *queue) first() *shape {
	if len(q.ready) == 0 {
		return nil
	}
	return q.ready[0].shape
}

// stall keeps a resting shape until unstall, because nodes that it might fit are in flight.
func (q *queue) stall(s *shape) { q.stalled = append(q.stalled, s) }

// counts returns the number of shapes by state, parked ones included.
func (q *queue) counts() (ready, stalled, lacking int) {
	ready, stalled = len(q.ready), len(q.stalled)
	return ready, stalled, len(q.shapes) + q.asleep.Len() - ready - stalled
}

// parked returns the number of parked shapes.
func (q *queue) parked() int { return q.asleep.Len() }

// add queues an entry under the key of its shape; an unchanged entry stays. It returns the shape if
// that is new, and so not pinned yet.
func (q *queue) add(x Entry, key shapeKey) (fresh *shape) {
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
		s = anew()
		s.key = key
		s.entries = s.onlyEntry[:0]
		q.shapes[key] = s
		q.most = max(q.most, len(q.shapes))
		fresh = s
	}
	e := s.keep(x)
	q.entries.put(e)
	q.remind(e)
	s.entries.Push(e)
	switch {
	case fresh != nil:
		q.makeReady(s)
	case s.pos >= 0:
		q.toPlace++
		q.headChanged(s)
	case s.until != 0:
		// Its alternatives may become allowed at another time.
		q.makeReady(s)
	}
	return fresh
}

// keep stores an entry of the shape.
func (s *shape) keep(x Entry) *Entry {
	e := &s.first
	if s.firstTaken {
		e = new(Entry)
	}
	s.firstTaken = true
	*e = x
	e.shape = s
	return e
}

// remove removes an entry; a missing one is no error.
func (q *queue) remove(k entryKey) {
	if e := q.entry(k); e != nil {
		q.take(e)
	}
}

// take removes a queued entry.
func (q *queue) take(e *Entry) {
	q.entries.remove(e)
	q.unremind(e)
	s := e.shape
	s.entries.Remove(int(e.pos))
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

// drop removes a shape without entries: it has no head to compare.
func (q *queue) drop(s *shape) {
	delete(q.shapes, s.key)
	q.unwait(s)
	q.unlist(s)
	if s.pos >= 0 {
		q.ready.Remove(int(s.pos))
	}
}

// makeReady makes a shape ready to try.
func (q *queue) makeReady(s *shape) {
	if s.pos >= 0 || len(s.entries) == 0 {
		return
	}
	q.unwait(s)
	ready := readyShape{shape: s}
	ready.update()
	q.ready.Push(ready)
	q.list(s)
	q.toPlace += len(s.entries)
}

// rest removes a shape from the ready ones.
func (q *queue) rest(s *shape) {
	q.ready.Remove(int(s.pos))
	q.unlist(s)
	q.toPlace -= len(s.entries)
}

// unstall makes shapes ready that waited for nodes in flight.
func (q *queue) unstall() {
	for _, s := range q.stalled {
		if q.shapes[s.key] == s {
			q.makeReady(s)
		}
	}
	q.stalled = q.stalled[:0]
}

// at schedules a shape to wake at a time, in Unix nanoseconds.
func (q *queue) at(s *shape, when int64) {
	s.until = when
	q.timers.Push(timer{when, s})
}

// expire makes shapes ready whose time has come. It returns the next time; 0 means none.
func (q *queue) expire(now time.Time) int64 {
	for len(q.timers) > 0 {
		t := q.timers[0]
		switch {
		case t.shape.until != t.when || q.shapes[t.shape.key] != t.shape:
			q.timers.Pop()
		case t.when <= now.UnixNano():
			q.timers.Pop()
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

// Before makes timer an element of a heap.
func (t timer) Before(other timer) bool { return t.when < other.when }

// Placed makes timer an element of a heap, from which only the first is removed.
func (timer) Placed(int) {}
