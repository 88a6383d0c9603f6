package scheduler

import (
	"slices"
	"time"

	"github.com/escher-sched/escher/controlplane/cluster"
	"github.com/escher-sched/escher/scheduler/grants"
	"github.com/escher-sched/escher/types"
)

// Backfill (Lifka 1995, EASY): the known ends of tasks bound when the accumulating reservation is
// complete. A task that ends before then may use the capacity collected so far: see useCollected.

// lendable is the resource on which a backfill task waits besides those it lacks. It stands for a
// change of the collected capacity, or of the known ends of other tasks.
const lendable types.ResourceID = "<"

// completion is when everything that a grant wants could be free, given the known ends of the tasks
// there; the zero time means unknown.
func (c *Core) completion(r *cluster.Reservation, g *types.Grant) time.Time {
	var latest time.Time
	on := grants.BundlesOn(g)
	for _, at := range g.Nodes {
		n := c.view.Nodes[at.Node]
		for _, x := range grants.Wanted(c.view, r, on[at.Node]) {
			rest := x.Sum() - grants.HeldOf(at.Holds, x.ID)
			when, ok := freedBy(n, x.ID, rest)
			if !ok {
				return time.Time{}
			}
			if when.After(latest) {
				latest = when
			}
		}
	}
	return latest
}

// freedBy returns when the tasks on n with a known end will have freed amount of rid.
func freedBy(n *cluster.Node, rid types.ResourceID, amount types.Quantity) (time.Time, bool) {
	type end struct {
		at     int64
		amount types.Quantity
	}
	var ends []end
	for _, b := range n.Bindings {
		if b.Info.V != nil && b.Info.V.MaxRun > 0 {
			ends = append(ends, end{b.Info.V.Bound + int64(b.Info.V.MaxRun), grants.HeldOf(b.Info.V.Holds, rid)})
		}
	}
	slices.SortFunc(ends, func(a, b end) int { return int(min(1, max(-1, a.at-b.at))) })
	var when time.Time
	for _, e := range ends {
		if amount <= 0 {
			break
		}
		amount -= e.amount
		when = time.Unix(0, e.at)
	}
	return when, amount <= 0
}
