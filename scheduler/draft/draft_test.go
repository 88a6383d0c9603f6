package draft

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/escher-sched/escher/controlplane"
	"github.com/escher-sched/escher/controlplane/cluster"
	"github.com/escher-sched/escher/controlplane/grants"
	"github.com/escher-sched/escher/scheduler/schedulertest"
	"github.com/escher-sched/escher/types"
)

var unlimited = controlplane.Limits{Ops: 1 << 20, Bytes: 1 << 30}

// small is a cluster of nodes of four cpus, with tasks of one cpu.
func small(t interface{ Fatal(...any) }, nodes, tasks int) *cluster.View {
	var kvs []any
	for i := range nodes {
		name := fmt.Sprint("n", i)
		kvs = append(kvs, controlplane.NodeKey(name), &types.Node{Capacity: schedulertest.Vector(4000, 0)}, controlplane.AliveKey(name), &types.Alive{})
	}
	for i := range tasks {
		kvs = append(kvs, controlplane.TaskKey("a", fmt.Sprint("t", i)), &types.Task{Requests: schedulertest.Vector(1000, 0), Submitted: int64(i)})
	}
	return schedulertest.Snapshot(t, kvs...)
}

// TestLaterDecisionsSeeEarlierOnes: a draft is the snapshot after its commit.
func TestLaterDecisionsSeeEarlierOnes(t *testing.T) {
	v := small(t, 1, 5)
	d, n := New(v, unlimited, 1), v.Nodes["n0"]
	bound := 0
	for i := range 5 {
		task := v.Task(cluster.ID{Namespace: "a", ID: fmt.Sprint("t", i)})
		needs := grants.Vectors(v, task)[0]
		if short, fits := d.Fits(n, needs); !fits {
			if short != types.CPU {
				t.Errorf("it lacks %s", short)
			}
			continue
		}
		if !d.Bind(task, n, 0, needs, time.Unix(1, 0)) {
			t.Fatal("there is space")
		}
		bound++
	}
	if bound != 4 || d.BindsOn(n) != 4 || d.Len() != 4 || d.NumNodes() != 1 {
		t.Errorf("%d are bound, %d on the node, in %d decisions about %d nodes", bound, d.BindsOn(n), d.Len(), d.NumNodes())
	}
	if free, _ := d.Free(n, types.CPU); free != 0 || n.Allocated.V != nil {
		t.Errorf("%d is free, and the view has %v", free, n.Allocated.V)
	}
	txn := d.Seal()
	allocated := slices.IndexFunc(txn.Ops, func(op controlplane.Op) bool { return op.Key == controlplane.AllocatedKey("n0") })
	if allocated < 0 || len(txn.Ops) != 9 {
		t.Errorf("%d operations, the allocated amounts at %d", len(txn.Ops), allocated)
	}
}

// TestBindKeepsTheLimits: whatever the limits are, a draft stays within them, and a bind that does
// not fit changes nothing.
func TestBindKeepsTheLimits(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		v := small(t, 3, 12)
		limits := controlplane.Limits{Ops: rapid.IntRange(8, 60).Draw(t, "ops"), Bytes: 1 << 20}
		d, refused := New(v, limits, 1), 0
		for i := range 12 {
			n := v.Nodes[fmt.Sprint("n", rapid.IntRange(0, 2).Draw(t, "node"))]
			task := v.Task(cluster.ID{Namespace: "a", ID: fmt.Sprint("t", i)})
			needs := grants.Vectors(v, task)[0]
			if _, fits := d.Fits(n, needs); !fits {
				continue
			}
			before, compares, ops := d.AllocatedOn(n).Clone(), 0, 0
			compares, ops = d.Change.Size()
			if d.Bind(task, n, 0, needs, time.Unix(1, 0)) {
				continue
			}
			refused++
			if c, o := d.Change.Size(); c != compares || o != ops || d.Has(task) || d.AllocatedOn(n).Of(types.CPU) != before.Of(types.CPU) {
				t.Fatal("a refused bind changed the draft")
			}
		}
		if txn := d.Seal(); len(txn.Compares) > limits.Ops || len(txn.Ops) > limits.Ops {
			t.Fatalf("%d compares and %d operations, of at most %d; %d refused", len(txn.Compares), len(txn.Ops), limits.Ops, refused)
		}
	})
}

// TestTakeAndUndo: what a trial takes and undoes leaves nothing behind.
func TestTakeAndUndo(t *testing.T) {
	v := small(t, 2, 0)
	d := New(v, unlimited, 1)
	for range 3 {
		for _, n := range v.Nodes {
			holds := d.Hold(n, []cluster.Need{{ID: types.CPU, Amount: 1500}})
			d.Take(n, holds)
			d.Take(n, holds)
			if _, fits := d.Fits(n, []cluster.Need{{ID: types.CPU, Amount: 1500}}); fits {
				t.Error("a third one fits")
			}
			d.Undo(n, holds)
			d.Undo(n, holds)
		}
	}
	if !d.Empty() || d.Returns() || d.NumNodes() != 0 || len(d.Seal().Ops) != 0 {
		t.Errorf("%d decisions, %d nodes", d.Len(), d.NumNodes())
	}
}

// TestSealComparesWhatItChanges: each bind depends on its node, its task and its namespace.
func TestSealComparesWhatItChanges(t *testing.T) {
	v := small(t, 1, 1)
	d, task := New(v, unlimited, 1), v.Task(cluster.ID{Namespace: "a", ID: "t0"})
	if !d.Bind(task, v.Nodes["n0"], 0, grants.Vectors(v, task)[0], time.Unix(1, 0)) {
		t.Fatal("there is space")
	}
	var keys []string
	for _, x := range d.Seal().Compares {
		keys = append(keys, x.Key)
	}
	for _, want := range []string{
		controlplane.NodeKey("n0"), controlplane.AliveKey("n0"), controlplane.AllocatedKey("n0"), controlplane.CordonKey("n0"),
		controlplane.TaskKey("a", "t0"), controlplane.StatusKey("a", "t0"), controlplane.NamespaceKey("a"),
	} {
		if !slices.Contains(keys, want) {
			t.Errorf("%s is not compared: %v", want, keys)
		}
	}
}
