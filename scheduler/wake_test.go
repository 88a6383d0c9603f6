package scheduler

import (
	"fmt"
	"testing"
	"time"

	"github.com/escher-sched/escher/controlplane"
	"github.com/escher-sched/escher/types"
)

// TestReleaseWakesWhatMayFit: when cpu becomes free, only shapes that would have enough of it are
// tried, and the first of a draft is not tried again for each later one.
func TestReleaseWakesWhatMayFit(t *testing.T) {
	b := newBench(t, Config{})
	b.node("n1", 1000)
	b.task("hog", map[string]types.Quantity{"cpu": 700})
	b.task("some", map[string]types.Quantity{"cpu": 300})
	b.settle()
	for i := range 50 {
		b.task(fmt.Sprintf("t%d", i), map[string]types.Quantity{"cpu": types.Quantity(300 + i)})
	}
	b.settle()
	b.exited("some")
	b.see()
	d, res := b.commit()
	b.done(d, res)
	if n := ready(b); n != 1 {
		t.Errorf("%d are to be tried", n)
	}
	b.settle()
	b.expect("t0", "bound on n1")
}

// TestWakesWhatMayFitOnTheNode: more memory on a node without free cpu does not wake a shape that
// lacks both.
func TestWakesWhatMayFitOnTheNode(t *testing.T) {
	b := newBench(t, Config{})
	b.put(controlplane.NodeKey("n1"), &types.Node{Capacity: types.NewRequests(map[string]types.Quantity{"cpu": 1000, "memory": 1 << 20})},
		controlplane.AliveKey("n1"), &types.Alive{})
	b.task("cpu", map[string]types.Quantity{"cpu": 1000})
	b.task("memory", map[string]types.Quantity{"memory": 1 << 20})
	b.settle()
	for i := range 50 {
		b.task(fmt.Sprint("t", i), map[string]types.Quantity{"cpu": types.Quantity(100 + i), "memory": 1 << 10})
	}
	b.settle()
	b.exited("memory")
	b.see()
	d, res := b.commit()
	b.done(d, res)
	if n := ready(b); n != 0 {
		t.Errorf("%d are to be tried", n)
	}
	b.exited("cpu")
	b.settle()
	b.expect("t0", "bound on n1")
}

// TestWakesWhatLackedSomethingElse: a task that lacked only a missing resource, besides its time
// limit or alternative, is bound even if that resource comes to a full node.
func TestWakesWhatLackedSomethingElse(t *testing.T) {
	for name, edit := range map[string]func(*types.Task){
		"limited": func(t *types.Task) {
			t.Requests = types.NewRequests(map[string]types.Quantity{"cpu": 1000, "foo": 1})
			t.MaxRun = time.Minute
		},
		"alternatives": func(t *types.Task) {
			t.Alternatives = []types.Alternative{
				{Requests: types.NewRequests(map[string]types.Quantity{"foo": 1})},
				{Requests: types.NewRequests(map[string]types.Quantity{"bar": 1})},
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			b := newBench(t, Config{})
			b.node("n1", 2000)
			b.task("hog", map[string]types.Quantity{"cpu": 2000})
			b.settle()
			b.task("a", map[string]types.Quantity{"cpu": 1000}, edit)
			b.settle()
			b.put(controlplane.ResourceKey("d", "foo", "n1"), &types.Resource{Capacity: 1, NodeSession: b.session("n1")})
			b.settle()
			b.expect("a", "pending")
			b.exited("hog")
			b.settle()
			b.expect("a", "bound on n1")
		})
	}
}

// ready returns the number of shapes to try.
func ready(b *bench) int {
	n, _, _ := b.core.queue.Counts()
	return n
}
