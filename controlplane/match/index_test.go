package match

import (
	"testing"

	"github.com/escher-sched/escher/types"
)

// TestNextSkipsFullNodes: exactly the nodes that have enough are found, from any
// place on.
func TestNextSkipsFullNodes(t *testing.T) {
	var l list
	for i := range 300 {
		l.set(i, types.Quantity(i%97))
	}
	for i := range 150 {
		l.set(i, 5) // the most of their blocks is known to be more
	}
	for from := range 300 {
		for range 2 { // the second time the blocks are known
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
