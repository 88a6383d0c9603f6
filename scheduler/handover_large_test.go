package scheduler

import (
	"fmt"
	"testing"

	"github.com/escher-sched/escher/controlplane"
	"github.com/escher-sched/escher/types"
)

// collectsOn makes a reservation that collects for job j for half of each of n nodes, on a stock store.
func collectsOn(t *testing.T, n int) *bench { return collectsWithin(t, 128, n) }

// collectsWithin is collectsOn with another limit of the store.
func collectsWithin(t *testing.T, ops, n int) *bench {
	t.Helper()
	b := newLimitedBench(t, controlplane.Limits{Ops: ops, Bytes: 1 << 20}, Config{})
	r := &types.Reservation{Job: "j", Submitted: b.now.UnixNano()}
	for i := range n {
		name := fmt.Sprintf("n%03d", i)
		b.node(name, 1000)
		x := bundleOf(map[string]types.Quantity{"cpu": 500})
		x.Node = name
		r.Bundles = append(r.Bundles, x)
	}
	b.settle()
	r.Collect = types.NewCollect(r.Bundles, true)
	b.put(controlplane.ReservationKey("d", "r"), r)
	return b
}

// TestHandOverTooLarge: what collects for its job on more nodes than one hand-over transaction
// allows collects nothing, and keeps nothing from others.
func TestHandOverTooLarge(t *testing.T) {
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

// TestHandOverLarge: on the largest number of nodes for a transaction it collects, and hands over to
// a reservation and its members.
func TestHandOverLarge(t *testing.T) {
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

// TestHandOverManyHeirs: with more waiting tasks than a transaction holds, as many get the collected
// capacity as fit next to the end of the collection. The others find the remainder.
func TestHandOverManyHeirs(t *testing.T) {
	for n := 1; n <= 100; n += 3 {
		b := collectsOn(t, 20)
		b.settle() // it is complete before any task waits
		b.put(controlplane.JobKey("d", "j"), &types.Job{Tasks: n})
		for i := range n {
			b.task(fmt.Sprintf("t%02d", i), map[string]types.Quantity{"cpu": 5, "node/n000": 1}, ofJob("j"))
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

// TestCollectionRefused: a draft that the store refuses, because its real limits are lower, is left
// alone until it changes, and does not block others.
func TestCollectionRefused(t *testing.T) {
	b := collectsOn(t, 60)
	b.core.cfg.Limits.Ops = 1000
	b.task("small", map[string]types.Quantity{"cpu": 10})
	b.settle()
	if s := b.core.view.Task(clusterID("d", "small")).Status.V; s == nil || s.Phase != types.Bound {
		t.Fatalf("small is %+v", s)
	}
}

// collected lets r hold all, as another scheduler has collected it. The core takes the store to take
// more than it does.
func (b *bench) collected() {
	b.core.cfg.Limits.Ops = 1000
	b.see()
	r := b.core.view.Reservations[clusterID("d", "r")]
	g := &types.Grant{Phase: types.Collecting, Reservation: r.Info.Create, Bundles: r.Info.V.Collect.On}
	for range 2 {
		all := []any{controlplane.GrantKey("d", "r"), g}
		for _, name := range g.Bundles[len(g.Nodes):][:len(g.Bundles)/2] {
			holds := []types.Holding{{Resource: "cpu", Amount: 500}}
			g.Nodes = append(g.Nodes, types.GrantNode{Node: name, Holds: holds})
			all = append(all, controlplane.AllocatedKey(name), &types.Allocated{Holds: holds})
		}
		b.put(all...)
	}
	b.see()
}

// TestHandOverRefused: a hand-over that the store refuses returns what was collected, in as many
// transactions as it takes. The tasks of its job are placed as any other then.
func TestHandOverRefused(t *testing.T) {
	b := collectsOn(t, 140)
	b.collected()
	b.put(controlplane.JobKey("d", "j"), &types.Job{Tasks: 1})
	b.task("heir", map[string]types.Quantity{"cpu": 1000}, ofJob("j"))
	b.see()
	before := b.core.view.Revision
	b.settle()
	if s := b.core.view.Task(clusterID("d", "heir")).Status.V; s == nil || s.Phase != types.Bound {
		t.Errorf("the task of the job is %+v", s)
	}
	if g := b.grantAt("r"); g.Phase != "" || b.core.view.Revision < before+3 {
		t.Errorf("it has %+v, after %d transactions", g, b.core.view.Revision-before)
	}
	b.node("n999", 1000)
	if b.settle(); b.grantAt("r").Phase != "" {
		t.Error("it collects again")
	}
}

// TestReturnRefused: what the store does not let return either is left alone, and blocks no others.
func TestReturnRefused(t *testing.T) {
	b := collectsWithin(t, 50, 70)
	b.collected()
	b.put(controlplane.JobKey("d", "j"), &types.Job{Tasks: 1})
	b.task("heir", map[string]types.Quantity{"cpu": 1000}, ofJob("j"))
	b.task("small", map[string]types.Quantity{"cpu": 100})
	b.settle()
	b.expect("heir", "pending")
	if s := b.core.view.Task(clusterID("d", "small")).Status.V; s == nil || s.Phase != types.Bound || amountHeld(b.grantAt("r")) != 35000 {
		t.Errorf("small is %+v, and what collects has %d", s, amountHeld(b.grantAt("r")))
	}
}
