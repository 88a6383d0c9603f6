package queue

import (
	"fmt"
	"testing"
	"time"
	"unsafe"

	"pgregory.net/rapid"

	"github.com/escher-sched/escher/controlplane/cluster"
	"github.com/escher-sched/escher/types"
)

// queueModel is a queue with a model of its contents.
type queueModel struct {
	q *Queue
	// in are the entries by key.
	in map[Key]*Entry
	// shape is the key of the shape of each entry.
	shape map[Key]ShapeKey
	// rested are the waiting shapes, with what they lack.
	rested map[ShapeKey]types.ResourceID
	n      int
}

func textKey(text string) ShapeKey { return KeyOf([]byte(text)) }

func (m *queueModel) add(t *rapid.T) {
	m.n++
	e := &Entry{
		ID:        cluster.ID{Namespace: "a", ID: fmt.Sprint(rapid.IntRange(0, 30).Draw(t, "id"))},
		Priority:  rapid.IntRange(0, 2).Draw(t, "priority"),
		Submitted: int64(rapid.IntRange(0, 5).Draw(t, "submitted")),
	}
	key := textKey(fmt.Sprint("s", rapid.IntRange(0, 4).Draw(t, "shape")))
	m.q.Add(*e, key)
	k := Key{e.ID, false}
	if was := m.in[k]; was != nil {
		if m.shape[k] == key && was.Priority == e.Priority && was.Submitted == e.Submitted {
			return
		}
		m.forget(k)
	}
	m.in[k], m.shape[k] = e, key
}

// forget removes an entry from the model, and a shape without entries.
func (m *queueModel) forget(k Key) {
	shape := m.shape[k]
	delete(m.in, k)
	delete(m.shape, k)
	for _, s := range m.shape {
		if s == shape {
			return
		}
	}
	delete(m.rested, shape)
}

func (m *queueModel) remove(t *rapid.T) {
	k := Key{cluster.ID{Namespace: "a", ID: fmt.Sprint(rapid.IntRange(0, 30).Draw(t, "id"))}, false}
	m.q.Remove(k)
	if m.in[k] != nil {
		m.forget(k)
	}
}

// take treats the first ready shape like the core: it places its head or makes the shape wait.
func (m *queueModel) take(t *rapid.T) {
	if len(m.q.ready) == 0 {
		return
	}
	s := m.q.ready[0].Shape
	for k, e := range m.in {
		if _, rests := m.rested[m.shape[k]]; !rests && e.Before(s.Head()) {
			t.Fatalf("%v is first, and %v is before it", s.Head().ID, e.ID)
		}
	}
	m.placeOrRest(t, s)
}

func (m *queueModel) placeOrRest(t *rapid.T, s *Shape) {
	if rapid.Bool().Draw(t, "placed") {
		k := Key{s.Head().ID, false}
		m.q.Remove(k)
		m.forget(k)
		return
	}
	lacks := types.ResourceID(fmt.Sprint("r", rapid.IntRange(0, 2).Draw(t, "lacks")))
	m.q.Rest(s)
	m.q.Wait(s, []types.ResourceID{lacks})
	m.rested[s.key] = lacks
}

// beside treats the first shape pinned to a node like the core out of turn: it places its head or
// makes the shape wait.
func (m *queueModel) beside(t *rapid.T) {
	if s := m.q.PinnedTo(rapid.IntRange(0, 1).Draw(t, "node")); s != nil {
		m.placeOrRest(t, s)
	}
}

// pin pins a shape.
func (m *queueModel) pin(t *rapid.T) {
	if s := m.q.shapes[textKey(fmt.Sprint("s", rapid.IntRange(0, 4).Draw(t, "shape")))]; s != nil {
		m.q.Pin(s, rapid.IntRange(Nowhere, 1).Draw(t, "node"))
	}
}

// sleep parks a shape if it qualifies.
func (m *queueModel) sleep(t *rapid.T) {
	if s := m.q.shapes[textKey(fmt.Sprint("s", rapid.IntRange(0, 4).Draw(t, "shape")))]; s != nil {
		m.q.Park(s)
	}
}

func (m *queueModel) wake(t *rapid.T) {
	rid := types.ResourceID(fmt.Sprint("r", rapid.IntRange(0, 2).Draw(t, "rid")))
	m.q.Wake(rid)
	for key, lacks := range m.rested {
		if lacks == rid {
			delete(m.rested, key)
		}
	}
}

func (m *queueModel) check(t *rapid.T) {
	if n := m.q.Len(); n != len(m.in) {
		t.Fatalf("%d entries, want %d", n, len(m.in))
	}
	ready := 0
	for key, s := range m.q.shapes {
		_, rests := m.rested[key]
		switch {
		case len(s.entries) == 0:
			t.Fatalf("shape %x is empty", key)
		case rests == (s.pos >= 0):
			t.Fatalf("shape %x is at %d, and rests: %t", key, s.pos, rests)
		case s.pos >= 0 && m.q.ready[s.pos].Shape != s:
			t.Fatalf("shape %x is not at %d", key, s.pos)
		}
		if !rests {
			ready++
		}
	}
	toPlace := 0
	for _, s := range m.q.ready {
		toPlace += len(s.entries)
	}
	if m.q.toPlace != toPlace {
		t.Fatalf("%d to be placed, want %d", m.q.toPlace, toPlace)
	}
	if len(m.q.ready) != ready {
		t.Fatalf("%d ready, want %d", len(m.q.ready), ready)
	}
	pinned := 0
	for node, list := range m.q.pinned {
		for i, s := range list {
			if pinned++; int(s.node) != node || int(s.at) != i || s.pos < 0 {
				t.Fatalf("%x is pinned to %d, at %d, and at %d of what is ready: listed at %d, %d", s.key, s.node, s.at, s.pos, node, i)
			}
			if s.Head().Before(list[0].Head()) {
				t.Fatalf("%v is first at %d, and %v is before it", list[0].Head().ID, node, s.Head().ID)
			}
		}
	}
	for _, s := range m.q.ready {
		if s.node != Nowhere {
			pinned--
		}
	}
	if pinned != 0 {
		t.Fatalf("%d too many are listed as pinned", pinned)
	}
	listed := 0
	for rid := range m.q.waiting {
		m.q.Lacking(rid, types.Inf, func(s *Shape) {
			if listed++; m.rested[s.key] != rid {
				t.Fatalf("%x waits for %s, want %s", s.key, rid, m.rested[s.key])
			}
		})
	}
	for p := range m.q.asleep.All() {
		key, lacks := m.q.asleep.key(p), m.q.asleep.lacks(p)
		if listed++; m.rested[key] != types.ResourceID(lacks) {
			t.Fatalf("%x is asleep until there is %s, want %s", key, lacks, m.rested[key])
		}
	}
	if listed != len(m.rested) {
		t.Fatalf("%d are listed, want %d", listed, len(m.rested))
	}
}

func TestQueue(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		m := &queueModel{q: New(), in: make(map[Key]*Entry), shape: make(map[Key]ShapeKey), rested: make(map[ShapeKey]types.ResourceID)}
		m.q.asleep.Mask = rapid.SampledFrom([]uint64{^uint64(0), 3, 0}).Draw(t, "mask")
		t.Repeat(map[string]func(*rapid.T){
			"add": m.add, "remove": m.remove, "take": m.take, "wake": m.wake, "beside": m.beside, "pin": m.pin, "sleep": m.sleep, "": m.check,
		})
	})
}

// TestPinnedInOrder: the first shape pinned to a node is the one with the first head, also after
// changes.
func TestPinnedInOrder(t *testing.T) {
	q := New()
	add := func(shape string, submitted int64) {
		q.Add(Entry{ID: cluster.ID{ID: fmt.Sprint(submitted)}, Submitted: submitted}, textKey(shape))
	}
	first := func(want int64) {
		t.Helper()
		if s := q.PinnedTo(0); s == nil || s.Head().Submitted != want {
			t.Fatalf("the first is %v, want %d", s, want)
		}
	}
	add("a", 1)
	add("a", 5)
	add("b", 3)
	q.Pin(q.shapes[textKey("a")], 0)
	q.Pin(q.shapes[textKey("b")], 0)
	first(1)
	q.Remove(Key{ID: cluster.ID{ID: "1"}})
	first(3)
	add("a", 2)
	first(2)
}

func TestQueueWakesAtMoments(t *testing.T) {
	q := New()
	a, b := textKey("a"), textKey("b")
	q.Add(Entry{ID: cluster.ID{ID: "1"}}, a)
	q.Add(Entry{ID: cluster.ID{ID: "2"}}, b)
	for range 2 {
		s := q.ready[0].Shape
		q.Rest(s)
		q.Wait(s, nil)
	}
	q.WakeAt(q.shapes[a], 100)
	q.WakeAt(q.shapes[a], 50) // an earlier one overrides
	q.WakeAt(q.shapes[b], 70)
	if next := q.Expire(time.Unix(0, 49)); next != 50 || len(q.ready) != 0 {
		t.Errorf("next is %d, %d are ready", next, len(q.ready))
	}
	if next := q.Expire(time.Unix(0, 50)); next != 70 || len(q.ready) != 1 || q.ready[0].key != a {
		t.Errorf("next is %d, %d are ready", next, len(q.ready))
	}
	q.Remove(Key{ID: cluster.ID{ID: "2"}})
	if next := q.Expire(time.Unix(0, 60)); next != 0 {
		t.Errorf("next is %d, of a shape that is gone", next)
	}
}

// TestNothingIsListedOfWhatIsGone: a removed shape that lacked several resources is listed under
// none.
func TestNothingIsListedOfWhatIsGone(t *testing.T) {
	q := New()
	for _, id := range []string{"1", "2"} {
		q.Add(Entry{ID: cluster.ID{ID: id}}, textKey(id))
		s := q.ready[0].Shape
		s.Resolved = [][]cluster.Need{{{ID: "a", Amount: 1}, {ID: "b", Amount: 2}}}
		q.Rest(s)
		q.Wait(s, []types.ResourceID{"a", "b"})
	}
	for _, id := range []string{"1", "2"} {
		q.Remove(Key{ID: cluster.ID{ID: id}})
	}
	if len(q.waiting) != 0 {
		t.Errorf("there is still %+v", q.waiting)
	}
}

// TestEntriesOfOneHash: entries with equal hashes stay distinct.
func TestEntriesOfOneHash(t *testing.T) {
	x := newEntries()
	a, b := &Entry{ID: cluster.ID{ID: "a"}}, &Entry{ID: cluster.ID{ID: "b"}}
	x.byHash[x.hash(b.Key())] = a // as if it were the hash of a, too
	x.put(b)
	if x.get(b.Key()) != b || x.len() != 2 {
		t.Error("it is not found")
	}
	x.remove(b)
	if x.get(b.Key()) != nil || x.len() != 1 {
		t.Error("it is still there")
	}
}

// TestShapeIsSmall: a million tasks may wait, each with its own shape.
func TestShapeIsSmall(t *testing.T) {
	if size := unsafe.Sizeof(Shape{}); size > 256 {
		t.Errorf("a shape takes %d bytes", size)
	}
}
