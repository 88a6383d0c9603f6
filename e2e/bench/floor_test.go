package bench

import (
	"context"
	"strings"
	"sync"
	"testing"

	"github.com/escher-sched/escher/controlplane"
	"github.com/escher-sched/escher/controlplane/memstore"
	"github.com/escher-sched/escher/e2e/bench/rig"
)

// notes keeps the committed transactions.
type notes struct {
	controlplane.Store
	mu   sync.Mutex
	txns []controlplane.Txn
}

func (n *notes) Commit(ctx context.Context, txn controlplane.Txn) (controlplane.Result, error) {
	n.mu.Lock()
	n.txns = append(n.txns, txn)
	n.mu.Unlock()
	return n.Store.Commit(ctx, txn)
}

// TestFloor commits the floor of a learned shape, and checks its contents.
func TestFloor(t *testing.T) {
	shape := new(txnShape)
	shape.learn(map[string]float64{ // two transactions of 6 tasks on 3 nodes
		rig.CounterTxns: 2, rig.CounterMostInFlight: 2,
		rig.CounterCompare + "allocated": 6, rig.CounterCompare + "nodes": 6, rig.CounterCompare + "alive": 6, rig.CounterCompare + "cordons": 2,
		rig.CounterCompare + "tasks": 12, rig.CounterCompare + "status": 12, rig.CounterCompare + "namespaces": 2, rig.CounterCompare + "devices": 4,
		rig.CounterPut + "bindings": 12, rig.CounterPut + "status": 12, rig.CounterPut + "allocated": 6,
		rig.CounterValue + "bindings": 12 * 111, rig.CounterValue + "status": 12 * 55, rig.CounterValue + "allocated": 6 * 77,
	})
	shape.learn(map[string]float64{rig.CounterTxns: 0}) // no data
	cfg := rig.Config{Nodes: 30, Tasks: 300, Ops: rig.StockOps}
	store := &notes{Store: memstore.New()}
	f, err := newFlooring(t.Context(), store, cfg, shape.floorShape(rig.StockOps))
	if err != nil {
		t.Fatal(err)
	}
	store.txns = nil
	if err := f.binds(t.Context()); err != nil {
		t.Fatal(err)
	}
	if len(store.txns) != 50 {
		t.Fatalf("%d transactions", len(store.txns))
	}
	compares, puts := make(map[string]int), make(map[string]int)
	for _, x := range store.txns[7].Compares {
		compares[strings.Split(x.Key, "/")[2]]++
	}
	for _, op := range store.txns[7].Ops {
		kind := strings.Split(op.Key, "/")[2]
		puts[kind]++
		if want := map[string]int{"bindings": 111, "status": 55, "allocated": 77}[kind]; len(op.Value) != want {
			t.Errorf("%s has %d bytes, want %d", op.Key, len(op.Value), want)
		}
	}
	for kind, want := range map[string]int{"allocated": 3, "nodes": 3, "alive": 3, "cordons": 1, "tasks": 6, "status": 6, "namespaces": 1, "devices": 2} {
		if compares[kind] != want {
			t.Errorf("%d compares of %s, want %d", compares[kind], kind, want)
		}
	}
	if puts["bindings"] != 6 || puts["status"] != 6 || puts["allocated"] != 3 {
		t.Errorf("puts %v", puts)
	}
}

// TestUsualShape: the shape before any scheduler has counted fits the limits.
func TestUsualShape(t *testing.T) {
	for _, ops := range []int{128, 4096} {
		store := &notes{Store: memstore.New()}
		f, err := newFlooring(t.Context(), store, rig.Config{Nodes: 3000, Tasks: 3000, Ops: ops}, new(txnShape).floorShape(ops))
		if err != nil {
			t.Fatal(err)
		}
		store.txns = nil
		if err := f.binds(t.Context()); err != nil {
			t.Fatal(err)
		}
		if n := len(store.txns[0].Compares); n > ops || n < min(ops, 1500)-6 {
			t.Errorf("%d compares of %d", n, ops)
		}
	}
}

// TestFloorIsRefused expects an error when a compared key has changed.
func TestFloorIsRefused(t *testing.T) {
	store := memstore.New()
	f, err := newFlooring(t.Context(), store, rig.Config{Nodes: 30, Tasks: 30, Ops: rig.StockOps}, new(txnShape).floorShape(rig.StockOps))
	if err != nil {
		t.Fatal(err)
	}
	// The active workers are random: the nodes of all are changed.
	var changes controlplane.Txn
	for n := range 30 {
		changes.Ops = append(changes.Ops, controlplane.Op{Key: f.key(compareNodes, n), Value: []byte{1}})
	}
	if _, err := store.Commit(t.Context(), changes); err != nil {
		t.Fatal(err)
	}
	if err := f.binds(t.Context()); err == nil {
		t.Error("nothing was refused")
	}
}
