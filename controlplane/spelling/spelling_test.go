package spelling_test

import (
	"strings"
	"testing"

	"github.com/escher-sched/escher/controlplane/spelling"
)

// TestDistance checks that suggestions for a mistyped name are near it.
func TestDistance(t *testing.T) {
	for _, c := range []struct {
		typed, name string
		distance    int
		near        bool
	}{
		{"wiht", "with", 1, true},
		{"Train", "train", 0, true},
		{"tarin", "train", 1, true},
		{"fech", "fetch", 1, true},
		{"fetch", "batch", 2, false},
		{"q", "x", 1, false},
		{"at", "in", 2, false},
		{"limitt", "limit", 1, true},
		{"preprocess", "preporcesed", 3, true},
		{"preprocessing", "fetch", 11, false},
		{strings.Repeat("y", 100_000), "pack", 100_000, false},
		{"", "a", 1, false},
		{"", "", 0, false},
	} {
		if distance, near := spelling.Distance(c.typed, c.name); distance != c.distance || near != c.near {
			t.Errorf("%q is %d away from %q, near %t: want %d, %t", c.name, distance, c.typed, near, c.distance, c.near)
		}
	}
}
