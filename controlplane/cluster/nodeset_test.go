package cluster

import (
	"slices"
	"testing"

	"pgregory.net/rapid"
)

// TestNodeSet checks that sets of all sizes hold each node once, at the right index.
func TestNodeSet(t *testing.T) {
	nodes := make([]*Node, 3*fewNodes)
	for i := range nodes {
		nodes[i] = &Node{}
	}
	rapid.Check(t, func(t *rapid.T) {
		var s nodeSet
		in := make(map[*Node]bool)
		for range rapid.IntRange(1, 100).Draw(t, "steps") {
			n := nodes[rapid.IntRange(0, len(nodes)-1).Draw(t, "node")]
			if in[n] = rapid.IntRange(0, 2).Draw(t, "add") > 0; in[n] {
				s.add(n)
			} else {
				s.remove(n)
			}
			for _, n := range nodes {
				if i := slices.Index(s.list, n); i != s.index(n) || i >= 0 != in[n] {
					t.Fatalf("at %d, said to be at %d, in it: %t", i, s.index(n), in[n])
				}
			}
		}
	})
}
