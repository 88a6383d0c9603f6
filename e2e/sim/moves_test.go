package sim

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/escher-sched/escher/controlplane"
	"github.com/escher-sched/escher/types"
)

// TestMovesAmidFaults: gangs on whole machines, a few of which at a time are lost, return or are
// drained, with schedulers that race and crash. At every revision the audit sees that no gang holds
// a part of what it needs, and that none leaves a node wrongly. At rest all have what they
// requested, and at the end nothing is left.
func TestMovesAmidFaults(t *testing.T) {
	seen := make(map[string]int)
	for seed := range uint64(100) {
		b := newBench(t, Config{Seed: seed, Schedulers: 1 + int(seed%3), Nodes: 9, Tasks: 1, Shared: seed%5 == 4})
		rng := rand.New(rand.NewPCG(seed, 7))
		for i := range 700 {
			b.fault(rng, i)
		}
		for _, kv := range b.list(controlplane.Prefix(controlplane.Cordons)).KVs {
			b.delete(kv.Key)
		}
		if b.rest(); len(b.findings) > 0 {
			b.ok()
			t.Fatalf("seed %d", seed)
		}
		for what, n := range b.seen {
			seen[what] += n
		}
	}
	t.Logf("moved %d times, by %d grants", seen["grants moved"], seen["grants granted"]+seen["grants granted later"])
	if seen["grants moved"] < 100 {
		t.Errorf("moved only %d times", seen["grants moved"])
	}
}

// fault does one thing: to a gang, a node, or a scheduler.
func (b *bench) fault(rng *rand.Rand, i int) {
	b.t.Helper()
	away := 0
	for _, a := range b.agents {
		if a.state != up {
			away++
		}
	}
	there := b.list(controlplane.Prefix(controlplane.Reservations, "a")).KVs
	switch n := rng.IntN(20); {
	case n == 0 && len(there) < 3:
		b.movingGang(fmt.Sprintf("g%d", i), 1+rng.IntN(3), rng.IntN(3))
	case n == 1 && len(there) > 1 && rng.IntN(4) == 0:
		k, _ := controlplane.Parse(there[rng.IntN(len(there))].Key)
		b.apps.remove(controlplane.ReservationKey("a", k.ID))
	case n == 2 && away < 3, n == 3 && away > 0, n == 4 && away > 0:
		for _, a := range b.agents {
			if (a.state == up) == (n == 2) && rng.IntN(2) == 0 {
				a.lose(rng)
				break
			}
		}
	case n == 5:
		b.do(Step{[]Kind{NodeBack, NodeBack, Drain, Cordon, DeclareDead, CrashScheduler, Compact}[rng.IntN(7)], rng.Uint32(), rng.Uint32()})
	case n == 6:
		b.calmOrNot(rng)
	default:
		b.do(Step{[]Kind{Deliver, Decide, Commit, Answer, Late, AgentWatch, AgentWork, DrainLook, Tick}[rng.IntN(9)], rng.Uint32(), rng.Uint32()})
	}
}

// calmOrNot lets some time pass in which every part does what it can.
func (b *bench) calmOrNot(rng *rand.Rand) {
	b.later(time.Duration(rng.IntN(30)) * time.Second)
	for range rng.IntN(8) {
		b.advance()
	}
}

// movingGang submits a reservation of n whole machines that moves, and a task for each.
func (b *bench) movingGang(id string, n, retries int) {
	b.t.Helper()
	c := b.newChange()
	r := &types.Reservation{Submitted: b.now.UnixNano(), Lost: types.MoveBundles, Accumulate: retries == 0}
	for i := range n {
		r.Bundles = append(r.Bundles, bundle("", "cpu", room))
		member := fmt.Sprintf("%s-%d", id, i)
		c.Put(controlplane.TaskKey("a", member), &types.Task{Requests: need("cpu@"+id, room), Submitted: b.now.UnixNano(), Retries: retries})
		b.apps.tasks = append(b.apps.tasks, ref{"a", member})
	}
	c.Put(controlplane.ReservationKey("a", id), r)
	b.try(c)
}

// TestMovesInParts: bundles that leave more nodes than a transaction holds move in several, and
// only when all of them fit.
func TestMovesInParts(t *testing.T) {
	const bundles = 8
	b := newBench(t, Config{Seed: 1, Schedulers: 1, Nodes: 2*bundles - 1, Tasks: 1, Ops: 48})
	var all []types.Bundle
	for range bundles {
		all = append(all, bundle("", "cpu", room))
	}
	b.reserve("r", moves, all...)
	b.calm()
	from := b.grant("r")
	if from == nil || from.Phase != types.Granted {
		t.Fatalf("the grant is %v", from)
	}
	for _, at := range from.Nodes {
		b.put(controlplane.CordonKey(at.Node), &types.Cordon{Drain: types.DrainMove})
	}
	b.calm()
	if g := b.grant("r"); !slices.Equal(g.Bundles, from.Bundles) {
		t.Errorf("they moved from %v to %v, where there is no room for all", from.Bundles, g.Bundles)
	}
	b.delete(controlplane.CordonKey(from.Bundles[0]))
	b.calm()
	g := b.grant("r")
	for i, node := range g.Bundles {
		if was := from.Bundles[i]; (node == was) != (was == from.Bundles[0]) {
			t.Errorf("bundle %d is on %s, was on %s", i, node, was)
		}
	}
	b.ok()
}

// moveRaces are about the nodes that bundles leave.
func moveRaces() []race {
	return []race{
		{"alive", "the node that a bundle was to leave is back", func(b *bench) {
			b.reserve("r", moves, bundle("", "cpu", room))
			b.schedule(0)
			b.lost(b.holder("r"))
		}, func(b *bench) { b.agents[b.holder("r")].enter() }},
		{"cordon", "the node that a bundle was to leave is not drained any more", func(b *bench) {
			b.reserve("r", moves, bundle("", "cpu", room))
			b.schedule(0)
			b.put(controlplane.CordonKey(b.agents[b.holder("r")].name), &types.Cordon{Drain: types.DrainMove})
		}, func(b *bench) { b.delete(controlplane.CordonKey(b.agents[b.holder("r")].name)) }},
	}
}

func moves(r *types.Reservation) { r.Lost = types.MoveBundles }

// holder is the index of the node with the first bundle of a reservation.
func (b *bench) holder(id string) int {
	b.t.Helper()
	g := b.grant(id)
	if g == nil {
		b.t.Fatalf("%s has no grant", id)
	}
	return slices.IndexFunc(b.agents, func(a *agent) bool { return a.name == g.Bundles[0] })
}
