// Package queue holds the tasks and reservations that wait to be placed, in the order in which to
// try them. It knows neither nodes nor transactions; the scheduler tells it what lacked, and what
// became free.
//
// Entries with the same request form a shape. Where one of them does not fit, none does: so the
// scheduler tries a shape by its head, and the shape waits as a whole. A shape is
//
//	ready    in a heap, by the priority and age of its head;
//	lacking  listed under each resource that it lacks, until more of one is free;
//	stalled  until transactions in flight are answered, on nodes that it might fit.
//
// A million shapes may lack a resource of their own each. Those are parked in records of some
// dozens of bytes, and restored when one asks for them.
package queue

import (
	"crypto/sha256"
	"slices"
	"time"

	"github.com/escher-sched/escher/controlplane/cluster"
	"github.com/escher-sched/escher/controlplane/heap"
	"github.com/escher-sched/escher/types"
)

// Entry is one waiting task or reservation.
type Entry struct {
	ID cluster.ID
	// Submitted is in Unix nanoseconds.
	Submitted int64
	// Deadline is when it fails if it still waits, in Unix nanoseconds; 0 means never.
	Deadline int64
	// Shape is set by Add.
	Shape *Shape
	// Priority includes what aging adds.
	Priority int
	pos      int32 // in the heap of its shape
	due      int32 // in the heap of deadlines
	// Conflicts counts the refused transactions that it was in.
	Conflicts int32
	// Reservation reports whether it is a reservation; otherwise it is a task.
	Reservation bool
}

// Key returns the key of the entry.
func (e *Entry) Key() Key { return Key{e.ID, e.Reservation} }

// Before reports whether e is tried before f: the highest priority first, then the oldest, then by
// id, which makes the order total.
func (e *Entry) Before(f *Entry) bool {
	switch {
	case e.Priority != f.Priority:
		return e.Priority > f.Priority
	case e.Submitted != f.Submitted:
		return e.Submitted < f.Submitted
	case e.ID.Namespace != f.ID.Namespace:
		return e.ID.Namespace < f.ID.Namespace
	case e.ID.ID != f.ID.ID:
		return e.ID.ID < f.ID.ID
	}
	return e.Reservation && !f.Reservation
}

// compare orders entries for slices.SortFunc.
func (e *Entry) compare(f *Entry) int {
	if e.Before(f) {
		return -1
	}
	return 1
}

// Placed makes entry an element of the heap of its shape.
func (e *Entry) Placed(at int) { e.pos = int32(at) }

// Shape is a set of entries with the same request. Millions may wait with a shape each, so small
// common parts are embedded.
type Shape struct {
	key     ShapeKey
	entries heap.Heap[*Entry]
	lacks   []missing
	// Seen is the position in the log of changed nodes when the shape last failed; -1 means that
	// the next try must visit all nodes.
	Seen int
	// until is when the shape is made ready in any case, in Unix nanoseconds; 0 means never.
	until int64
	// Resolved are the needs of each alternative, as of the namespace's revision ResolvedAt; nil
	// if they are not known.
	Resolved   [][]cluster.Need
	ResolvedAt int64
	// Cursor is where the next search of all nodes begins.
	Cursor int
	pos    int32 // in the heap of ready shapes; -1 when absent
	// node is the Serial of the node that the shape is pinned to, or Nowhere. at is its index among
	// the shapes pinned there; -1 when not listed.
	node, at int32

	// first is the first entry. With firstTaken, onlyEntry and onlyLack, it stores entries and
	// lacks while they have one element.
	first      Entry
	onlyEntry  [1]*Entry
	onlyLack   [1]missing
	firstTaken bool
}

// ShapeKey is equal for equal requests. It is a prefix of a cryptographic hash, because users
// choose the requests.
type ShapeKey [16]byte

// KeyOf returns the key of the shape with a text: see AppendTask and AppendReservation.
func KeyOf(text []byte) ShapeKey {
	sum := sha256.Sum256(text)
	return ShapeKey(sum[:16])
}

// Head returns the entry to try, which is the first.
func (s *Shape) Head() *Entry { return s.entries[0] }

// Len returns the number of its entries.
func (s *Shape) Len() int { return len(s.entries) }

// IsReady reports whether it is to be tried.
func (s *Shape) IsReady() bool { return s.pos >= 0 }

// NewShape returns a shape that is in no queue and was never tried, for one search.
func NewShape() *Shape { return &Shape{Seen: -1, pos: -1, node: Nowhere, at: -1} }

// readyShape is a ready shape with the values that mostly decide between two heads: reading the
// heads of thousands takes longer than all else.
type readyShape struct {
	*Shape
	priority  int
	submitted int64
}

func (x *readyShape) update() {
	head := x.Head()
	x.priority, x.submitted = head.Priority, head.Submitted
}

// Before makes readyShape an element of a heap.
func (x readyShape) Before(y readyShape) bool {
	if x.priority != y.priority {
		return x.priority > y.priority
	}
	if x.submitted != y.submitted {
		return x.submitted < y.submitted
	}
	return x.Head().Before(y.Head())
}

// Placed makes readyShape an element of a heap.
func (x readyShape) Placed(at int) { x.pos = int32(at) }

// headChanged restores the position of a ready shape after its head changed.
func (q *Queue) headChanged(s *Shape) {
	q.ready[s.pos].update()
	q.ready.Fix(int(s.pos))
	if s.at >= 0 {
		q.pinned[s.node].Fix(int(s.at))
	}
}

// Queue holds the waiting entries. It is not safe for concurrent use.
type Queue struct {
	entries entries
	shapes  map[ShapeKey]*Shape
	asleep  sleepers // not in entries, shapes and waiting
	most    int      // largest number of shapes since shrink
	ready   heap.Heap[readyShape]
	toPlace int                 // number of entries of ready shapes
	pinned  []heap.Heap[pinned] // ready shapes pinned to each node, by its Serial
	waiting map[types.ResourceID]waiters
	stalled []*Shape
	timers  heap.Heap[timer]
	// deadlines are the entries with a deadline.
	deadlines heap.Heap[expiring]
}

// Key names an entry: a task and a reservation may have the same id.
type Key struct {
	ID          cluster.ID
	Reservation bool
}

// New returns an empty queue.
func New() *Queue {
	return &Queue{
		entries: newEntries(),
		asleep:  newSleepers(),
		shapes:  make(map[ShapeKey]*Shape),
		waiting: make(map[types.ResourceID]waiters),
	}
}

// Entry returns the entry of a key; nil if there is none.
func (q *Queue) Entry(k Key) *Entry {
	e := q.entries.get(k)
	if e == nil && !k.Reservation {
		if s := q.rouse(q.asleep.entry(k.ID)); s != nil {
			return s.Head()
		}
	}
	return e
}

// Len returns the number of entries.
func (q *Queue) Len() int { return q.entries.len() + q.asleep.Len() }

// All returns the entries that are not parked, in order.
func (q *Queue) All() []*Entry {
	out := make([]*Entry, 0, q.entries.len())
	q.entries.each(func(e *Entry) { out = append(out, e) })
	slices.SortFunc(out, (*Entry).compare)
	return out
}

// First returns the ready shape to try next; nil if there is none.
func (q *Queue) First() *Shape {
	if len(q.ready) == 0 {
		return nil
	}
	return q.ready[0].Shape
}

// ToPlace returns the number of entries of ready shapes.
func (q *Queue) ToPlace() int { return q.toPlace }

// Stall keeps a resting shape until Unstall, because nodes that it might fit are in flight.
func (q *Queue) Stall(s *Shape) { q.stalled = append(q.stalled, s) }

// Counts returns the number of shapes by state, parked ones included.
func (q *Queue) Counts() (ready, stalled, lacking int) {
	ready, stalled = len(q.ready), len(q.stalled)
	return ready, stalled, len(q.shapes) + q.asleep.Len() - ready - stalled
}

// Parked returns the number of parked shapes.
func (q *Queue) Parked() int { return q.asleep.Len() }

// Add queues an entry under the key of its shape; an unchanged entry stays. It returns the shape if
// that is new, and so not pinned yet.
func (q *Queue) Add(x Entry, key ShapeKey) (fresh *Shape) {
	if was := q.Entry(x.Key()); was != nil {
		if was.Shape.key == key && was.Priority == x.Priority && was.Submitted == x.Submitted {
			return nil
		}
		q.Remove(x.Key())
	}
	s := q.shapes[key]
	if s == nil {
		s = q.rouse(q.asleep.shape(key))
	}
	if s == nil {
		s = NewShape()
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
		q.MakeReady(s)
	case s.pos >= 0:
		q.toPlace++
		q.headChanged(s)
	case s.until != 0:
		// Its alternatives may become allowed at another time.
		q.MakeReady(s)
	}
	return fresh
}

// keep stores an entry of the shape.
func (s *Shape) keep(x Entry) *Entry {
	e := &s.first
	if s.firstTaken {
		e = new(Entry)
	}
	s.firstTaken = true
	*e = x
	e.Shape = s
	return e
}

// Remove removes an entry; a missing one is no error.
func (q *Queue) Remove(k Key) {
	if e := q.Entry(k); e != nil {
		q.Take(e)
	}
}

// Take removes a queued entry.
func (q *Queue) Take(e *Entry) {
	q.entries.remove(e)
	q.unremind(e)
	s := e.Shape
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
func (q *Queue) drop(s *Shape) {
	delete(q.shapes, s.key)
	q.unwait(s)
	q.unlist(s)
	if s.pos >= 0 {
		q.ready.Remove(int(s.pos))
	}
}

// MakeReady makes a shape ready to try; a ready one stays so.
func (q *Queue) MakeReady(s *Shape) {
	if s.pos >= 0 || len(s.entries) == 0 {
		return
	}
	q.unwait(s)
	ready := readyShape{Shape: s}
	ready.update()
	q.ready.Push(ready)
	q.list(s)
	q.toPlace += len(s.entries)
}

// Rest removes a shape from the ready ones. Wait or Stall follows.
func (q *Queue) Rest(s *Shape) {
	q.ready.Remove(int(s.pos))
	q.unlist(s)
	q.toPlace -= len(s.entries)
}

// Unstall makes shapes ready that waited for nodes in flight.
func (q *Queue) Unstall() {
	for _, s := range q.stalled {
		if q.shapes[s.key] == s {
			q.MakeReady(s)
		}
	}
	q.stalled = q.stalled[:0]
}

// WakeAt schedules a shape to wake at a time, in Unix nanoseconds, unless it wakes earlier.
func (q *Queue) WakeAt(s *Shape, when int64) {
	if s.until != 0 && s.until <= when {
		return
	}
	s.until = when
	q.timers.Push(timer{when, s})
}

// Expire makes shapes ready whose time has come. It returns the next time; 0 means none.
func (q *Queue) Expire(now time.Time) int64 {
	for len(q.timers) > 0 {
		t := q.timers[0]
		switch {
		case t.shape.until != t.when || q.shapes[t.shape.key] != t.shape:
			q.timers.Pop()
		case t.when <= now.UnixNano():
			q.timers.Pop()
			t.shape.until = 0
			t.shape.Seen = -1
			q.MakeReady(t.shape)
		default:
			return t.when
		}
	}
	return 0
}

type timer struct {
	when  int64
	shape *Shape
}

// Before makes timer an element of a heap.
func (t timer) Before(other timer) bool { return t.when < other.when }

// Placed makes timer an element of a heap, from which only the first is removed.
func (timer) Placed(int) {}
