package scheduler

import (
	"fmt"
	"testing"

	"github.com/escher-sched/escher/controlplane"
	"github.com/escher-sched/escher/scheduler/draft"
	"github.com/escher-sched/escher/types"
)

// TestCordonRefuses: a node cordoned while a transaction is in flight gets no tasks, whatever the
// number of cordons.
func TestCordonRefuses(t *testing.T) {
	for _, others := range []int{0, draft.ManyCordons, draft.ManyCordons + 1} {
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

// TestCordonsAreOneCompare: tasks on many nodes share one compare for cordons.
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
