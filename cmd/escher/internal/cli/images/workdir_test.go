package images

import (
	"fmt"
	"slices"
	"testing"
)

// TestNearest tests that a directory goes to the same nodes as before, also when some join or leave.
func TestNearest(t *testing.T) {
	var names []string
	for i := range 100 {
		names = append(names, fmt.Sprintf("node-%d", i))
	}
	first := nearest("/code", names)
	if len(first) != maxWorkdirNodes {
		t.Errorf("sent to %d nodes, want %d", len(first), maxWorkdirNodes)
	}
	backwards := slices.Clone(names)
	slices.Reverse(backwards)
	if again := nearest("/code", backwards); !slices.Equal(again, first) {
		t.Errorf("sent to %q, then to %q", first, again)
	}
	if other := nearest("/other", names); slices.Equal(other, first) {
		t.Error("two directories go to the same nodes")
	}
	left := slices.DeleteFunc(slices.Clone(names), func(n string) bool { return n == first[3] })
	kept := 0
	for _, n := range nearest("/code", append(left, "joined")) {
		if slices.Contains(first, n) {
			kept++
		}
	}
	if kept < maxWorkdirNodes-2 {
		t.Errorf("after one left and one joined, %d of %d nodes are the same", kept, maxWorkdirNodes)
	}
	if few := nearest("/code", []string{"b", "a"}); len(few) != 2 {
		t.Errorf("sent to %q, want both", few)
	}
}

func TestSome(t *testing.T) {
	for want, all := range map[string][]string{"a": {"a"}, "a, b, c": {"a", "b", "c"}, "a, b, c, …": {"a", "b", "c", "d"}} {
		if got := some(all); got != want {
			t.Errorf("%q is %q, want %q", all, got, want)
		}
	}
}
