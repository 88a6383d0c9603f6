package scheduler

import (
	"slices"

	"github.com/escher-sched/escher/controlplane/cluster"
	"github.com/escher-sched/escher/scheduler/grants"
	"github.com/escher-sched/escher/types"
)

// An accumulating claimant returns all it holds if an AtOnce reservation of its namespace, for
// waiting tasks of higher priority, could collect it: otherwise both would wait. While that
// reservation lacks capacity, the claimant does not begin on it: otherwise it would take and return
// the same capacity forever.

// priority is the submitted priority, without raises.
func (x claimant) priority() int {
	if x.task != nil {
		return x.task.Info.V.Priority
	}
	return x.Info.V.Priority
}

// above returns the AtOnce reservations for waiting tasks of the namespace of x with higher
// priority.
func (c *Core) above(x claimant) []*cluster.Reservation {
	var out []*cluster.Reservation
	for id := range c.accum.atOnce {
		r := c.view.Reservations[id]
		if id.Namespace == x.ID.Namespace && grants.IsAtOnce(r) && !r.Info.V.ForItself && r.Info.V.Priority > x.priority() && r.Current() {
			out = append(out, r)
		}
	}
	return out
}

// givesWay reports whether x holds capacity that a reservation above it lacks and could take.
func (c *Core) givesWay(x claimant) bool {
	return x.Grant.V != nil && slices.ContainsFunc(c.above(x), func(r *cluster.Reservation) bool { return c.couldTake(r, x.Grant.V) })
}

// couldTake reports whether r could collect more if the holdings of another grant were free.
func (c *Core) couldTake(r *cluster.Reservation, other *types.Grant) bool {
	g := c.directed(r)
	if g == nil || c.accum.refused[r.ID] == lastChange(r) {
		return false
	}
	d := c.newDraft(c.cfg.Limits, 1)
	d.ReleaseGrant(other)
	for i := range g.Nodes {
		at := &g.Nodes[i]
		for _, w := range grants.WantedOn(c.view, r, g, at.Node) {
			if has := grants.HeldOf(at.Holds, w.ID); has < w.Sum() && grants.HoldsAt(c.view, other, at.Node, w.ID) {
				if c.collectOn(d, r, at, []grants.Want{w}); grants.HeldOf(at.Holds, w.ID) > has {
					return true
				}
			}
		}
	}
	return false
}

// shortage is a resource lacking on a node; "" stands for the whole cluster.
type shortage struct {
	node string
	id   types.ResourceID
}

// lackedAbove returns what the reservations above x lack: x must not begin on those.
func (c *Core) lackedAbove(x claimant) map[shortage]bool {
	out := make(map[shortage]bool)
	for _, r := range c.above(x) {
		for _, at := range r.Grant.V.Nodes {
			for _, w := range grants.WantedOn(c.view, r, r.Grant.V, at.Node) {
				if grants.HeldOf(at.Holds, w.ID) >= w.Sum() {
					continue
				}
				if c.view.Pool(w.ID) != nil {
					out[shortage{"", w.ID}] = true
				} else {
					out[shortage{at.Node, w.ID}] = true
				}
			}
		}
	}
	return out
}

// anyLacked reports whether any of needs is lacking on a node, or cluster-wide.
func anyLacked(lacked map[shortage]bool, node string, needs []cluster.Need) bool {
	return len(lacked) > 0 && slices.ContainsFunc(needs, func(x cluster.Need) bool {
		return lacked[shortage{node, x.ID}] || lacked[shortage{"", x.ID}]
	})
}
