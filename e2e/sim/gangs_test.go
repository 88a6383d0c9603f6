package sim

import (
	"context"
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/escher-sched/escher/controlplane"
	"github.com/escher-sched/escher/types"
)

// TestTwoGangs: two gangs that fit alone but not together, a thousand times. Neither ever holds a
// part of what it needs (the audit sees every revision); one goes first, then the other.
func TestTwoGangs(t *testing.T) {
	b := newBench(t, Config{Seed: 1, Schedulers: 2, Nodes: 3, Tasks: 1})
	rng := rand.New(rand.NewPCG(1, 1))
	first := make(map[string]int)
	for round := range 1000 {
		gangs := []string{fmt.Sprintf("g%d", round), fmt.Sprintf("h%d", round)}
		rng.Shuffle(2, func(i, j int) { gangs[i], gangs[j] = gangs[j], gangs[i] })
		for _, id := range gangs {
			b.gang(id, 2)
			for range 4 + rng.IntN(12) {
				b.do(Step{[]Kind{Deliver, Decide, Commit, Answer, Late}[rng.IntN(5)], rng.Uint32(), rng.Uint32()})
			}
		}
		for n := range gangs {
			b.calm()
			granted := b.granted()
			if len(granted) != 1 {
				t.Fatalf("round %d: granted are %v", round, granted)
			}
			if n == 0 {
				first[granted[0][:1]]++
			}
			for i := range 2 {
				b.end(fmt.Sprintf("%s-%d", granted[0], i), 0)
			}
			b.delete(controlplane.ReservationKey("a", granted[0]))
		}
		b.calm()
		if granted := b.granted(); len(granted) > 0 {
			t.Fatalf("round %d: %v is left", round, granted)
		}
		b.apps.collect()
		if round%50 == 49 {
			_ = b.store.Compact(context.Background(), b.store.Revision()-10)
		}
		if b.ok(); t.Failed() {
			t.Fatalf("in round %d", round)
		}
	}
	t.Log("who went first:", first)
}

// gang submits a reservation of n whole machines and a task for each.
func (b *bench) gang(id string, n int) {
	b.t.Helper()
	c := b.newChange()
	r := &types.Reservation{Submitted: b.now.UnixNano()}
	for i := range n {
		r.Bundles = append(r.Bundles, bundle("", "cpu", room))
		member := fmt.Sprintf("%s-%d", id, i)
		c.Put(controlplane.TaskKey("a", member), &types.Task{Requests: need("cpu@"+id, room), Submitted: b.now.UnixNano()})
		b.apps.tasks = append(b.apps.tasks, ref{"a", member})
	}
	c.Put(controlplane.ReservationKey("a", id), r)
	if !b.try(c) {
		b.t.Fatal("refused")
	}
}

// granted lists the reservations that have a grant.
func (b *bench) granted() (ids []string) {
	for _, kv := range b.list(controlplane.Prefix(controlplane.Grants)).KVs {
		k, _ := controlplane.Parse(kv.Key)
		ids = append(ids, k.ID)
	}
	return ids
}

// grant returns the grant of a reservation; nil if there is none.
func (b *bench) grant(id string) *types.Grant {
	g := new(types.Grant)
	if b.read(controlplane.GrantKey("a", id), g) == 0 {
		return nil
	}
	return g
}

func TestReservationDeletedWhileHeld(t *testing.T) {
	b := newBench(t, Config{Seed: 1, Schedulers: 1, Nodes: 2, Tasks: 1})
	b.gang("g", 2)
	b.calm()
	b.end("g-0", 0)
	b.task("other", need("cpu", room))
	b.delete(controlplane.ReservationKey("a", "g"))
	b.calm()
	// Undrawn capacity is free again, the rest is held.
	b.is("other", types.Running, "")
	b.is("g-1", types.Running, "")
	if g := b.grant("g"); g == nil || g.Phase != types.Releasing {
		t.Errorf("the grant is %+v", g)
	}
	b.task("late", need("cpu@g", 1000))
	b.calm()
	b.is("late", types.Pending, "")
	b.end("g-1", 0)
	b.calm()
	if g := b.grant("g"); g != nil {
		t.Errorf("the grant is left: %+v", g)
	}
	b.ok()
}

func TestSameNamedReservationWaits(t *testing.T) {
	b := newBench(t, Config{Seed: 1, Schedulers: 1, Nodes: 2, Tasks: 1})
	b.gang("g", 1)
	b.calm()
	old := b.grant("g").Reservation
	b.delete(controlplane.ReservationKey("a", "g"))
	b.reserve("g", nil, bundle("", "cpu", 1000))
	b.calm()
	if g := b.grant("g"); g == nil || g.Reservation != old || g.Phase != types.Releasing {
		t.Errorf("the old grant is %+v", g)
	}
	b.end("g-0", 0)
	b.calm()
	if g := b.grant("g"); g == nil || g.Reservation == old || g.Phase != types.Granted {
		t.Errorf("the new grant is %+v", g)
	}
	b.ok()
}

// TestAccumulate: a stream of small tasks takes all freed capacity, and a large reservation is
// granted nevertheless.
func TestAccumulate(t *testing.T) {
	for _, accumulate := range []bool{false, true} {
		b := newBench(t, Config{Seed: 1, Schedulers: 1, Nodes: 2, Tasks: 1})
		n, started := 0, 0
		small := func(n int) string { return fmt.Sprintf("small%03d", n) }
		stream := func() {
			for ; n < started+20; n++ {
				b.task(small(n), need("cpu", room/4))
			}
		}
		stream()
		b.calm()
		b.reserve("large", func(r *types.Reservation) { r.Accumulate = accumulate }, bundle("", "cpu", room), bundle("", "cpu", room))
		for ; started < 100 && b.whole("large") == nil; started++ {
			b.later(time.Second)
			b.end(small(started), 0)
			stream()
			b.calm()
		}
		if got := b.whole("large") != nil; got != accumulate {
			t.Errorf("accumulate %t: granted %t after %d small tasks", accumulate, got, started)
		}
		b.ok()
	}
}

// whole returns the grant of a granted reservation; nil otherwise.
func (b *bench) whole(id string) *types.Grant {
	if g := b.grant(id); g != nil && g.Phase == types.Granted {
		return g
	}
	return nil
}

// TestBackfill: collected capacity is lent to tasks that end in time.
func TestBackfill(t *testing.T) {
	b := newBench(t, Config{Seed: 1, Schedulers: 1, Nodes: 1, Tasks: 1})
	b.task("long", need("cpu", room/2), maxRun(100*time.Second))
	b.calm()
	b.reserve("large", accumulates, bundle("", "cpu", room))
	b.later(10 * time.Second)
	b.calm()
	if g := b.grant("large"); g == nil || g.Phase != types.Collecting || g.Nodes[0].Holds[0].Amount != room/2 {
		t.Fatalf("it holds %+v", g)
	}
	b.task("endless", need("cpu", 1000))
	b.task("too-long", need("cpu", 1000), maxRun(200*time.Second))
	b.task("in-time", need("cpu", 1000), maxRun(50*time.Second))
	b.task("in-time-too", need("cpu", 1000), maxRun(50*time.Second))
	b.calm()
	b.is("endless", types.Pending, "")
	b.is("too-long", types.Pending, "")
	b.is("in-time", types.Running, "n0")
	b.is("in-time-too", types.Running, "n0")
	b.end("in-time", 0)
	b.end("in-time-too", 0)
	b.end("long", 0)
	b.calm()
	if b.whole("large") == nil {
		t.Errorf("the reservation is %+v", b.grant("large"))
	}
	b.ok()
}

func maxRun(d time.Duration) func(*types.Task) { return func(t *types.Task) { t.MaxRun = d } }
