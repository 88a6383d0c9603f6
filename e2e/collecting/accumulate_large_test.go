package collecting

import (
	"fmt"
	"testing"
	"time"

	"github.com/escher-sched/escher/controlplane"
	"github.com/escher-sched/escher/controlplane/grants"
	"github.com/escher-sched/escher/types"
)

// TestAccumulatesOnVeryManyNodes: a reservation with more nodes than a transaction of a stock store
// holds accumulates in several, and before all later entries of the queue.
func TestAccumulatesOnVeryManyNodes(t *testing.T) {
	const nodes = 500
	b := newLimitedBench(t, controlplane.Limits{Ops: 128, Bytes: 1 << 20}, config{after: time.Second})
	var bundles []types.Bundle
	for i := range nodes {
		name := fmt.Sprintf("n%03d", i)
		b.node(name, 1000)
		b.task("on"+name, map[string]types.Quantity{"cpu": 400, "node/" + name: 1})
		bundles = append(bundles, bundleOf(map[string]types.Quantity{"cpu": 1000}))
	}
	b.settle()
	b.reserve(bundles...)
	b.task("small", map[string]types.Quantity{"cpu": 500})
	b.later(2 * time.Second)
	if g := b.grant(); g.Phase != types.Collecting || len(g.Nodes) != nodes {
		t.Fatalf("its grant is %s, on %d nodes", g.Phase, len(g.Nodes))
	}
	for _, at := range b.grant().Nodes {
		if grants.HeldOf(at.Holds, "cpu") != 600 {
			t.Fatalf("it holds %d of %s", grants.HeldOf(at.Holds, "cpu"), at.Node)
		}
	}
	b.expect("small", "pending")
	for i := range nodes {
		b.exited(fmt.Sprintf("onn%03d", i))
	}
	b.later(2 * time.Second)
	if g := b.grant(); g.Phase != types.Granted {
		t.Errorf("its grant is %s", g.Phase)
	}
}
