package scheduler

import (
	"fmt"
	"testing"

	"github.com/escher-sched/escher/controlplane"
	"github.com/escher-sched/escher/controlplane/grants"
	"github.com/escher-sched/escher/types"
)

// collectsNow makes a reservation that collects for a job with the given amount of each node.
func (b *bench) collectsNow(id, job string, of map[string]types.Quantity) {
	b.t.Helper()
	r := &types.Reservation{Job: job, Submitted: b.now.UnixNano()}
	for _, node := range []string{"n1", "n2"} {
		if q := of[node]; q > 0 {
			bundle := bundleOf(map[string]types.Quantity{"cpu": q})
			bundle.Node = node
			r.Bundles = append(r.Bundles, bundle)
		}
	}
	r.Collect = types.NewCollect(r.Bundles, true)
	if err := r.Validate(); err != nil {
		b.t.Fatal(err)
	}
	b.put(controlplane.ReservationKey("d", id), r)
	b.settle()
}

// grantAt is the grant of a reservation; an empty one if there is none.
func (b *bench) grantAt(id string) *types.Grant {
	if r := b.core.view.Reservations[clusterID("d", id)]; r != nil && r.Grant.V != nil {
		return r.Grant.V
	}
	return &types.Grant{}
}

func ofJob(job string) func(*types.Task) { return func(t *types.Task) { t.Job = job } }

// filled is two nodes of 1000, filled by four tasks of 500: a1, a2 on n1, b1, b2 on n2.
func filled(t *testing.T) *bench {
	b := newBench(t, Config{})
	for i, node := range []string{"n1", "n2"} {
		b.node(node, 1000)
		for n := range 2 {
			b.task(fmt.Sprintf("%c%d", 'a'+i, n+1), map[string]types.Quantity{"cpu": 500, "node/" + node: 1})
		}
	}
	b.settle()
	return b
}

// TestCollectsForJob: freed capacity goes to the reservation, whatever the priority of other
// waiting tasks. Once it is complete, one transaction hands it to the waiting members of its job.
// The grant then holds nothing, and others get the remainder.
func TestCollectsForJob(t *testing.T) {
	b := filled(t)
	b.put(controlplane.JobKey("d", "j"), &types.Job{Tasks: 1})
	b.task("large", map[string]types.Quantity{"cpu": 800}, ofJob("j"))
	b.collectsNow("r", "j", map[string]types.Quantity{"n1": 800})
	b.task("other", map[string]types.Quantity{"cpu": 200}, func(t *types.Task) { t.Priority = 9 })
	b.settle()
	if g := b.grantAt("r"); g.Phase != types.Collecting || len(g.Nodes) != 1 || g.Nodes[0].Node != "n1" {
		t.Fatalf("its grant is %+v", g)
	}
	b.exited("a1")
	b.settle()
	b.expect("other", "pending")
	if g := b.grantAt("r"); g.Phase != types.Collecting || grants.HeldOf(g.On("n1"), "cpu") != 500 {
		t.Fatalf("its grant is %+v", g)
	}
	b.exited("a2")
	b.settle()
	b.expect("large", "bound on n1")
	b.expect("other", "bound on n1")
	r := b.core.view.Reservations[clusterID("d", "r")]
	if g := b.grantAt("r"); g.Phase != types.HandedOver || len(g.Nodes) != 0 {
		t.Errorf("its grant is %+v", g)
	}
	if mod := b.core.view.Task(clusterID("d", "large")).Status.Mod; mod != r.Grant.Mod {
		t.Errorf("bound at revision %d, handed over at %d", mod, r.Grant.Mod)
	}
	b.del(controlplane.ReservationKey("d", "r"))
	b.settle()
	if used := b.core.view.Nodes["n1"].Used("cpu"); used != 1000 || b.grantAt("r").Phase != "" {
		t.Errorf("%d of n1 are in use, and the grant is %+v", used, b.grantAt("r"))
	}
}

// TestCollectsForReservation: a waiting reservation of the job is granted with the collected
// capacity, and its members are bound in the same transaction.
func TestCollectsForReservation(t *testing.T) {
	b := filled(t)
	b.put(controlplane.JobKey("d", "j"), &types.Job{Tasks: 2})
	gang := &types.Reservation{Job: "j", Submitted: b.now.UnixNano()}
	for i := range 2 {
		gang.Bundles = append(gang.Bundles, bundleOf(map[string]types.Quantity{"cpu": 900}))
		b.task(fmt.Sprintf("m%d", i), map[string]types.Quantity{"cpu@gang": 900}, ofJob("j"))
	}
	b.put(controlplane.ReservationKey("d", "gang"), gang)
	b.collectsNow("r", "j", map[string]types.Quantity{"n1": 900, "n2": 900})
	b.task("small", map[string]types.Quantity{"cpu": 500}, func(t *types.Task) { t.Priority = 9 })
	for _, id := range []string{"b2", "a1", "a2", "b1"} {
		b.expect("m0", "pending")
		b.exited(id)
		b.settle()
	}
	b.expect("small", "pending")
	view := b.core.view
	at := view.Reservations[clusterID("d", "gang")].Grant
	if at.V == nil || at.V.Phase != types.Granted || at.Mod != view.Reservations[clusterID("d", "r")].Grant.Mod {
		t.Fatalf("the gang has %+v", at)
	}
	for i := range 2 {
		if s := view.Task(clusterID("d", fmt.Sprintf("m%d", i))).Status; s.V == nil || s.V.Phase != types.Bound || s.Mod != at.Mod {
			t.Errorf("member %d has %+v", i, s)
		}
	}
}

// TestCollectTwo: two reservations collect in parallel, on a shared node the older one first.
// One that is given up returns its holdings.
func TestCollectTwo(t *testing.T) {
	b := filled(t)
	for _, job := range []string{"j", "k"} {
		b.put(controlplane.JobKey("d", job), &types.Job{Tasks: 1})
		b.task("of-"+job, map[string]types.Quantity{"cpu": 1000}, ofJob(job))
	}
	b.collectsNow("r", "j", map[string]types.Quantity{"n1": 1000})
	b.now = b.now.Add(1)
	b.collectsNow("q", "k", map[string]types.Quantity{"n1": 500, "n2": 500})
	b.exited("a1")
	b.exited("b1")
	b.settle()
	if r, q := b.grantAt("r"), b.grantAt("q"); grants.HeldOf(r.On("n1"), "cpu") != 500 || grants.HeldOf(q.On("n1"), "cpu") != 0 || grants.HeldOf(q.On("n2"), "cpu") != 500 {
		t.Fatalf("they have %+v and %+v", r, q)
	}
	b.del(controlplane.ReservationKey("d", "r"))
	b.settle()
	if q := b.grantAt("q"); grants.HeldOf(q.On("n1"), "cpu") != 500 || q.Phase != types.Granted {
		t.Errorf("after the other was given up it has %+v", q) // no task of its job fits there
	}
	b.exited("a2")
	b.settle()
	b.expect("of-j", "pending")
	b.del(controlplane.ReservationKey("d", "q"))
	b.settle()
	b.expect("of-j", "bound on n1")
	b.expect("of-k", "pending")
}

// TestCollectsGoesOn: another scheduler continues the collection.
func TestCollectsGoesOn(t *testing.T) {
	b := filled(t)
	b.put(controlplane.JobKey("d", "j"), &types.Job{Tasks: 1})
	b.task("large", map[string]types.Quantity{"cpu": 1000}, ofJob("j"))
	b.collectsNow("r", "j", map[string]types.Quantity{"n2": 1000})
	b.exited("b1")
	b.settle()
	b = b.other()
	b.settle()
	b.exited("b2")
	b.settle()
	b.expect("large", "bound on n2")
}

// TestCollectsAll: capacity that is free from the start is collected, even all of it. It is
// kept for future members of the job, and granted to no others.
func TestCollectsAll(t *testing.T) {
	b := newBench(t, Config{})
	b.node("n1", 1000)
	b.collectsNow("r", "j", map[string]types.Quantity{"n1": 1000})
	b.task("other", map[string]types.Quantity{"cpu": 500})
	b.settle()
	if g := b.grantAt("r"); g.Phase != types.Collecting || grants.HeldOf(g.On("n1"), "cpu") != 1000 {
		t.Fatalf("its grant is %+v", g)
	}
	b.put(controlplane.JobKey("d", "j"), &types.Job{Tasks: 1})
	b.task("large", map[string]types.Quantity{"cpu": 1000}, ofJob("j"))
	b.settle()
	b.expect("large", "bound on n1")
	b.expect("other", "pending")
}

// TestCollectsWhileInFlight: while a collection is unanswered, capacity freed on the other nodes of
// the reservation goes to no others.
func TestCollectsWhileInFlight(t *testing.T) {
	b := filled(t)
	b.put(controlplane.JobKey("d", "j"), &types.Job{Tasks: 1})
	b.collectsNow("r", "j", map[string]types.Quantity{"n1": 1000, "n2": 1000})
	b.task("small", map[string]types.Quantity{"cpu": 500})
	b.settle()
	b.exited("a1")
	b.see()
	ends, answer := b.commit() // a1 has ended
	b.done(ends, answer)
	collects, answer := b.commit() // the collection is not answered
	b.exited("b1")
	b.see()
	more, first := b.commit() // b1 has ended
	b.done(more, first)
	for _, d := range b.core.Next(b.now) {
		if len(d.Binds) > 0 {
			t.Errorf("%v is bound", d.Binds)
		}
	}
	b.done(collects, answer)
	b.settle()
	b.expect("small", "pending")
	if g := b.grantAt("r"); grants.HeldOf(g.On("n1"), "cpu") != 500 || grants.HeldOf(g.On("n2"), "cpu") != 500 {
		t.Errorf("its grant is %+v", g)
	}
}

// TestCollectsToKeep: one that does not hand over is granted when it is complete, whatever members of
// its job wait. It holds its capacity for draws until it is given up; then waiting tasks get it.
func TestCollectsToKeep(t *testing.T) {
	b := filled(t)
	b.put(controlplane.JobKey("d", "j"), &types.Job{Tasks: 2})
	b.task("kin", map[string]types.Quantity{"cpu": 1000}, ofJob("j"))
	b.task("draws", map[string]types.Quantity{"cpu@r": 500}, ofJob("j"))
	bundle := bundleOf(map[string]types.Quantity{"cpu": 1000})
	bundle.Node = "n1"
	r := &types.Reservation{Collect: &types.Collect{On: []string{"n1"}}, Job: "j", Bundles: []types.Bundle{bundle}}
	b.put(controlplane.ReservationKey("d", "r"), r)
	b.settle()
	b.exited("a1")
	b.settle()
	if g := b.grantAt("r"); g.Phase != types.Collecting || grants.HeldOf(g.On("n1"), "cpu") != 500 {
		t.Fatalf("its grant is %+v", g)
	}
	b.exited("a2")
	b.settle()
	if g := b.grantAt("r"); g.Phase != types.Granted || grants.HeldOf(g.On("n1"), "cpu") != 1000 {
		t.Fatalf("its grant is %+v", g)
	}
	b.expect("draws", "bound on n1")
	b.expect("kin", "pending")
	b.del(controlplane.ReservationKey("d", "r"))
	b.exited("draws")
	b.settle()
	b.expect("kin", "bound on n1")
}
