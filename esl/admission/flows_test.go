package admission

import (
	"strings"
	"testing"
)

// TestFlowsTakeTurns lets flows with a weight and units of some tasks take turns, and compares the order in
// which tasks are admitted with that of start-time fair queuing.
func TestFlowsTakeTurns(t *testing.T) {
	type of struct {
		weight float64
		units  []int   // sizes
		last   float64 // -1 means new
		begun  int
	}
	for name, c := range map[string]struct {
		now   float64
		flows map[string]of
		want  string
	}{
		"equal weights":          {0, map[string]of{"a": {1, []int{1, 1, 1}, -1, 0}, "b": {1, []int{1, 1, 1}, -1, 0}}, "ababab"},
		"three to one":           {0, map[string]of{"a": {3, []int{1, 1, 1, 1, 1, 1}, -1, 0}, "b": {1, []int{1, 1}, -1, 0}}, "abaaabaa"},
		"the rest when one ends": {0, map[string]of{"a": {1, []int{1, 1, 1}, -1, 0}, "b": {1, []int{1}, -1, 0}}, "abaa"},
		"idle saves no turns":    {5, map[string]of{"a": {1, []int{1, 1, 1}, 1, 0}, "b": {1, []int{1, 1}, 5, 0}}, "aabab"},
		"a gang is many turns":   {0, map[string]of{"a": {1, []int{3, 1}, -1, 0}, "b": {1, []int{1, 1, 1, 1}, -1, 0}}, "aaababbb"},
		"partly open first":      {0, map[string]of{"a": {1, []int{1, 1}, -1, 0}, "b": {0.1, []int{1, 1}, 30, 1}}, "baab"},
	} {
		q := &flows{byName: make(map[string]*flow), now: c.now}
		for name, x := range c.flows {
			f := &flow{name: name, weight: x.weight, last: max(0, x.last), none: x.last < 0, begun: x.begun}
			for _, n := range x.units {
				f.waiting = append(f.waiting, make(unit, n))
			}
			q.byName[name] = f
		}
		got := ""
		for f := q.first(); f != nil; f = q.first() {
			got += strings.Repeat(f.name, len(q.admit(f, 100, 100)))
		}
		if got != c.want {
			t.Errorf("%s: %s, want %s", name, got, c.want)
		}
		if q.inside != len(got) {
			t.Errorf("%s: %d are inside, want %d", name, q.inside, len(got))
		}
	}
}

// TestFlowsAdmitInParts takes a unit that is larger than a plan in parts, and none that is larger than the
// room.
func TestFlowsAdmitInParts(t *testing.T) {
	f := &flow{name: "a", weight: 1, none: true, waiting: []unit{make(unit, 5)}}
	q := &flows{byName: map[string]*flow{"a": f}}
	if in := q.admit(f, 4, 100); len(in) != 0 || f.moved {
		t.Errorf("%d of 5 are admitted into room for 4", len(in))
	}
	for _, want := range []int{2, 2, 1} {
		if in := q.admit(f, 5, 2); len(in) != want {
			t.Errorf("admitted %d, want %d", len(in), want)
		}
	}
	if q.over(f) {
		t.Error("the note of a flow with tasks inside is over")
	}
	f.inside, q.inside = 0, 0
	if sets := q.notes(); !q.over(f) || len(sets) != 1 || sets[0].Capacity != 1+4*tagUnit {
		t.Errorf("the note is %+v, and over: %v", sets, q.over(f))
	}
}
