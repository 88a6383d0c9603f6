package scheduler

import (
	"fmt"
	"testing"

	"github.com/escher-sched/escher/controlplane"
	"github.com/escher-sched/escher/types"
)

// collectsOn makes an AtOnce reservation of job j for half of each of n nodes, on a stock store.
func collectsOn(t *testing.T, n int) *bench {
	t.Helper()
	b := newLimitedBench(t, controlplane.Limits{Ops: 128, Bytes: 1 << 20}, Config{})
	r := &types.Reservation{Accumulate: true, AtOnce: true, Job: "j", Submitted: b.now.UnixNano()}
	for i := range n {
		name := fmt.Sprintf("n%02d", i)
		b.node(name, 1000)
		x := bundleOf(map[string]types.Quantity{"cpu": 500})
		x.Node = name
		r.Bundles = append(r.Bundles, x)
	}
	b.settle()
	b.put(controlplane.ReservationKey("d", "r"), r)
	return b
}

// TestAtOnceTooLarge: an AtOnce reservation on more nodes than one hand-over transaction allows
// collects nothing, and keeps nothing from others.
func TestAtOnceTooLarge(t *testing.T) {
	b := collectsOn(t, 29)
	for i := range 50 {
		b.task(fmt.Sprintf("small%d", i), map[string]types.Quantity{"cpu": 10})
	}
	b.settle()
	for i := range 50 {
		if s := b.core.view.Task(clusterID("d", fmt.Sprintf("small%d", i))).Status.V; s == nil || s.Phase != types.Bound {
			t.Fatalf("small%d is %+v", i, s)
		}
	}
	if g := b.grantAt("r"); g.Phase != "" {
		t.Errorf("its grant is %+v", g)
	}
}

// TestAtOnceLarge: on the largest number of nodes for a transaction it collects, and hands over to
// a reservation and its members.
func TestAtOnceLarge(t *testing.T) {
	b := collectsOn(t, 28)
	b.settle()
	if g := b.grantAt("r"); g.Phase != types.Collecting {
		t.Fatalf("its grant is %+v", g)
	}
	gang := &types.Reservation{Job: "j", Submitted: b.now.UnixNano()}
	for i := range 28 {
		gang.Bundles = append(gang.Bundles, bundleOf(map[string]types.Quantity{"cpu": 1000}))
		b.task(fmt.Sprintf("m%d", i), map[string]types.Quantity{"cpu@gang": 1000}, ofJob("j"))
	}
	b.put(controlplane.JobKey("d", "j"), &types.Job{Tasks: 28})
	b.put(controlplane.ReservationKey("d", "gang"), gang)
	b.settle()
	if r, g := b.grantAt("r"), b.grantAt("gang"); r.Phase != types.HandedOver || g.Phase != types.Granted {
		t.Errorf("the grants are %+v and %+v", r, g)
	}
}

// TestAtOnceManyHeirs: with more waiting tasks than a transaction holds, as many get the collected
// capacity as fit next to the end of the collection. The others find the remainder.
func TestAtOnceManyHeirs(t *testing.T) {
	for n := 1; n <= 100; n += 3 {
		b := collectsOn(t, 20)
		b.settle() // it is complete before any task waits
		b.put(controlplane.JobKey("d", "j"), &types.Job{Tasks: n})
		for i := range n {
			b.task(fmt.Sprintf("t%02d", i), map[string]types.Quantity{"cpu": 5, "node/n00": 1}, ofJob("j"))
		}
		b.settle()
		if g := b.grantAt("r"); g.Phase != types.HandedOver {
			t.Errorf("with %d tasks the grant is %+v", n, g)
		}
		for i := range n {
			if s := b.core.view.Task(clusterID("d", fmt.Sprintf("t%02d", i))).Status.V; s == nil || s.Phase != types.Bound {
				t.Errorf("of %d tasks t%02d is %+v", n, i, s)
			}
		}
	}
}

// TestAtOnceRefused: a draft that the store refuses, because its real limits are lower, is left
// alone until it changes, and does not block others.
func TestAtOnceRefused(t *testing.T) {
	b := collectsOn(t, 60)
	b.core.cfg.Limits.Ops = 1000
	b.task("small", map[string]types.Quantity{"cpu": 10})
	b.settle()
	if s := b.core.view.Task(clusterID("d", "small")).Status.V; s == nil || s.Phase != types.Bound {
		t.Fatalf("small is %+v", s)
	}
}
