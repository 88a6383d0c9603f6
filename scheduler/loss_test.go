package scheduler

import (
	"fmt"
	"testing"
	"time"

	"github.com/escher-sched/escher/controlplane"
	"github.com/escher-sched/escher/types"
)

// TestStorms: many nodes that vanish at once indicate a network failure, and nothing is given up
// for a while. Nodes gone for long, or dead for good, make no storm, nor do they hide one among the
// remaining nodes.
func TestStorms(t *testing.T) {
	const nodes = 12
	b := newBench(t, Config{})
	name := func(kind string, i int) string { return fmt.Sprintf("%s%d", kind, i) }
	for i := range nodes {
		b.node(name("n", i), 1000)
		b.task(name("t", i), map[string]types.Quantity{"cpu": 500, "node/" + name("n", i): 1})
	}
	b.settle()
	lose := func(from, to int) {
		var gone []string
		for i := from; i < to; i++ {
			gone = append(gone, name("n", i))
		}
		b.lose(gone...)
	}
	givenUp := func(from, to int, want bool) {
		t.Helper()
		for i := from; i < to; i++ {
			if s := b.status(name("t", i)); (s.Phase == types.Pending) != want || s.Attempt != 1 {
				t.Errorf("%s is %s: given up should be %t", name("t", i), s.Phase, want)
			}
		}
	}
	later := func(d time.Duration) { b.now = b.now.Add(d); b.settle() }

	lose(0, 7) // of 12
	later(5*time.Minute - time.Second)
	givenUp(0, 7, false)
	later(time.Second)
	givenUp(0, 7, true)

	later(time.Hour)
	lose(7, 8) // of the 5 left: no storm
	givenUp(7, 8, true)

	later(time.Hour)
	lose(8, 11) // 3 of 4: a storm
	later(4 * time.Minute)
	givenUp(8, 11, false)
	b.put(controlplane.CordonKey("n8"), &types.Cordon{Dead: true})
	later(time.Second)
	givenUp(8, 11, true) // one is known to be dead, and the two others are no storm
	givenUp(11, 12, false)
}
