package collecting

import (
	"fmt"
	"maps"
	"slices"
	"testing"
	"time"

	"github.com/escher-sched/escher/controlplane"
	"github.com/escher-sched/escher/controlplane/grants"
	"github.com/escher-sched/escher/scheduler/schedulertest"
	"github.com/escher-sched/escher/types"
)

// claim returns the grant that a task has collected; an empty one if none.
func (b *bench) claim(id string) *types.Grant {
	if r := b.core.View().Reservations[clusterID("d", id)]; r != nil && r.Grant.V != nil {
		return r.Grant.V
	}
	return &types.Grant{}
}

// over checks that nothing remains of a task's collection.
func (b *bench) over(id string) {
	b.t.Helper()
	if g := b.claim(id); g.Phase != "" {
		b.t.Errorf("%s still has %+v", id, g)
	}
}

// TestLargeTaskIsNotStarved: an endless stream of small tasks of the same priority takes all freed
// capacity. A task as large as a node still starts within the run time of the tasks that run when
// it begins to collect. The other nodes continue as before.
func TestLargeTaskIsNotStarved(t *testing.T) {
	for _, may := range []bool{false, true} {
		b := newBench(t, config{after: 10 * time.Second})
		for i := range 4 {
			b.node(fmt.Sprintf("n%d", i), 4000)
		}
		b.settle()
		next, ended, begun := 0, 0, 0
		live := make(map[string]int) // number of tasks by the second in which they end
		placedAt := -1
		for second := range 60 {
			if second == 5 {
				b.task("large", map[string]types.Quantity{"cpu": 4000}, func(t *types.Task) { t.Accumulate = may })
			}
			for len(live)+b.core.Waiting() < 30 {
				b.task(fmt.Sprintf("small%d", next), map[string]types.Quantity{"cpu": 1000})
				live[fmt.Sprintf("small%d", next)] = 0
				next++
			}
			b.later(time.Second)
			for _, id := range slices.Sorted(maps.Keys(live)) {
				end := live[id]
				if b.where(id) == "pending" {
					continue
				}
				switch {
				case end == 0:
					live[id] = second + 4 + begun%3
					begun++
				case end <= second:
					b.exited(id)
					delete(live, id)
					ended++
				}
			}
			b.settle()
			if placedAt < 0 && b.where("large") != "pending" {
				placedAt = second
			}
		}
		if may != (placedAt >= 0) {
			t.Errorf("may collect: %t: it was placed in second %d", may, placedAt)
		}
		if may && (placedAt > 5+10+8 || ended < 120) {
			t.Errorf("it was placed in second %d, and %d small ones have ended", placedAt, ended)
		}
		if may {
			b.over("large")
		}
	}
}

// TestClaim: a task collects freed capacity on its node, and is bound in the transaction that
// deletes its grant.
func TestClaim(t *testing.T) {
	b := newAging(t)
	b.node("n1", 1000)
	b.task("a", map[string]types.Quantity{"cpu": 600})
	b.task("b", map[string]types.Quantity{"cpu": 300})
	b.settle()
	b.task("large", map[string]types.Quantity{"cpu": 1000}, accumulates)
	b.settle()
	b.over("large")
	b.later(2 * time.Second)
	if g := b.claim("large"); g.Phase != types.Collecting || grants.HeldOf(g.On("n1"), types.CPU) != 100 {
		t.Fatalf("it has %+v", g)
	}
	b.task("small", map[string]types.Quantity{"cpu": 100})
	b.exited("b")
	b.settle()
	b.expect("small", "pending")
	if g := b.claim("large"); grants.HeldOf(g.On("n1"), types.CPU) != 400 {
		t.Errorf("it has %+v", g)
	}
	b.exited("a")
	b.settle()
	b.expect("large", "bound on n1")
	b.over("large")
	b.expect("small", "pending")
	b.exited("large")
	b.settle()
	b.expect("small", "bound on n1")
}

// TestClaimEnds: the collected capacity of a task is free again when it no longer waits, for any
// reason.
func TestClaimEnds(t *testing.T) {
	for name, end := range map[string]func(b *bench){
		"stopped": func(b *bench) {
			t := *b.core.View().Task(clusterID("d", "large")).Info.V.Full()
			t.Stop = &types.Stop{}
			b.put(controlplane.TaskKey("d", "large"), &t)
		},
		"overdue": func(b *bench) { b.later(time.Hour) },
		"elsewhere": func(b *bench) {
			b.node("n2", 1000)
			b.later(searchEvery)
			b.expect("large", "bound on n2")
		},
		"its node is gone": func(b *bench) {
			b.del(controlplane.AliveKey("n1"))
			b.node("n2", 1000)
			b.later(searchEvery)
			b.expect("large", "bound on n2")
			b.node("n1", 1000)
		},
	} {
		t.Run(name, func(t *testing.T) {
			b := newAging(t)
			b.node("n1", 1000)
			b.task("hog", map[string]types.Quantity{"cpu": 100}, func(t *types.Task) { t.OnDisconnect = types.Keep })
			b.settle()
			b.task("large", map[string]types.Quantity{"cpu": 1000}, accumulates, func(t *types.Task) { t.Deadline = b.now.Add(time.Hour).UnixNano() })
			b.settle()
			b.later(2 * time.Second)
			if g := b.claim("large"); grants.HeldOf(g.On("n1"), types.CPU) != 900 {
				t.Fatalf("it has %+v", g)
			}
			end(b)
			b.settle()
			b.over("large")
			b.task("small", map[string]types.Quantity{"cpu": 900, "node/n1": 1})
			b.settle()
			b.expect("small", "bound on n1")
		})
	}
}

// TestClaimantsTakeTurns: one task or reservation at a time collects, the first in the queue.
// Others with the same request are still placed elsewhere.
func TestClaimantsTakeTurns(t *testing.T) {
	b := newAging(t)
	b.node("n1", 1000)
	b.task("hog", map[string]types.Quantity{"cpu": 500})
	b.settle()
	b.task("one", map[string]types.Quantity{"cpu": 1000}, accumulates)
	b.task("two", map[string]types.Quantity{"cpu": 1000}, accumulates, func(t *types.Task) { t.Priority = 1 })
	b.put(controlplane.ReservationKey("d", "r"), &types.Reservation{Accumulate: true, Submitted: b.now.UnixNano(), Bundles: []types.Bundle{{Requests: schedulertest.Vector(1000, 0)}}})
	b.settle()
	b.later(2 * time.Second)
	if b.claim("two").Phase != types.Collecting || b.claim("one").Phase != "" || b.claim("r").Phase != "" {
		t.Fatalf("they have %+v, %+v, %+v", b.claim("two"), b.claim("one"), b.claim("r"))
	}
	b.node("n2", 1000) // the first in the queue takes it, and the next one collects
	b.settle()
	b.later(searchEvery)
	b.expect("two", "bound on n2")
	if b.claim("one").Phase != types.Collecting {
		t.Errorf("the next one has %+v", b.claim("one"))
	}
	b.exited("hog")
	b.settle()
	b.expect("one", "bound on n1")
	b.exited("one")
	b.later(searchEvery)
	if g := b.claim("r"); g.Phase != types.Granted {
		t.Errorf("the reservation has %+v", g)
	}
}

// TestClaimsAreBackfilled: a task that ends in time uses what a task has collected.
func TestClaimsAreBackfilled(t *testing.T) {
	b := newAging(t)
	b.node("n1", 1000)
	b.task("hog", map[string]types.Quantity{"cpu": 500}, func(t *types.Task) { t.MaxRun = time.Minute })
	b.settle()
	b.task("large", map[string]types.Quantity{"cpu": 1000}, accumulates, func(t *types.Task) { t.MaxRun = time.Second })
	b.settle()
	b.later(2 * time.Second)
	b.task("long", map[string]types.Quantity{"cpu": 400}, func(t *types.Task) { t.MaxRun = time.Hour })
	b.task("short", map[string]types.Quantity{"cpu": 400}, func(t *types.Task) { t.MaxRun = 10 * time.Second })
	b.settle()
	b.expect("long", "pending")
	b.expect("short", "bound on n1")
	b.exited("short")
	b.settle()
	b.exited("hog")
	b.settle()
	b.expect("large", "bound on n1")
	b.over("large")
}

// TestClaimWithSmallTransactions: capacity freed in a full draft is collected in the next one, and
// the task is bound in the one after.
func TestClaimWithSmallTransactions(t *testing.T) {
	for ops := 32; ops <= 64; ops++ {
		b := newLimitedBench(t, controlplane.Limits{Ops: ops, Bytes: 1 << 20}, config{after: time.Second})
		b.node("n1", 1000)
		for i := range 10 {
			b.task(fmt.Sprintf("t%d", i), map[string]types.Quantity{"cpu": 100})
		}
		b.settle()
		b.task("large", map[string]types.Quantity{"cpu": 1000}, accumulates)
		b.settle()
		b.later(2 * time.Second)
		for i := range 10 {
			b.exited(fmt.Sprintf("t%d", i))
			b.task(fmt.Sprintf("small%d", i), map[string]types.Quantity{"cpu": 100})
		}
		b.settle()
		b.expect("large", "bound on n1")
		b.over("large")
	}
}

// TestClaimAndReservationOfOneName: neither takes the other's grant for its own.
func TestClaimAndReservationOfOneName(t *testing.T) {
	b := newAging(t)
	b.node("n1", 1000)
	b.task("hog", map[string]types.Quantity{"cpu": 500})
	b.settle()
	b.task("x", map[string]types.Quantity{"cpu": 1000}, accumulates)
	b.settle()
	b.later(2 * time.Second)
	b.put(controlplane.ReservationKey("d", "x"), &types.Reservation{Submitted: b.now.UnixNano(), Bundles: []types.Bundle{{Requests: schedulertest.Vector(100, 0)}}})
	b.settle()
	if g := b.claim("x"); g.Task == 0 || g.Phase != types.Collecting {
		t.Fatalf("there is %+v", g)
	}
	b.exited("hog")
	b.settle()
	b.expect("x", "bound on n1")
	b.exited("x")
	b.settle()
	if g := b.claim("x"); g.Phase != types.Granted || g.Task != 0 {
		t.Errorf("the reservation has %+v", g)
	}
	b.task("y", map[string]types.Quantity{"cpu": 1000}, accumulates)
	b.settle()
	b.later(2 * time.Second)
	b.expect("y", "pending")
}

// TestManyThatCannotBegin: candidates too large for every node do not block a later one, and are
// not all searched for at once.
func TestManyThatCannotBegin(t *testing.T) {
	b := newAging(t)
	b.node("n1", 1000)
	b.task("hog", map[string]types.Quantity{"cpu": 500})
	b.settle()
	for i := range 3 * triesPerSearch {
		b.task(fmt.Sprintf("huge%d", i), map[string]types.Quantity{"cpu": types.Quantity(2000 + i)}, accumulates)
	}
	b.later(time.Millisecond)
	b.task("large", map[string]types.Quantity{"cpu": 1000}, accumulates)
	b.settle()
	b.later(2 * time.Second)
	for i := range 3 {
		if b.claim("large").Phase != "" {
			t.Fatalf("it has begun after %d searches of %d shapes each", i+1, triesPerSearch)
		}
		if at := b.wake(); at.IsZero() || at.Sub(b.now) > searchEvery {
			t.Errorf("the next search is at %s", at)
		}
		b.later(searchEvery)
	}
	if g := b.claim("large"); g.Phase != types.Collecting {
		t.Errorf("it has %+v", g)
	}
}

// TestMovesOn: a claimant that waits for tasks that do not end moves to a node where tasks end, and
// leaves the rest of the first node to others.
func TestMovesOn(t *testing.T) {
	for _, reservation := range []bool{false, true} {
		b := newAging(t)
		b.node("n1", 1000)
		b.node("n2", 1000)
		b.node("n3", 1000)
		b.task("service", map[string]types.Quantity{"cpu": 100, "node/n1": 1})
		b.task("service2", map[string]types.Quantity{"cpu": 200, "node/n2": 1})
		b.task("small0", map[string]types.Quantity{"cpu": 900, "node/n3": 1})
		b.settle()
		if reservation {
			b.put(controlplane.ReservationKey("d", "large"), &types.Reservation{Accumulate: true, Submitted: b.now.UnixNano(), Bundles: []types.Bundle{{Requests: schedulertest.Vector(1000, 0)}}})
		} else {
			b.task("large", map[string]types.Quantity{"cpu": 1000}, accumulates)
		}
		b.settle()
		b.later(2 * time.Second)
		for _, n := range []string{"n1", "n2", "n3"} {
			if g := b.claim("large"); g.Bundles[0] != n || len(g.Nodes) != 1 {
				t.Fatalf("it collects on %v, want %s", g, n)
			}
			if at := b.wake(); at.IsZero() || at.Sub(b.now) > patience*time.Second {
				t.Errorf("on %s it is looked at again at %s", n, at)
			}
			b.later(patience*time.Second - time.Millisecond)
			if g := b.claim("large"); g.Bundles[0] != n {
				t.Errorf("it has left %s early", n)
			}
			b.later(time.Millisecond)
		}
		if g := b.claim("large"); g.Bundles[0] != "n3" {
			t.Errorf("where all was tried, it collects on %v", g)
		}
		b.later(patience * time.Second)
		if g := b.claim("large"); g.Bundles[0] != "n3" || !b.wake().IsZero() {
			t.Errorf("while nothing ends it collects on %v, and wakes at %s", g, b.wake())
		}
		b.task("passing", map[string]types.Quantity{"cpu": 10, "node/n2": 1})
		b.settle()
		b.exited("passing")
		b.settle()
		if g := b.claim("large"); g.Bundles[0] != "n1" {
			t.Errorf("then it collects on %v", g)
		}
		b.task("other", map[string]types.Quantity{"cpu": 800, "node/n2": 1})
		b.settle()
		b.expect("other", "bound on n2")
		b.exited("service")
		b.later(searchEvery)
		if g := b.claim("large"); reservation && g.Phase != types.Granted || !reservation && b.where("large") != "bound on n1" {
			t.Errorf("it is %s, with %+v", b.where("large"), g)
		}
	}
}

// TestStaysWhereTheEndIsKnown: a claimant waits for tasks that end by a known time.
func TestStaysWhereTheEndIsKnown(t *testing.T) {
	b := newAging(t)
	b.node("n1", 1000)
	b.node("n2", 1000)
	b.task("long", map[string]types.Quantity{"cpu": 100, "node/n1": 1}, func(t *types.Task) { t.MaxRun = time.Hour })
	b.task("service", map[string]types.Quantity{"cpu": 200, "node/n2": 1})
	b.settle()
	b.task("large", map[string]types.Quantity{"cpu": 1000}, accumulates)
	b.settle()
	b.later(2 * time.Second)
	for range 5 {
		b.later(patience * time.Second)
		if g := b.claim("large"); g.Bundles[0] != "n1" {
			t.Fatalf("it collects on %v", g)
		}
	}
}
