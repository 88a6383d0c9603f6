package queue

import (
	"encoding/binary"

	"github.com/escher-sched/escher/controlplane/cluster"
	"github.com/escher-sched/escher/controlplane/heap"
	"github.com/escher-sched/escher/controlplane/slab"
	"github.com/escher-sched/escher/types"
)

// A million tasks may wait for a resource of their own each. Such a shape, of one task and the only
// one that lacks its resource, is parked in a pointer-free record. The shape is restored when more
// of the resource is free, or a lookup needs the task or its shape. Except for memory, a parked
// shape behaves as before.

// sleepers are the parked shapes, as records of their tasks: by entry, by key, and by the lacked
// resource, which is the text of the record. Each of these is unique.
type sleepers struct {
	slab.Table
	byShape map[uint64]slab.Ref
	byLack  map[uint64]slab.Ref
}

// The offsets in the record of a parked shape.
const (
	sleepPriority  = 0
	sleepSubmitted = sleepPriority + 8
	sleepLeast     = sleepSubmitted + 8
	sleepSeen      = sleepLeast + 8
	sleepCursor    = sleepSeen + 8
	sleepConflicts = sleepCursor + 8
	sleepNode      = sleepConflicts + 4
	sleepKey       = sleepNode + 4
	sleepBytes     = sleepKey + len(ShapeKey{})
)

func newSleepers() sleepers {
	return sleepers{Table: slab.NewTable(sleepBytes), byShape: make(map[uint64]slab.Ref), byLack: make(map[uint64]slab.Ref)}
}

// key returns the key of the shape at p, and lacks the resource it lacks.
func (x *sleepers) key(p slab.Ref) ShapeKey { return ShapeKey(x.At(p).Numbers(sleepKey)) }
func (x *sleepers) lacks(p slab.Ref) []byte { return x.At(p).Text() }

// least returns the amount that the shape at p needs of the lacked resource.
func (x *sleepers) least(p slab.Ref) types.Quantity {
	return types.Quantity(x.At(p).Int64(sleepLeast))
}

func (x *sleepers) hashShape(k ShapeKey) uint64 { return binary.LittleEndian.Uint64(k[:]) & x.Mask }

// entry returns the parked shape with the task of an id; 0 if there is none.
func (x *sleepers) entry(id cluster.ID) slab.Ref { return x.Find(id.Namespace, id.ID) }

// shape returns the parked shape of a key; 0 if there is none.
func (x *sleepers) shape(k ShapeKey) slab.Ref {
	if p := x.byShape[x.hashShape(k)]; p != 0 && x.key(p) == k {
		return p
	}
	return 0
}

// lacking returns the parked shape that lacks rid; 0 if there is none.
func (x *sleepers) lacking(rid types.ResourceID) slab.Ref {
	if len(x.byLack) == 0 {
		return 0
	}
	if p := x.byLack[x.Hash(string(rid))]; p != 0 && string(x.lacks(p)) == string(rid) {
		return p
	}
	return 0
}

// add parks a shape, and reports whether it could.
func (x *sleepers) add(s *Shape) bool {
	e, lack := s.Head(), s.lacks[0]
	byShape, byLack := x.hashShape(s.key), x.Hash(string(lack.rid))
	if x.byShape[byShape] != 0 || x.byLack[byLack] != 0 {
		return false // the hash collides with another shape's
	}
	p := x.Add(e.ID.Namespace, e.ID.ID, []byte(lack.rid))
	if p == 0 {
		return false
	}
	x.byShape[byShape], x.byLack[byLack] = p, p
	r := x.At(p)
	r.SetInt64(sleepPriority, int64(e.Priority))
	r.SetInt64(sleepSubmitted, e.Submitted)
	r.SetInt64(sleepLeast, int64(lack.least))
	r.SetInt64(sleepSeen, int64(s.Seen))
	r.SetInt64(sleepCursor, int64(s.Cursor))
	r.SetUint32(sleepConflicts, uint32(e.Conflicts))
	r.SetUint32(sleepNode, uint32(s.node))
	copy(r.Numbers(sleepKey), s.key[:])
	return true
}

// remove removes the shape at p, and returns it with its entry and the lacked resource.
func (x *sleepers) remove(p slab.Ref) (*Shape, Entry, missing) {
	r := x.At(p)
	s := &Shape{key: x.key(p), pos: -1, at: -1, node: int32(r.Uint32(sleepNode)), Seen: int(r.Int64(sleepSeen)), Cursor: int(r.Int64(sleepCursor))}
	s.entries = s.onlyEntry[:0]
	e := Entry{
		ID: cluster.ID{Namespace: x.Namespace(p), ID: string(r.ID())}, Submitted: r.Int64(sleepSubmitted),
		Priority: int(r.Int64(sleepPriority)), Conflicts: int32(r.Uint32(sleepConflicts)),
	}
	lack := missing{types.ResourceID(r.Text()), x.least(p)}
	delete(x.byShape, x.hashShape(s.key))
	delete(x.byLack, x.Hash(string(lack.rid)))
	x.Remove(p)
	return s, e, lack
}

// Park parks a waiting shape if it qualifies.
func (q *Queue) Park(s *Shape) {
	if s.pos >= 0 || len(s.entries) != 1 || len(s.lacks) != 1 || s.until != 0 || s.Resolved != nil {
		return
	}
	e := s.Head()
	if e.Reservation || e.Deadline != 0 || q.waiting[s.lacks[0].rid].only != s || !q.asleep.add(s) {
		return
	}
	q.unwait(s)
	q.entries.remove(e)
	delete(q.shapes, s.key)
	q.shrink()
}

// rouse restores the shape at p; nil for 0.
func (q *Queue) rouse(p slab.Ref) *Shape {
	if p == 0 {
		return nil
	}
	s, x, lack := q.asleep.remove(p)
	q.shapes[s.key] = s
	q.most = max(q.most, len(q.shapes))
	e := s.keep(x)
	q.entries.put(e)
	s.entries.Push(e)
	s.lacks = append(s.onlyLack[:0], lack)
	w := q.waiting[lack.rid]
	w.add(lack.rid, waiter{lack.least, s})
	q.waiting[lack.rid] = w
	return s
}

// Retry makes every entry of a namespace ready, as if it had never been tried.
func (q *Queue) Retry(ns string) {
	for p := range q.asleep.In(ns) {
		q.rouse(p)
	}
	for _, s := range q.shapes {
		if s.Head().ID.Namespace == ns {
			s.Seen = -1
			q.MakeReady(s)
		}
	}
}

// worthShrinking is the least number of shapes before shrink reallocates.
const worthShrinking = 1 << 14

// shrink reallocates maps and lists that parking left mostly empty: they never shrink themselves.
func (q *Queue) shrink() {
	if q.most < worthShrinking || len(q.shapes) > q.most/8 {
		return
	}
	q.most = len(q.shapes)
	q.entries.byHash = roomless(q.entries.byHash)
	q.shapes = roomless(q.shapes)
	q.waiting = roomless(q.waiting)
	q.ready = append(make(heap.Heap[readyShape], 0, len(q.ready)), q.ready...)
}

// roomless returns a copy of a map without spare space.
func roomless[K comparable, V any](m map[K]V) map[K]V {
	out := make(map[K]V, len(m))
	for k, v := range m {
		out[k] = v
	}
	return out
}
