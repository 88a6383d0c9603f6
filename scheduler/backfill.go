package scheduler

import (
	"slices"
	"time"

	"github.com/escher-sched/escher/controlplane/cluster"
	"github.com/escher-sched/escher/types"
)

// Backfill (Lifka 1995, EASY): from the tasks that end by a known time follows when
// the accumulating reservation will be complete; a task that ends before that may
// use what was collected meanwhile: see useCollected.

// lendable is what a task waits for that would end in time, besides what it lacks: a
// change of what is collected, or of what is known of the ends of other tasks.
const lendable types.ResourceID = "<"

// completion is when all that a grant wants could be free, by what is known of the
// ends of the tasks there; the zero time if that is not known.
func (c *Core) completion(r *cluster.Reservation, g *types.Grant) time.Time {
	var latest time.Time
	on := bundlesOn(g)
	for _, at := range g.Nodes {
		n := c.view.Nodes[at.Node]
		for _, x := range wanted(c.view, r, on[at.Node]) {
			rest := x.sum() - heldOf(at.Holds, x.ID)
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

// freedBy returns when the tasks on n that must end by a known time will have freed
// amount of rid.
func freedBy(n *cluster.Node, rid types.ResourceID, amount types.Quantity) (time.Time, bool) {
	type end struct {
		at     int64
		amount types.Quantity
	}
	var ends []end
	for _, b := range n.Bindings {
		if b.Info.V != nil && b.Info.V.MaxRun > 0 {
			ends = append(ends, end{b.Info.V.Bound + int64(b.Info.V.MaxRun), heldOf(b.Info.V.Holds, rid)})
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
