package collecting

import (
	"testing"
	"time"

	"github.com/escher-sched/escher/controlplane"
	"github.com/escher-sched/escher/types"
)

// slots sets the capacity of a pool.
func (b *bench) slots(n types.Quantity) {
	b.t.Helper()
	b.put(controlplane.ResourceKey("d", "slots", types.ClusterWide), &types.Resource{Capacity: n})
	b.settle()
}

// TestNothingIsCollectedForMoreThanAPoolHas: a reservation that exceeds the capacity of a pool does
// not begin to collect and does not block others. It begins once the pool is larger, and returns
// what it holds once the pool shrinks again.
func TestNothingIsCollectedForMoreThanAPoolHas(t *testing.T) {
	b := newAging(t)
	b.node("n1", 1000)
	b.node("n2", 1000)
	b.task("on1", map[string]types.Quantity{"cpu": 600, "node/n1": 1})
	b.settle()
	b.slots(1)
	both := bundleOf(map[string]types.Quantity{"cpu": 1000, "slots": 1})
	b.reserve(both, both)
	if g := b.grant(); g.Phase != "" {
		t.Fatalf("it has begun to collect: %+v", g)
	}
	b.slots(2)
	b.later(2 * time.Second)
	if g := b.grant(); g.Phase != types.Collecting {
		t.Fatalf("it has not begun to collect: %+v", g)
	}
	b.slots(1)
	b.later(2 * time.Second)
	if g := b.grant(); g.Phase != "" {
		t.Errorf("it goes on: %+v", g)
	}
	b.slots(2)
	b.exited("on1")
	b.later(2 * time.Second)
	b.later(2 * time.Second)
	if g := b.grant(); g.Phase != types.Granted {
		t.Errorf("it was not granted: %+v", g)
	}
}
