package scheduler

import (
	"encoding/binary"
	"hash/maphash"

	"github.com/escher-sched/escher/controlplane/cluster"
	"github.com/escher-sched/escher/controlplane/heap"
	"github.com/escher-sched/escher/controlplane/slab"
	"github.com/escher-sched/escher/types"
)

// A million tasks may wait for a resource of their own each. Such a shape, of one task and
// the only one that lacks what it lacks, is put to sleep: what is to be known of it is kept
// where nothing points to anything, and the shape is made anew when there is more of that
// resource, or anybody asks for the task or its shape. But for the memory it is as if it
// was awake.

// sleepers are the shapes asleep: by their entry, by their key, and by what they lack. No
// two have the same of one of these.
type sleepers struct {
	seed    maphash.Seed
	mask    uint64 // of hashes; all but a test use all of them
	slab    slab.Slab
	byEntry map[uint64]slab.Place
	byShape map[uint64]slab.Place
	byLack  map[uint64]slab.Place
	// spaces are the namespaces, numbers where each is in it.
	spaces  []string
	numbers map[string]uint32
}

// What is kept of a shape asleep; behind that the id of its task, and what it lacks.
const (
	sleepPriority  = 0
	sleepSubmitted = sleepPriority + 8
	sleepLeast     = sleepSubmitted + 8
	sleepSeen      = sleepLeast + 8
	sleepCursor    = sleepSeen + 8
	sleepKey       = sleepCursor + 8
	sleepSpace     = sleepKey + len(shapeKey{})
	sleepConflicts = sleepSpace + 4
	sleepNode      = sleepConflicts + 4
	sleepID        = sleepNode + 4 // how long the id is
	sleepLack      = sleepID + 1   // how long what it lacks is
	sleepTexts     = sleepLack + 1
)

// sleeper is a shape asleep.
type sleeper []byte

func (b sleeper) get(at int) uint32       { return binary.LittleEndian.Uint32(b[at:]) }
func (b sleeper) put(at int, n uint32)    { binary.LittleEndian.PutUint32(b[at:], n) }
func (b sleeper) long(at int) int64       { return int64(binary.LittleEndian.Uint64(b[at:])) }
func (b sleeper) putLong(at int, n int64) { binary.LittleEndian.PutUint64(b[at:], uint64(n)) }

func (b sleeper) key() shapeKey { return shapeKey(b[sleepKey:]) }
func (b sleeper) id() []byte    { return b[sleepTexts : sleepTexts+int(b[sleepID])] }

func (b sleeper) lack() []byte {
	from := sleepTexts + int(b[sleepID])
	return b[from : from+int(b[sleepLack])]
}

func newSleepers() sleepers {
	return sleepers{
		seed: maphash.MakeSeed(), mask: ^uint64(0), numbers: make(map[string]uint32),
		byEntry: make(map[uint64]slab.Place), byShape: make(map[uint64]slab.Place), byLack: make(map[uint64]slab.Place),
	}
}

func (x *sleepers) len() int { return len(x.byEntry) }

func (x *sleepers) at(p slab.Place) sleeper { return sleeper(x.slab.At(p)) }

func (x *sleepers) hash(space uint32, id string) uint64 {
	return (maphash.String(x.seed, id) + uint64(space)*0x9e3779b97f4a7c15) & x.mask
}

func (x *sleepers) hashLack(rid types.ResourceID) uint64 {
	return maphash.String(x.seed, string(rid)) & x.mask
}

func (x *sleepers) hashShape(k shapeKey) uint64 { return binary.LittleEndian.Uint64(k[:]) & x.mask }

// entry returns the shape asleep that has the task of an id, 0 if there is none.
func (x *sleepers) entry(id cluster.ID) slab.Place {
	space, ok := x.numbers[id.Namespace]
	if !ok {
		return 0
	}
	p := x.byEntry[x.hash(space, id.ID)]
	if p == 0 || x.at(p).get(sleepSpace) != space || string(x.at(p).id()) != id.ID {
		return 0
	}
	return p
}

// shape returns the shape asleep of a key, 0 if there is none.
func (x *sleepers) shape(k shapeKey) slab.Place {
	if p := x.byShape[x.hashShape(k)]; p != 0 && x.at(p).key() == k {
		return p
	}
	return 0
}

// lacking returns the shape asleep that lacks rid, 0 if there is none.
func (x *sleepers) lacking(rid types.ResourceID) slab.Place {
	if len(x.byLack) == 0 {
		return 0
	}
	if p := x.byLack[x.hashLack(rid)]; p != 0 && string(x.at(p).lack()) == string(rid) {
		return p
	}
	return 0
}

// add keeps a shape, and reports whether it could.
func (x *sleepers) add(s *shape) bool {
	e, lack := s.head(), s.lacks[0]
	size := sleepTexts + len(e.id.ID) + len(lack.rid)
	if size > slab.Most || len(e.id.ID) > 255 || len(lack.rid) > 255 {
		return false
	}
	space, ok := x.numbers[e.id.Namespace]
	if !ok {
		space = uint32(len(x.spaces))
		x.spaces = append(x.spaces, e.id.Namespace)
		x.numbers[e.id.Namespace] = space
	}
	byEntry, byShape, byLack := x.hash(space, e.id.ID), x.hashShape(s.key), x.hashLack(lack.rid)
	if x.byEntry[byEntry] != 0 || x.byShape[byShape] != 0 || x.byLack[byLack] != 0 {
		return false // of another one that has the same hash
	}
	p := x.slab.Keep(size)
	x.byEntry[byEntry], x.byShape[byShape], x.byLack[byLack] = p, p, p
	b := x.at(p)
	b.putLong(sleepPriority, int64(e.priority))
	b.putLong(sleepSubmitted, e.submitted)
	b.putLong(sleepLeast, int64(lack.least))
	b.putLong(sleepSeen, int64(s.seen))
	b.putLong(sleepCursor, int64(s.cursor))
	copy(b[sleepKey:], s.key[:])
	b.put(sleepSpace, space)
	b.put(sleepConflicts, uint32(e.conflicts))
	b.put(sleepNode, uint32(s.node))
	b[sleepID], b[sleepLack] = byte(len(e.id.ID)), byte(len(lack.rid))
	copy(b.id(), e.id.ID)
	copy(b.lack(), lack.rid)
	return true
}

// remove forgets the shape at p, and returns it, its entry and what it lacks.
func (x *sleepers) remove(p slab.Place) (*shape, entry, missing) {
	b := x.at(p)
	space := b.get(sleepSpace)
	s := &shape{key: b.key(), pos: -1, at: -1, node: int32(b.get(sleepNode)), seen: int(b.long(sleepSeen)), cursor: int(b.long(sleepCursor))}
	s.entries = s.onlyEntry[:0]
	e := entry{
		id: cluster.ID{Namespace: x.spaces[space], ID: string(b.id())}, submitted: b.long(sleepSubmitted),
		priority: int(b.long(sleepPriority)), conflicts: int32(b.get(sleepConflicts)),
	}
	lack := missing{types.ResourceID(b.lack()), types.Quantity(b.long(sleepLeast))}
	delete(x.byEntry, x.hash(space, e.id.ID))
	delete(x.byShape, x.hashShape(s.key))
	delete(x.byLack, x.hashLack(lack.rid))
	x.slab.Free(p)
	return s, e, lack
}

// sleep puts a waiting shape to sleep if it may be.
func (q *queue) sleep(s *shape) {
	if s.pos >= 0 || len(s.entries) != 1 || len(s.lacks) != 1 || s.until != 0 || s.resolved != nil {
		return
	}
	e := s.head()
	if e.bundles || e.deadline != 0 || q.waiting[s.lacks[0].rid].only != s || !q.asleep.add(s) {
		return
	}
	q.unwait(s)
	q.entries.remove(e)
	delete(q.shapes, s.key)
	q.shrink()
}

// rouse makes the shape at p anew; of 0 there is none.
func (q *queue) rouse(p slab.Place) *shape {
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

// rouseAll rouses all tasks of a namespace.
func (q *queue) rouseAll(ns string) {
	space, ok := q.asleep.numbers[ns]
	if !ok {
		return
	}
	for _, p := range q.asleep.byEntry {
		if q.asleep.at(p).get(sleepSpace) == space {
			q.rouse(p)
		}
	}
}

// worthShrinking is how many shapes there must have been to give up their room.
const worthShrinking = 1 << 14

// shrink gives up the room of what sleeps by now: maps and lists never do.
func (q *queue) shrink() {
	if q.most < worthShrinking || len(q.shapes) > q.most/8 {
		return
	}
	q.most = len(q.shapes)
	q.entries.byHash = roomless(q.entries.byHash)
	q.shapes = roomless(q.shapes)
	q.waiting = roomless(q.waiting)
	q.ready = append(make(heap.Heap[readyShape], 0, len(q.ready)), q.ready...)
}

// roomless returns a map of the same that has no more room than it needs.
func roomless[K comparable, V any](m map[K]V) map[K]V {
	out := make(map[K]V, len(m))
	for k, v := range m {
		out[k] = v
	}
	return out
}
