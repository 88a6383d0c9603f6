package scheduler

import (
	"fmt"
	"reflect"
	"testing"

	"github.com/escher-sched/escher/controlplane/cluster"
	"github.com/escher-sched/escher/types"
)

// TestSleeperIsTheSame: a restored shape equals the parked one.
func TestSleeperIsTheSame(t *testing.T) {
	q := newQueue()
	q.add(Entry{id: id("t"), priority: -3, submitted: 1 << 60, conflicts: 2}, textKey("s"))
	s := q.shapes[textKey("s")]
	s.seen, s.cursor, s.node = 7, 1<<40, 5
	q.rest(s)
	q.wait(s, []types.ResourceID{"d:x"})
	q.sleep(s)
	if len(q.shapes) > 0 || q.asleep.Len() != 1 {
		t.Fatalf("%d shapes, %d asleep", len(q.shapes), q.asleep.Len())
	}
	got := q.entry(entryKey{id: id("t")}).shape
	if q.asleep.Len() != 0 || q.waiting["d:x"].only != got || q.shapes[textKey("s")] != got {
		t.Errorf("it is not awake")
	}
	for _, x := range []*shape{s, got} {
		x.first.shape, x.entries, x.lacks = nil, nil, nil
		x.onlyEntry[0] = nil
	}
	if s.onlyLack = got.onlyLack; !reflect.DeepEqual(got, s) {
		t.Errorf("got %+v, want %+v", got, s)
	}
}

// TestSleepersOfOneHash: a shape whose hash collides is not parked.
func TestSleepersOfOneHash(t *testing.T) {
	q := newQueue()
	q.asleep.Mask = 0
	for i := range 3 {
		id := id(fmt.Sprint("t", i))
		q.add(Entry{id: id}, textKey(id.ID))
		s := q.shapes[textKey(id.ID)]
		q.rest(s)
		q.wait(s, []types.ResourceID{types.ResourceID("d:" + id.ID)})
		q.sleep(s)
	}
	if q.asleep.Len() != 1 || q.len() != 3 {
		t.Errorf("%d asleep, %d in all", q.asleep.Len(), q.len())
	}
	for i := range 3 {
		if q.entry(entryKey{id: id(fmt.Sprint("t", i))}) == nil {
			t.Errorf("t%d is lost", i)
		}
	}
}

// TestShrinks: lists that a million shapes needed while they were tried are freed when those are
// parked.
func TestShrinks(t *testing.T) {
	q := newQueue()
	const shapes = worthShrinking + worthShrinking/2
	for i := range shapes {
		q.add(Entry{id: id(fmt.Sprint(i))}, textKey(fmt.Sprint(i)))
	}
	for s := q.first(); s != nil; s = q.first() {
		q.rest(s)
		q.wait(s, []types.ResourceID{types.ResourceID("d:" + s.head().id.ID)})
		q.sleep(s)
	}
	if q.parked() != shapes || len(q.shapes) > 0 || cap(q.ready) > worthShrinking {
		t.Errorf("%d parked, %d not, room for %d", q.parked(), len(q.shapes), cap(q.ready))
	}
}

// id returns the id of a task.
func id(name string) cluster.ID { return cluster.ID{Namespace: "d", ID: name} }
