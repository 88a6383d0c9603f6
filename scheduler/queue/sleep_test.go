package queue

import (
	"fmt"
	"reflect"
	"testing"

	"github.com/escher-sched/escher/controlplane/cluster"
	"github.com/escher-sched/escher/types"
)

// TestSleeperIsTheSame: a restored shape equals the parked one.
func TestSleeperIsTheSame(t *testing.T) {
	q := New()
	q.Add(Entry{ID: id("t"), Priority: -3, Submitted: 1 << 60, Conflicts: 2}, textKey("s"))
	s := q.shapes[textKey("s")]
	s.Seen, s.Cursor, s.node = 7, 1<<40, 5
	q.Rest(s)
	q.Wait(s, []types.ResourceID{"d:x"})
	q.Park(s)
	if len(q.shapes) > 0 || q.asleep.Len() != 1 {
		t.Fatalf("%d shapes, %d asleep", len(q.shapes), q.asleep.Len())
	}
	got := q.Entry(Key{ID: id("t")}).Shape
	if q.asleep.Len() != 0 || q.waiting["d:x"].only != got || q.shapes[textKey("s")] != got {
		t.Errorf("it is not awake")
	}
	for _, x := range []*Shape{s, got} {
		x.first.Shape, x.entries, x.lacks = nil, nil, nil
		x.onlyEntry[0] = nil
	}
	if s.onlyLack = got.onlyLack; !reflect.DeepEqual(got, s) {
		t.Errorf("got %+v, want %+v", got, s)
	}
}

// TestSleepersOfOneHash: a shape whose hash collides is not parked.
func TestSleepersOfOneHash(t *testing.T) {
	q := New()
	q.asleep.Mask = 0
	for i := range 3 {
		id := id(fmt.Sprint("t", i))
		q.Add(Entry{ID: id}, textKey(id.ID))
		s := q.shapes[textKey(id.ID)]
		q.Rest(s)
		q.Wait(s, []types.ResourceID{types.ResourceID("d:" + id.ID)})
		q.Park(s)
	}
	if q.asleep.Len() != 1 || q.Len() != 3 {
		t.Errorf("%d asleep, %d in all", q.asleep.Len(), q.Len())
	}
	for i := range 3 {
		if q.Entry(Key{ID: id(fmt.Sprint("t", i))}) == nil {
			t.Errorf("t%d is lost", i)
		}
	}
}

// TestShrinks: lists that a million shapes needed while they were tried are freed when those are
// parked.
func TestShrinks(t *testing.T) {
	q := New()
	const shapes = worthShrinking + worthShrinking/2
	for i := range shapes {
		q.Add(Entry{ID: id(fmt.Sprint(i))}, textKey(fmt.Sprint(i)))
	}
	for s := q.First(); s != nil; s = q.First() {
		q.Rest(s)
		q.Wait(s, []types.ResourceID{types.ResourceID("d:" + s.Head().ID.ID)})
		q.Park(s)
	}
	if q.Parked() != shapes || len(q.shapes) > 0 || cap(q.ready) > worthShrinking {
		t.Errorf("%d parked, %d not, room for %d", q.Parked(), len(q.shapes), cap(q.ready))
	}
}

// id returns the id of a task.
func id(name string) cluster.ID { return cluster.ID{Namespace: "d", ID: name} }
