package scheduler

import (
	"slices"
	"time"

	"github.com/escher-sched/escher/controlplane/cluster"
	"github.com/escher-sched/escher/types"
)

// Backfill (Lifka 1995, EASY): from the tasks that end by a known time follows when
// the accumulating reservation will be complete; a task that ends before that may
// use what was collected meanwhile.

// lendable is what a task waits for that would end in time, besides what it lacks: a
// change of what is collected, or of what is known of the ends of other tasks.
const lendable types.ResourceID = "<"

// backfill binds a task to a node where the accumulating reservation holds what the
// task needs, if the task ends before the reservation could be complete.
func (c *Core) backfill(d *Draft, t *cluster.Task, alternative int, needs []cluster.Need) bool {
	x, ok := c.accumulating()
	if !ok || t.Info.V.MaxRun == 0 || x.task == t || c.locked(x.lock()) {
		return false
	}
	g := x.Grant.V
	switch {
	case d.collecting != nil:
		g = d.collecting.g
	case d.has(x.lock()):
		return false // it has just been granted elsewhere
	}
	if g.Phase != types.Accumulating || c.now.Add(t.Info.V.MaxRun).After(c.completion(x.Reservation, g)) {
		return false
	}
	if _, short := d.poolShort(needs); short || c.poolInFlight(d, needs) {
		return false
	}
	for i := range g.Nodes {
		n := c.view.Nodes[g.Nodes[i].Node]
		if !n.Eligible() || c.locked(n) {
			continue
		}
		if c.yield(d, x, g, i, t, alternative, needs) {
			return true
		}
	}
	return false
}

// yield gives back what x holds on its i-th node of all that needs ask for, binds
// the task, and takes what is left: nobody else is to have it.
func (c *Core) yield(d *Draft, x claimant, g *types.Grant, i int, t *cluster.Task, alternative int, needs []cluster.Need) bool {
	n := c.view.Nodes[g.Nodes[i].Node]
	var lent, rest []types.Holding
	for _, h := range g.Nodes[i].Holds {
		if !h.Cluster && slices.ContainsFunc(needs, func(y cluster.Need) bool { return y.ID == h.Resource }) {
			lent = append(lent, h)
		} else {
			rest = append(rest, h)
		}
	}
	wanted := len(wantedOn(c.view, x.Reservation, g, n.Name))
	if len(lent) == 0 || !d.room(8*(2+len(needs)+wanted), 4+len(needs)+wanted) {
		return false
	}
	d.giveBack(n, lent)
	if _, ok := d.fits(n, needs); !ok || !d.bind(t, n, alternative, needs, c.now) {
		d.take(n, lent)
		return false
	}
	after := cloneGrant(g)
	after.Nodes[i].Holds = rest
	c.collectOn(d, x.Reservation, &after.Nodes[i], wantedOn(c.view, x.Reservation, after, after.Nodes[i].Node))
	if d.collecting == nil {
		d.accumulate(c.view, x, after)
	}
	d.collecting.g = after
	c.accumulateAgain()
	return true
}

// completion is when all that a grant wants could be free, by what is known of the
// ends of the tasks there; the zero time if that is not known.
func (c *Core) completion(r *cluster.Reservation, g *types.Grant) time.Time {
	var latest time.Time
	for _, at := range g.Nodes {
		n := c.view.Nodes[at.Node]
		for _, x := range wantedOn(c.view, r, g, at.Node) {
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
