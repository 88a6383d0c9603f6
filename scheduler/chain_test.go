package scheduler

import (
	"fmt"
	"testing"

	"github.com/escher-sched/escher/controlplane"
	"github.com/escher-sched/escher/types"
)

// pooled is a core with nodes, and tasks that draw on one pool, in transactions of 4.
func pooled(t *testing.T, tasks int) *bench {
	b := newBench(t, Config{Seed: 1, BatchTasks: 4})
	b.put(controlplane.ResourceKey("d", "quota", types.ClusterWide), &types.Resource{Capacity: 1_000_000})
	for i := range 30 {
		b.node(fmt.Sprintf("n%02d", i), 100_000)
	}
	for i := range tasks {
		b.task(fmt.Sprint("t", i), map[string]types.Quantity{"cpu": 100, "quota": 1000})
	}
	b.see()
	return b
}

func (b *bench) pool() types.Quantity {
	return b.core.view.Pool("d:quota").Allocated.V.Of("d:quota")
}

// TestNextOfAPoolIsPrepared: while a draft that draws on a pool is in flight, the next one
// is decided, and sent when it is answered.
func TestNextOfAPoolIsPrepared(t *testing.T) {
	b := pooled(t, 12)
	d, res := b.commit()
	if n := b.core.InFlight(); n != 2 {
		t.Fatalf("%d are in flight or prepared, want 2", n)
	}
	decided := len(b.core.prepared[0].Binds)
	b.done(d, res)
	next := b.core.nextOne(b.now)
	if next == nil || len(next.Binds) != decided || b.pool() != 4000 {
		t.Fatalf("%+v is next, %d are in use", next, b.pool())
	}
	if b.core.nextOne(b.now) != nil || len(b.core.prepared) != 1 {
		t.Error("nothing is prepared behind it")
	}
	if res, err := b.store.Commit(t.Context(), next.Change.Txn()); err != nil || !res.Committed {
		t.Fatal("it was refused: ", err)
	} else {
		b.done(next, res)
	}
	b.settle()
	if b.pool() != 12_000 {
		t.Errorf("%d are in use", b.pool())
	}
}

// TestPreparedIsForgotten: what was prepared behind a draft that is refused, or after
// which somebody else drew on the pool, is not sent; all of it is placed in the end.
func TestPreparedIsForgotten(t *testing.T) {
	for name, between := range map[string]func(b *bench, d *Draft){
		"refused": func(b *bench, d *Draft) {
			b.del(controlplane.AliveKey(d.order[0].node.Name))
			res, err := b.store.Commit(b.t.Context(), d.Change.Txn())
			if err != nil || res.Committed {
				b.t.Fatal(res, err)
			}
			b.done(d, res)
		},
		"impossible": func(b *bench, d *Draft) {
			b.core.Done(d, controlplane.Result{}, types.Errorf(types.Invalid, "too large"), b.now)
		},
		"overtaken": func(b *bench, d *Draft) {
			res, err := b.store.Commit(b.t.Context(), d.Change.Txn())
			if err != nil || !res.Committed {
				b.t.Fatal(res, err)
			}
			o := b.other()
			o.see()
			o.settle()
			b.see()
			b.done(d, res)
		},
	} {
		t.Run(name, func(t *testing.T) {
			b := pooled(t, 12)
			d := b.core.nextOne(b.now)
			if b.core.nextOne(b.now) != nil || len(b.core.prepared) != 1 {
				t.Fatal("nothing is prepared")
			}
			between(b, d)
			if len(b.core.prepared) > 0 || len(b.core.sendable) > 0 {
				t.Error("it is kept")
			}
			if len(b.core.behind) > 0 && !b.core.locked(b.core.view.Pool("d:quota")) {
				t.Error("it is drawn on before it is seen what refused the first one")
			}
			b.settle()
			if b.pool() != 12_000 || len(b.core.drawing) > 0 || len(b.core.locks) > 0 {
				t.Errorf("%d are in use, %v, %v", b.pool(), b.core.drawing, b.core.locks)
			}
		})
	}
}

// TestReleaseIsNotHeldUpByAPool: what returns to a pool goes with the next transaction that
// draws on it, however many more wait.
func TestReleaseIsNotHeldUpByAPool(t *testing.T) {
	b := pooled(t, 40)
	send := func() *Draft {
		d := b.core.nextOne(b.now)
		if b.core.nextOne(b.now) != nil || len(b.core.prepared) != 1 {
			t.Fatal("nothing is prepared")
		}
		return d
	}
	answer := func(d *Draft) {
		res, err := b.store.Commit(t.Context(), d.Change.Txn())
		if err != nil || !res.Committed {
			t.Fatal("refused", err)
		}
		b.done(d, res)
	}
	first := send()
	answer(first)
	d := send()
	b.exited(first.Binds[0].Task.ID) // one is in flight, and one behind it
	b.see()
	b.core.nextOne(b.now)
	for range 3 {
		answer(d)
		d = send()
	}
	if got := b.core.view.Tasks[first.Binds[0].Task].Phase(); got != types.Succeeded {
		t.Errorf("it is %s", got)
	}
}

// TestCordonRefuses: a node that is cordoned while a transaction is on its way gets
// nothing, however many cordons there are.
func TestCordonRefuses(t *testing.T) {
	for _, others := range []int{0, manyCordons, manyCordons + 1} {
		t.Run(fmt.Sprint(others), func(t *testing.T) {
			b := newBench(t, Config{})
			b.node("n", 1000)
			for i := range others {
				b.put(controlplane.CordonKey(fmt.Sprint("other", i)), &types.Cordon{})
			}
			b.task("a", map[string]types.Quantity{"cpu": 10})
			b.see()
			d := b.core.nextOne(b.now)
			b.put(controlplane.CordonKey("n"), &types.Cordon{})
			res, err := b.store.Commit(t.Context(), d.Change.Txn())
			if err != nil || res.Committed {
				t.Fatal(res, err)
			}
			b.done(d, res)
			b.settle()
			b.expect("a", "pending")
			b.del(controlplane.CordonKey("n"))
			b.settle()
			b.expect("a", "bound on n")
		})
	}
}

// TestCordonsAreOneCompare: tasks on many nodes depend on one compare that none was
// cordoned.
func TestCordonsAreOneCompare(t *testing.T) {
	b := newBench(t, Config{})
	for i := range 20 {
		b.node(fmt.Sprint("n", i), 1000)
		b.task(fmt.Sprint("t", i), map[string]types.Quantity{"cpu": 1000})
	}
	b.see()
	d := b.core.nextOne(b.now)
	if compares, _ := d.Change.Size(); len(d.Binds) != 20 || compares != 2+5*20 {
		t.Errorf("%d compares for %d tasks", compares, len(d.Binds))
	}
}
