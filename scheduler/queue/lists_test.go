package queue

import (
	"fmt"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/escher-sched/escher/controlplane/cluster"
	"github.com/escher-sched/escher/types"
)

// TestShapeTexts: requests that place differently have different texts, whatever users call their
// resources and models, and other differences do not part a shape.
func TestShapeTexts(t *testing.T) {
	gpus := func(models ...string) []types.DeviceRequest {
		return []types.DeviceRequest{{Resource: "gpu", Models: models}}
	}
	task := func(t types.Task) string { return TaskText("a", cluster.NewTask(&t)) }
	requests := func(name string, q types.Quantity) types.Requests { return types.Requests{{Name: name, Amount: q}} }
	reserve := func(bundles ...types.Bundle) string {
		return ReservationText("a", &types.Reservation{Bundles: bundles})
	}
	after := []types.Alternative{{Requests: requests("x", 1)}, {After: time.Minute, Requests: requests("y", 1)}}
	distinct := []string{
		task(types.Task{}),
		task(types.Task{Requests: requests("x", 1)}),
		task(types.Task{Requests: requests("x", 36)}),
		task(types.Task{Requests: types.Requests{{Name: "x", Amount: 1}, {Name: "y", Amount: 1}}}),
		task(types.Task{MaxRun: time.Minute}),
		task(types.Task{MaxRun: time.Hour}),
		task(types.Task{Devices: gpus()}),
		task(types.Task{Devices: gpus("A", "B")}),
		task(types.Task{Devices: gpus("A,1:B")}),
		task(types.Task{Devices: gpus("A,B")}),
		task(types.Task{Devices: gpus("A1:B")}),
		task(types.Task{Devices: gpus("A>0~")}),
		task(types.Task{Devices: []types.DeviceRequest{{Resource: "gpu", MinMemory: 1}}}),
		task(types.Task{Devices: []types.DeviceRequest{{Resource: "gpu", Topology: types.OneNUMA}}}),
		task(types.Task{Alternatives: after}),
		task(types.Task{Alternatives: after[:1]}),
		task(types.Task{Alternatives: after, Priority: 1}),
		TaskText("b", cluster.NewTask(&types.Task{})),
		reserve(),
		reserve(types.Bundle{}),
		reserve(types.Bundle{}, types.Bundle{}),
		reserve(types.Bundle{Node: "n1"}),
		reserve(types.Bundle{Node: "n1"}, types.Bundle{}),
		reserve(types.Bundle{}, types.Bundle{Node: "n1"}),
		reserve(types.Bundle{Requests: requests("x", 1)}),
		reserve(types.Bundle{Devices: gpus("A")}),
	}
	seen := make(map[ShapeKey]int)
	for i, text := range distinct {
		key := textKey(text)
		if before, ok := seen[key]; ok {
			t.Errorf("%d and %d are one shape: %q", before, i, text)
		}
		seen[key] = i
	}
	if a, b := task(types.Task{Priority: 1, Name: "u", Job: "j", Submitted: 1, Retries: 2}), task(types.Task{}); a != b {
		t.Errorf("%q and %q are two shapes", a, b)
	}
}

// TestEntriesInOrder: the highest priority is first, then the oldest, then the first id. A
// reservation precedes a task of its id.
func TestEntriesInOrder(t *testing.T) {
	at := func(ns, id string, priority int, submitted int64, reservation bool) *Entry {
		return &Entry{ID: cluster.ID{Namespace: ns, ID: id}, Priority: priority, Submitted: submitted, Reservation: reservation}
	}
	want := []*Entry{
		at("z", "y", 1, 9, false), at("z", "z", 0, 1, false), at("a", "z", 0, 2, false), at("b", "a", 0, 2, false),
		at("b", "b", 0, 2, true), at("b", "b", 0, 2, false), at("a", "a", -1, 0, false),
	}
	for i, e := range want {
		for j, f := range want {
			if e.Before(f) != (i < j) {
				t.Errorf("%d before %d: %t", i, j, e.Before(f))
			}
		}
	}
	q := New()
	for i := range want {
		e := *want[len(want)-1-i]
		q.Add(e, textKey(strconv.Itoa(i%2)))
	}
	for i, e := range q.All() {
		if e.Key() != want[i].Key() {
			t.Errorf("%d is %+v, want %+v", i, e.Key(), want[i].Key())
		}
	}
	if ready, stalled, lacking := q.Counts(); ready != 2 || stalled != 0 || lacking != 0 || q.ToPlace() != len(want) {
		t.Errorf("%d ready, %d stalled, %d lacking, %d to place", ready, stalled, lacking, q.ToPlace())
	}
}

// TestDeadlines: the entry with the earliest deadline is overdue first, from that moment on, until
// it leaves the queue or its deadline changes.
func TestDeadlines(t *testing.T) {
	q := New()
	for name, deadline := range map[string]int64{"never": 0, "late": 30, "early": 10, "soon": 20} {
		q.Add(Entry{ID: id(name), Deadline: deadline}, textKey("s"))
	}
	overdue := func(now int64, want string) {
		t.Helper()
		switch e := q.Overdue(time.Unix(0, now)); {
		case e == nil && want != "", e != nil && e.ID != id(want):
			t.Errorf("at %d it is %+v, want %q; the next deadline is %d", now, e, want, q.Deadline())
		}
	}
	overdue(9, "")
	overdue(10, "early")
	overdue(50, "early")
	q.Remove(Key{ID: id("early")})
	overdue(50, "soon")
	q.Add(Entry{ID: id("soon"), Deadline: 40, Priority: 1}, textKey("s")) // raised
	overdue(50, "late")
	q.Take(q.Entry(Key{ID: id("late")}))
	if overdue(39, ""); q.Deadline() != 40 {
		t.Errorf("the next deadline is %d", q.Deadline())
	}
	q.Remove(Key{ID: id("soon")})
	if overdue(50, ""); q.Deadline() != 0 || q.Len() != 1 {
		t.Errorf("the next deadline is %d, of %d entries", q.Deadline(), q.Len())
	}
}

// TestLater: a task is due once, at the time that was set last.
func TestLater(t *testing.T) {
	l := NewLater()
	if l.Next() != 0 || l.Len() != 0 {
		t.Error("nothing is set")
	}
	for i, at := range []int64{30, 10, 20, 10} {
		l.Set(id(fmt.Sprint(i)), at)
	}
	l.Set(id("0"), 15) // sooner
	l.Set(id("2"), 40) // later
	l.Set(id("3"), 10) // the same
	l.Forget(id("1"))
	var got []string
	due := func(now int64) {
		for x, ok := l.Due(time.Unix(0, now)); ok; x, ok = l.Due(time.Unix(0, now)) {
			got = append(got, fmt.Sprint(now, ":", x.ID))
		}
	}
	for _, now := range []int64{9, 10, 14, 15, 39, 40, 99} {
		due(now)
	}
	if want := []string{"10:3", "15:0", "40:2"}; !slices.Equal(got, want) || l.Len() != 0 || l.Next() != 0 {
		t.Errorf("due are %v, want %v; %d are left, the next at %d", got, want, l.Len(), l.Next())
	}
}

// TestFifo: an element is in it once, the first refused one and those behind it stay, and what is
// pushed meanwhile follows.
func TestFifo(t *testing.T) {
	var f Fifo[string]
	for _, x := range []string{"a", "b", "a", "c"} {
		f.Push(x)
	}
	var got []string
	f.Drain(func(x string) bool {
		got = append(got, x)
		if x == "a" {
			f.Push("a") // again, as it is out
			f.Push("c") // it is in
		}
		return x != "c"
	})
	if !slices.Equal(got, []string{"a", "b", "c"}) || !slices.Equal(f.list, []string{"c", "a"}) || f.Len() != len(f.in) {
		t.Errorf("drained %v, left %v, in %v", got, f.list, f.in)
	}
	f.Push("c")
	f.Drain(func(x string) bool { got = append(got, x); return true })
	if !slices.Equal(got[3:], []string{"c", "a"}) || f.Len() != 0 || len(f.in) != 0 {
		t.Errorf("drained %v, left %v, in %v", got[3:], f.list, f.in)
	}
}

// TestRetryANamespace: every entry of a namespace is tried again as if for the first time, parked
// ones too, and others rest.
func TestRetryANamespace(t *testing.T) {
	q := New()
	for _, ns := range []string{"a", "b"} {
		for i := range 3 {
			q.Add(Entry{ID: cluster.ID{Namespace: ns, ID: fmt.Sprint(i)}}, textKey(fmt.Sprint(ns, i)))
		}
	}
	for s := q.First(); s != nil; s = q.First() {
		s.Seen = 5
		q.Rest(s)
		switch s.Head().ID.ID {
		case "0":
			q.Wait(s, []types.ResourceID{types.ResourceID("d:" + s.Head().ID.Namespace)})
			q.Park(s)
		case "1":
			q.Wait(s, []types.ResourceID{types.CPU, types.GPU})
		case "2":
			q.Stall(s)
		}
	}
	if ready, stalled, lacking := q.Counts(); ready != 0 || stalled != 2 || lacking != 4 || q.Parked() != 2 {
		t.Errorf("%d ready, %d stalled, %d lacking, %d parked", ready, stalled, lacking, q.Parked())
	}
	q.Retry("a")
	if ready, _, _ := q.Counts(); ready != 3 || q.Parked() != 1 {
		t.Errorf("%d are ready, %d parked", ready, q.Parked())
	}
	for _, e := range q.All() {
		if retried := e.ID.Namespace == "a"; e.Shape.IsReady() != retried || (e.Shape.Seen == -1) != retried || retried && len(e.Shape.Lacking()) > 0 {
			t.Errorf("%v is ready: %t, has seen %d, lacks %v", e.ID, e.Shape.IsReady(), e.Shape.Seen, e.Shape.Lacking())
		}
	}
	if q.Unstall(); !q.Entry(Key{ID: cluster.ID{Namespace: "b", ID: "2"}}).Shape.IsReady() || q.ToPlace() != 4 {
		t.Errorf("%d are to be placed", q.ToPlace())
	}
}

// TestWakeByAmount: more of a resource wakes the shapes that it may be enough for, by the least
// amount of their alternatives, and those whose amount is unknown.
func TestWakeByAmount(t *testing.T) {
	q := New()
	needs := func(amounts ...types.Quantity) [][]cluster.Need {
		var out [][]cluster.Need
		for _, x := range amounts {
			out = append(out, []cluster.Need{{ID: types.GPU, Amount: x}, {ID: types.CPU, Amount: 1}})
		}
		return out
	}
	for name, resolved := range map[string][][]cluster.Need{"two": needs(2), "four": needs(4), "nine or three": needs(9, 3), "unknown": nil, "other": needs(1)} {
		q.Add(Entry{ID: id(name)}, textKey(name))
		s := q.Entry(Key{ID: id(name)}).Shape
		s.Resolved = resolved
		q.Rest(s)
		q.Wait(s, []types.ResourceID{types.CPU, types.GPU, types.CPU})
	}
	for _, step := range []struct {
		most types.Quantity
		want []string
	}{{0, []string{"unknown"}}, {1, []string{"other"}}, {1, nil}, {3, []string{"nine or three", "two"}}, {types.Inf, []string{"four"}}} {
		var got []string
		q.WakeIf(types.GPU, step.most, func(s *Shape) bool {
			got = append(got, s.Head().ID.ID)
			return true
		})
		slices.Sort(got)
		if !slices.Equal(got, step.want) {
			t.Errorf("%d wakes %v, want %v", step.most, got, step.want)
		}
	}
	if len(q.waiting) != 0 || q.ToPlace() != 5 {
		t.Errorf("%d resources are waited for, %d to place", len(q.waiting), q.ToPlace())
	}
}
