package scheduler

import (
	"slices"
	"strings"
	"testing"

	"github.com/escher-sched/escher/controlplane"
	"github.com/escher-sched/escher/types"
)

// TestSettleCompares shows what the ends of attempts, and what is told of them, depend
// on, and that what is allocated on a node is written with every end there, also of
// what holds nothing: a release depends on that alone.
func TestSettleCompares(t *testing.T) {
	report := controlplane.ReportKey("n1", "d", "a", 1)
	for _, test := range []struct {
		name     string
		requests map[string]types.Quantity
		then     func(b *bench, r *types.Report)
		compares []string
		writes   []string
	}{
		{"released", map[string]types.Quantity{"cpu": 100}, func(b *bench, r *types.Report) {
			r.Phase = types.ReportExited
			b.put(report, r)
		}, []string{"allocated/n1"}, []string{"-bindings/n1/d/a/1", "-reports/n1/d/a/1", "allocated/n1", "status/d/a"}},
		{"released, and held nothing", nil, func(b *bench, r *types.Report) {
			r.Phase = types.ReportExited
			b.put(report, r)
		}, []string{"allocated/n1"}, []string{"-bindings/n1/d/a/1", "-reports/n1/d/a/1", "allocated/n1", "status/d/a"}},
		{"runs", nil, func(b *bench, r *types.Report) {
			r.Phase = types.ReportRunning
			b.put(report, r)
		}, []string{"reports/n1/d/a/1", "status/d/a"}, []string{"status/d/a"}},
		{"lost", nil, func(b *bench, _ *types.Report) {
			b.del(controlplane.AliveKey("n1"))
		}, []string{"alive/n1", "allocated/n1", "reports/n1/d/a/1"}, []string{"-bindings/n1/d/a/1", "allocated/n1", "status/d/a"}},
	} {
		t.Run(test.name, func(t *testing.T) {
			b := newBench(t, Config{})
			b.node("n1", 2000)
			b.task("a", test.requests)
			b.settle()
			b.expect("a", "bound on n1")
			test.then(b, &types.Report{Binding: b.core.view.Nodes["n1"].Allocated.Mod})
			for _, batch := range b.store.Events(b.seen + 1) {
				b.core.Apply(batch, b.now)
			}
			drafts := b.core.Next(b.now)
			if len(drafts) != 1 {
				t.Fatalf("%d transactions, want 1", len(drafts))
			}
			var compares, writes []string
			txn := drafts[0].Change.Txn()
			for _, x := range txn.Compares {
				compares = append(compares, strings.TrimPrefix(x.Key, controlplane.Root))
			}
			for _, op := range txn.Ops {
				key := strings.TrimPrefix(op.Key, controlplane.Root)
				if op.Delete {
					key = "-" + key
				}
				writes = append(writes, key)
			}
			slices.Sort(compares)
			slices.Sort(writes)
			if !slices.Equal(compares, test.compares) || !slices.Equal(writes, test.writes) {
				t.Errorf("compares %v, writes %v\nwant %v, %v", compares, writes, test.compares, test.writes)
			}
		})
	}
}
