package sim

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/escher-sched/escher/controlplane"
	"github.com/escher-sched/escher/types"
)

// TestCollectAmidFaults: tasks fill machines, and reservations collect for a task of a
// job, or for a gang, while the present tasks are evicted. Meanwhile schedulers race and crash,
// nodes are lost, and reservations are given up midway. At every revision the audit sees that
// nothing is held twice and no gang partly, and at the end that nothing is left.
func TestCollectAmidFaults(t *testing.T) {
	over := 0
	for seed := range uint64(60) {
		b := newBench(t, Config{Seed: seed, Schedulers: 1 + int(seed%3), Nodes: 4, Tasks: 1, Shared: seed%5 == 4})
		rng := rand.New(rand.NewPCG(seed, 11))
		for i := range 400 {
			b.makeRoom(rng, i)
			over += b.handedOver()
		}
		for _, kv := range b.list(controlplane.Prefix(controlplane.Cordons)).KVs {
			b.delete(kv.Key)
		}
		if b.rest(); len(b.findings) > 0 {
			b.ok()
			t.Fatalf("seed %d", seed)
		}
	}
	t.Logf("handed over %d times", over)
	if over < 30 {
		t.Errorf("handed over only %d times", over)
	}
}

// handedOver gives up the reservations that have been handed over, and returns their number.
func (b *bench) handedOver() (n int) {
	for _, kv := range b.list(controlplane.Prefix(controlplane.Grants)).KVs {
		var g types.Grant
		k, _ := controlplane.Parse(kv.Key)
		if b.read(kv.Key, &g) == 0 || g.Phase != types.HandedOver || b.get(controlplane.ReservationKey("a", k.ID)).ModRevision == 0 {
			continue
		}
		b.delete(controlplane.ReservationKey("a", k.ID))
		n++
	}
	return n
}

// makeRoom does one thing: to tasks that fill the machines, a collecting job, a node, or a
// scheduler.
func (b *bench) makeRoom(rng *rand.Rand, i int) {
	b.t.Helper()
	there := b.list(controlplane.Prefix(controlplane.Reservations, "a")).KVs
	switch n := rng.IntN(24); {
	case n < 3:
		b.task(fmt.Sprintf("low%d", i), need("cpu", room/4))
	case n == 3 && len(there) < 5:
		b.collectFor(fmt.Sprintf("j%d", i), rng)
	case n == 4 && len(there) > 0 && rng.IntN(6) == 0:
		b.apps.remove(there[rng.IntN(len(there))].Key)
	case n < 8:
		b.do(Step{EvictTask, rng.Uint32(), rng.Uint32()})
	case n == 8:
		b.do(Step{[]Kind{NodeLost, NodeBack, NodeBack, Cordon, CrashScheduler, Compact}[rng.IntN(6)], rng.Uint32(), rng.Uint32()})
	case n == 9:
		b.calmOrNot(rng)
	default:
		b.do(Step{[]Kind{Deliver, Decide, Commit, Answer, Late, AgentWatch, AgentWork, Tick}[rng.IntN(8)], rng.Uint32(), rng.Uint32()})
	}
}

// collectFor submits a job, of a task with a whole machine or of a gang of two, and a reservation
// that collects that on named machines.
func (b *bench) collectFor(job string, rng *rand.Rand) {
	b.t.Helper()
	c, now := b.newChange(), b.now.UnixNano()
	r := &types.Reservation{Submitted: now, Job: job, Priority: 5}
	size := 1 + rng.IntN(2)
	requests := need("cpu", room)
	if size > 1 {
		requests = need("cpu@"+job+".gang", room)
		gang := &types.Reservation{Submitted: now, Job: job, Priority: 5, Bundles: []types.Bundle{bundle("", "cpu", room), bundle("", "cpu", room)}}
		c.Put(controlplane.ReservationKey("a", job+".gang"), gang)
	}
	first := rng.IntN(len(b.agents))
	for i := range size {
		id := fmt.Sprintf("%s-%d", job, i)
		r.Bundles = append(r.Bundles, bundle(b.agents[(first+i)%len(b.agents)].name, "cpu", room))
		c.Put(controlplane.TaskKey("a", id), &types.Task{Job: job, Requests: requests, Submitted: now, Priority: 5, MaxRun: time.Hour})
		b.apps.tasks = append(b.apps.tasks, ref{"a", id})
	}
	c.Put(controlplane.JobKey("a", job), &types.Job{Tasks: size, Submitted: now})
	r.Collect = types.NewCollect(r.Bundles, true)
	c.Put(controlplane.ReservationKey("a", job+".preempt"), r)
	b.try(c)
}

// preemptRaces are about reservations that their makers direct.
func preemptRaces() []race {
	collects := func(r *types.Reservation) { r.Collect, r.Job = types.NewCollect(r.Bundles, true), "j" }
	return []race{
		{"reservation", "what its maker directs is given up", func(b *bench) {
			b.reserve("r", collects, bundle("n0", "cpu", room))
		}, func(b *bench) { b.delete(controlplane.ReservationKey("a", "r")) }},
		{"task", "the task that is to get what was collected is stopped", func(b *bench) {
			b.reserve("r", collects, bundle("n0", "cpu", room))
			b.schedule(0)
			b.task("t1", need("cpu", room), func(t *types.Task) { t.Job = "j" })
			b.put(controlplane.JobKey("a", "j"), &types.Job{Tasks: 1})
		}, func(b *bench) { b.apps.halt(ref{"a", "t1"}) }},
		{"namespace", "a quota is set while something is collected for a job", func(b *bench) {
			b.reserve("r", collects, bundle("n0", "cpu", room))
			b.schedule(0)
			b.task("t1", need("cpu", room), func(t *types.Task) { t.Job = "j" })
			b.put(controlplane.JobKey("a", "j"), &types.Job{Tasks: 1})
		}, func(b *bench) { b.quota() }},
	}
}
