package scheduler

import (
	"fmt"
	"math/rand/v2"
	"runtime"
	"testing"

	"github.com/escher-sched/escher/controlplane"
	"github.com/escher-sched/escher/scheduler/division"
	"github.com/escher-sched/escher/types"
)

// BenchmarkCoreForeign: the cost for a scheduler of another one that binds tasks of its own
// namespaces, and the cost of that one, which tries half of the nodes first.
func BenchmarkCoreForeign(b *testing.B) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	const nodes, namespaces = 10_000, 8
	for b.Loop() {
		var told [][]controlplane.Event
		other := foreignRig("s2", nodes, namespaces)
		other.tap = func(events []controlplane.Event) { told = append(told, events) }
		other.foreignJobs("s2", namespaces)
		other.run(b)

		r := foreignRig("s1", nodes, namespaces)
		r.foreignJobs("s2", namespaces)
		r.run(b)
		if r.binds != 0 {
			b.Fatalf("%d of another scheduler's tasks were bound", r.binds)
		}
		m := r.start()
		for _, events := range told {
			r.revision++
			timed(&r.apply, func() {
				r.core.Apply(controlplane.Batch{Revision: r.revision, Events: events}, r.now)
			})
		}
		r.virtual, r.drafts = r.apply, other.drafts
		r.report(b, other.binds, m)
		b.ReportMetric(float64(other.binds)/float64(other.drafts), "binds/txn")
	}
}

// foreignRig is the rig of a scheduler with the given name, and another one, with tasks of s2.
func foreignRig(name string, nodes, namespaces int) *rig {
	r := newRig(Config{Limits: benchLimits[0], Seed: 1, Name: name, Shared: true})
	r.tell(r.event(controlplane.SchedulerKey("s1"), &types.Leader{}), r.event(controlplane.SchedulerKey("s2"), &types.Leader{}))
	r.nodes(nodes, kinds())
	vectors := mix(rand.New(rand.NewPCG(1, 2)), nodes, kinds(), 0.8)
	for i, ns := range namespacesOf("s2", namespaces) {
		r.tasks(ns, vectors[i*len(vectors)/namespaces:(i+1)*len(vectors)/namespaces])
	}
	return r
}

func (r *rig) foreignJobs(name string, namespaces int) {
	for _, ns := range namespacesOf(name, namespaces) {
		r.job(ns)
	}
}

// namespacesOf returns n namespaces of one of the two schedulers.
func namespacesOf(name string, n int) []string {
	var out []string
	for i := 0; len(out) < n; i++ {
		if ns := fmt.Sprintf("ns-%03d", i); division.OwnerOf(ns, map[string]bool{"s1": true, "s2": true}) == name {
			out = append(out, ns)
		}
	}
	return out
}
