package scheduler

import (
	"fmt"
	"strings"
	"testing"

	"github.com/escher-sched/escher/controlplane"
	"github.com/escher-sched/escher/controlplane/memstore"
	"github.com/escher-sched/escher/types"
)

// newLimitedBench is a bench on a store that accepts only small transactions.
func newLimitedBench(t *testing.T, limits controlplane.Limits, cfg Config) *bench {
	cfg.Limits = limits
	b := newBench(t, cfg)
	b.store = memstore.New(memstore.WithLimits(limits))
	return b
}

// TestTooLargeForATransaction: a task that can never commit does not block others.
func TestTooLargeForATransaction(t *testing.T) {
	b := newLimitedBench(t, controlplane.Limits{Ops: 128, Bytes: 1 << 20}, Config{})
	b.node("n1", 4000)
	many := make(map[string]types.Quantity)
	for i := range 60 {
		name := fmt.Sprintf("x%02d", i)
		b.put(controlplane.ResourceKey("d", name, types.EveryNode), &types.Resource{Capacity: 1000})
		many[name] = 10
	}
	b.task("large", many, func(t *types.Task) { t.Priority = 9 })
	b.put(controlplane.ReservationKey("d", "r"), &types.Reservation{Priority: 8, Bundles: []types.Bundle{{Requests: types.NewRequests(many)}}})
	for i := range 50 {
		b.task(fmt.Sprintf("small%d", i), map[string]types.Quantity{"cpu": 10, "x00": 10})
	}
	b.settle()
	b.expect("large", "pending")
	for i := range 50 {
		b.expect(fmt.Sprintf("small%d", i), "bound on n1")
	}
	if b.core.InFlight() > 0 || len(b.core.locks) > 0 {
		t.Errorf("%d in flight, %d locked", b.core.InFlight(), len(b.core.locks))
	}
}

// TestTransactionsFitTheStore: no transaction exceeds the limits of the store, whatever the amount
// of work.
func TestTransactionsFitTheStore(t *testing.T) {
	b := newLimitedBench(t, controlplane.Limits{Ops: 40, Bytes: 1 << 20}, Config{})
	b.put(controlplane.ResourceKey("d", "lic", types.ClusterWide), &types.Resource{Capacity: types.Inf})
	for i := range 10 {
		b.node(fmt.Sprintf("n%d", i), 8000)
	}
	for i := range 10 {
		id := fmt.Sprintf("r%d", i)
		b.put(controlplane.ReservationKey("d", id), &types.Reservation{Bundles: []types.Bundle{
			{Requests: types.NewRequests(map[string]types.Quantity{"cpu": 2000, "lic": 1})},
			{Requests: types.NewRequests(map[string]types.Quantity{"cpu": 1000})},
		}})
		b.task("drawn-"+id, map[string]types.Quantity{"cpu@" + id: 500, "lic@" + id: 1}, func(t *types.Task) {
			t.Provides = []types.Provide{{Name: "p", Amount: 1, When: types.WhenSucceeded}, {Name: "q", Amount: 1, When: types.WhenBound}}
		})
	}
	for i := range 100 {
		b.task(fmt.Sprintf("t%d", i), map[string]types.Quantity{"cpu": 100, "lic": 1})
	}
	b.settle()
	for i := range 10 {
		b.del(controlplane.ReservationKey("d", fmt.Sprintf("r%d", i)))
	}
	b.settle()
	for name, n := range b.core.view.Nodes {
		for _, x := range n.Bindings {
			b.put(controlplane.ReportKey(name, "d", x.Task.ID.ID, x.Number), &types.Report{Phase: types.ReportExited, Binding: x.Info.Create})
		}
	}
	b.settle()
	for task := range b.core.view.Tasks() {
		id := task.ID
		if task.Phase() != types.Succeeded {
			t.Errorf("%s is %s", id, task.Phase())
		}
	}
	for name, n := range b.core.view.Nodes {
		if n.Used("cpu") != 0 {
			t.Error(name, n.Allocated.V)
		}
	}
}

// TestRefusedForGood: a transaction that the store refuses for good is split.
func TestRefusedForGood(t *testing.T) {
	// The core assumes larger limits than the store has.
	b := newBench(t, Config{Limits: controlplane.Limits{Ops: 4096, Bytes: 1 << 20}})
	b.store = memstore.New(memstore.WithLimits(controlplane.Limits{Ops: 12, Bytes: 1 << 20}))
	b.node("n1", 4000)
	for i := range 20 {
		b.task(fmt.Sprintf("t%d", i), map[string]types.Quantity{"cpu": 10})
	}
	b.settle()
	for i := range 20 {
		b.expect(fmt.Sprintf("t%d", i), "bound on n1")
	}
}

// TestNodeHoldsNotTooManyResources: the account of a node does not outgrow the store, however many
// resources tasks request. Tasks that need only allocated ones continue.
func TestNodeHoldsNotTooManyResources(t *testing.T) {
	b := newLimitedBench(t, controlplane.Limits{Ops: 4096, Bytes: 1 << 20}, Config{})
	b.node("n1", 1_000_000)
	long := strings.Repeat("x", types.MaxName-5)
	name := func(i int) string { return fmt.Sprintf("%s%05d", long, i) }
	for i := range types.MaxHeld + 200 {
		b.put(controlplane.ResourceKey("d", name(i), types.EveryNode), &types.Resource{Capacity: types.Inf})
	}
	for i := range types.MaxHeld/90 + 2 {
		requests := map[string]types.Quantity{"cpu": 1}
		for j := range 90 {
			if i*90+j < types.MaxHeld+200 {
				requests[name(i*90+j)] = 1000
			}
		}
		b.task(fmt.Sprintf("t%02d", i), requests)
	}
	b.settle()
	b.task("old", map[string]types.Quantity{"cpu": 1, name(0): 1000, "node/n1": 1})
	b.task("new", map[string]types.Quantity{"cpu": 1, name(types.MaxHeld + 199): 1000})
	b.settle()
	n := b.core.view.Nodes["n1"]
	if held := len(n.Allocated.V.Holds); held < types.MaxHeld || held > types.MaxHeld+types.MaxRequests {
		t.Errorf("%d resources are in use", held)
	}
	if size := len(types.Encode(1, n.Allocated.V)); size > types.MaxMessageBytes {
		t.Errorf("that takes %d bytes", size)
	}
	if old, fresh := b.status("old").Phase, b.status("new").Phase; old != types.Bound || fresh != types.Pending {
		t.Errorf("what asks for what is in use is %s, another one %s", old, fresh)
	}
}
