package match

import (
	"testing"

	"github.com/escher-sched/escher/types"
)

// TestNextSkipsFullNodes: Next finds exactly the nodes that have enough, from any place on.
func TestNextSkipsFullNodes(t *testing.T) {
	var l list
	for i := range 300 {
		l.set(i, types.Quantity(i%97))
	}
	for i := range 150 {
		l.set(i, 5) // the largest of their blocks is too high
	}
	for from := range 300 {
		for range 2 { // the second time the blocks are exact
			want := from
			for want < 300 && l.free[want] < 90 {
				want++
			}
			if got := Next([]Filter{{&l, 90}}, from, 300); got != want {
				t.Fatalf("from %d: %d, want %d", from, got, want)
			}
		}
	}
}
