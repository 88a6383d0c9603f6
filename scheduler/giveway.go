package scheduler

import (
	"slices"

	"github.com/escher-sched/escher/controlplane/cluster"
	"github.com/escher-sched/escher/types"
)

// What accumulates holds what it has for nobody yet, and gives all of it back where it could
// be collected at once, for who waits, of its namespace and of higher priority: else both
// would wait. As long as it is lacking there it does not begin there again: else it would take
// what was given back, and give it back, without end.

// priority is the one that was given, not what it is raised to.
func (x claimant) priority() int {
	if x.task != nil {
		return x.task.Info.V.Priority
	}
	return x.Info.V.Priority
}

// above returns what collects at once for who waits, of the namespace of x and of higher
// priority.
func (c *Core) above(x claimant) []*cluster.Reservation {
	var out []*cluster.Reservation
	for id := range c.accum.atOnce {
		r := c.view.Reservations[id]
		if id.Namespace == x.ID.Namespace && isAtOnce(r) && !r.Info.V.ForItself && r.Info.V.Priority > x.priority() && r.Current() {
			out = append(out, r)
		}
	}
	return out
}

// givesWay reports whether x has collected some of what those above it lack, and could have
// more of.
func (c *Core) givesWay(x claimant) bool {
	return x.Grant.V != nil && slices.ContainsFunc(c.above(x), func(r *cluster.Reservation) bool { return c.couldTake(r, x.Grant.V) })
}

// couldTake reports whether r could collect more of what another grant holds, were that free.
func (c *Core) couldTake(r *cluster.Reservation, other *types.Grant) bool {
	g := c.directed(r)
	if g == nil || c.accum.refused[r.ID] == lastChange(r) {
		return false
	}
	d := c.newDraft(c.cfg.Limits, 1)
	d.layDown(other)
	for i := range g.Nodes {
		at := &g.Nodes[i]
		for _, w := range wantedOn(c.view, r, g, at.Node) {
			if has := heldOf(at.Holds, w.ID); has < w.sum() && c.holdsAt(other, at.Node, w.ID) {
				if c.collectOn(d, r, at, []wish{w}); heldOf(at.Holds, w.ID) > has {
					return true
				}
			}
		}
	}
	return false
}

// holdsAt reports whether a grant holds something of a resource on a node; or anywhere, of one
// of the whole cluster.
func (c *Core) holdsAt(g *types.Grant, node string, id types.ResourceID) bool {
	anywhere := c.view.Pool(id) != nil
	return slices.ContainsFunc(g.Nodes, func(at types.GrantNode) bool {
		return (anywhere || at.Node == node) && heldOf(at.Holds, id) > 0
	})
}

// shortage is a resource that is lacking on a node; of the whole cluster, on "".
type shortage struct {
	node string
	id   types.ResourceID
}

// lackedAbove returns what those above x lack: x is not to begin with that.
func (c *Core) lackedAbove(x claimant) map[shortage]bool {
	out := make(map[shortage]bool)
	for _, r := range c.above(x) {
		for _, at := range r.Grant.V.Nodes {
			for _, w := range wantedOn(c.view, r, r.Grant.V, at.Node) {
				if heldOf(at.Holds, w.ID) >= w.sum() {
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

// anyLacked reports whether any of needs is lacking on a node, or of the whole cluster.
func anyLacked(lacked map[shortage]bool, node string, needs []cluster.Need) bool {
	return len(lacked) > 0 && slices.ContainsFunc(needs, func(x cluster.Need) bool {
		return lacked[shortage{node, x.ID}] || lacked[shortage{"", x.ID}]
	})
}
