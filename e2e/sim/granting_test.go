package sim

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/escher-sched/escher/controlplane"
	"github.com/escher-sched/escher/types"
)

// TestGrantingAmidFaults: gangs too large for one transaction, and small tasks between them, while
// schedulers race and crash, machines are lost and drained, and reservations are given up. At every
// revision the audit sees that no task draws on a part of a gang, and that one gang at a time is
// taken in parts. At rest none is, and at the end nothing is left.
func TestGrantingAmidFaults(t *testing.T) {
	seen := make(map[string]int)
	for seed := range uint64(100) {
		b := newBench(t, Config{Seed: seed, Schedulers: 1 + int(seed%3), Nodes: 9, Tasks: 1, Ops: 17, Shared: seed%5 == 4})
		rng := rand.New(rand.NewPCG(seed, 13))
		for i := range 700 {
			b.grantingFault(rng, i)
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
	begun, granted := seen["grants granting"], seen["grants granted later"]
	t.Logf("%d begun, %d granted, %d other steps", begun, granted, seen["grants granting later"])
	if granted < 100 || begun < granted+30 {
		t.Errorf("%d were begun, and %d granted: none of them too few, and some are to be given back", begun, granted)
	}
}

// grantingFault does one thing: to a gang, a task, a node, or a scheduler.
func (b *bench) grantingFault(rng *rand.Rand, i int) {
	b.t.Helper()
	there := b.list(controlplane.Prefix(controlplane.Reservations, "a")).KVs
	switch n := rng.IntN(24); {
	case n < 2 && len(there) < 4:
		b.gang(fmt.Sprintf("g%d", i), 4+rng.IntN(5))
	case n == 2 && len(there) > 0 && rng.IntN(2) == 0:
		b.apps.remove(there[rng.IntN(len(there))].Key)
	case n == 3 && rng.IntN(3) == 0:
		b.task(fmt.Sprintf("small%d", i), need("cpu", 1000), func(t *types.Task) { t.MaxRun, t.Priority = time.Minute, rng.IntN(3) })
	case n < 6:
		b.do(Step{[]Kind{NodeLost, NodeBack, NodeBack, NodeBack, Cordon, CrashScheduler, CrashScheduler, Compact}[rng.IntN(8)], rng.Uint32(), rng.Uint32()})
	case n == 6:
		b.calmOrNot(rng)
	default:
		b.do(Step{[]Kind{Deliver, Decide, Commit, Answer, Deliver, Decide, Commit, Answer, Late, AgentWatch, AgentWork, Tick}[rng.IntN(12)], rng.Uint32(), rng.Uint32()})
	}
}

// grantingRaces are races between the transactions in which a reservation is granted.
func grantingRaces() []race {
	whole := func(from, to int) (out []types.Bundle) {
		for i := from; i < to; i++ {
			out = append(out, bundle(fmt.Sprintf("n%d", i), "cpu", room))
		}
		return out
	}
	begun := func(b *bench) {
		b.reserve("r", nil, whole(0, 9)...)
		b.drafts(0)
		b.sends(0)
	}
	return []race{
		{"leader", "two reservations begin to be granted in several transactions", func(b *bench) {
			b.small(12, 24)
			b.reserve("r", nil, whole(0, 6)...)
		}, func(b *bench) {
			b.reserve("s", func(r *types.Reservation) { r.Priority = 1 }, whole(6, 12)...)
			b.drafts(1)
			b.sends(1)
		}},
		{"reservation", "it is deleted while it is being granted", func(b *bench) {
			b.small(9, 24)
			begun(b)
		}, func(b *bench) { b.delete(controlplane.ReservationKey("a", "r")) }},
		{"grant", "what is being granted is given back", func(b *bench) {
			b.small(9, 24)
			begun(b)
		}, func(b *bench) {
			b.agents[8].info.Capacity = need("cpu", 1000)
			b.agents[8].register()
			b.schedule(1)
		}},
		{"namespace", "a quota is set before the last part is taken", func(b *bench) {
			b.small(9, 24)
			begun(b)
			b.untilLast("r")
		}, func(b *bench) { b.quota() }},
		{"devices", "devices of an earlier part turn out to be of another model", func(b *bench) {
			const nodes = 36
			b.small(nodes, 64)
			var bundles []types.Bundle
			for i, a := range b.agents {
				if i >= 2 {
					a.addDevices()
					a.info.Capacity = a.capacity(0, room)
					a.register()
				}
				bundles = append(bundles, wanting("G200", bundle(fmt.Sprintf("n%d", i), "gpu", 1000)))
			}
			b.reserve("r", nil, bundles...)
			b.drafts(0)
			b.sends(0)
			b.untilLast("r")
		}, func(b *bench) { b.remodel(0) }},
	}
}

// small shrinks the cluster to a number of nodes, and its transactions to a number of operations.
func (b *bench) small(nodes, ops int) {
	b.t.Helper()
	for i := len(b.agents); i < nodes; i++ {
		b.agents = append(b.agents, newAgent(b.world, i))
	}
	b.cfg.Nodes, b.cfg.Ops = nodes, ops
	for _, m := range b.members {
		m.start()
	}
}

// untilLast lets s0 take all parts of a reservation but the last.
func (b *bench) untilLast(id string) {
	b.t.Helper()
	lacking := func() (n int) {
		for _, at := range b.grant(id).Nodes {
			if len(at.Holds) == 0 {
				n++
			}
		}
		return n
	}
	part := len(b.grant(id).Nodes) - lacking()
	if part == 0 || part == len(b.grant(id).Nodes) {
		b.t.Fatalf("the first part is of %d nodes", part)
	}
	for lacking() > part {
		b.drafts(0)
		b.sends(0)
	}
}
