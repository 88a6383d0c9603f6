package scheduler

import (
	"time"

	"github.com/escher-sched/escher/controlplane/cluster"
	"github.com/escher-sched/escher/controlplane/grants"
	"github.com/escher-sched/escher/scheduler/draft"
	"github.com/escher-sched/escher/scheduler/queue"
	"github.com/escher-sched/escher/types"
)

// claimant is a reservation or task that may collect.
//
// A task's collected capacity is in a grant that names the task, on one node. No task draws on it.
// When all of it is there, or free elsewhere, one transaction deletes the grant and binds the task.
// Its binding then holds the capacity. So the requests and holdings of such a task are ordinary,
// and its next attempt, if it loses its node, begins again. The task stays in the queue meanwhile,
// and is placed where it fits once its collected capacity is returned.
type claimant struct {
	// Reservation is the request. For a task it is synthesized from the task's request and has no
	// key. Its grant is the collected capacity in either case.
	*cluster.Reservation
	task *cluster.Task // nil for a reservation
}

// claimOf returns the task as a claimant.
func claimOf(v *cluster.View, t *cluster.Task) claimant {
	return claimant{grants.ClaimOf(v, t), t}
}

// on are the nodes of its bundles; nil if it is not to collect.
func (x claimant) on() []string {
	to := x.Info.V.Collect
	if to == nil || len(to.On) != len(x.Info.V.Bundles) {
		return nil
	}
	return to.On
}

// handsOver reports whether what it collects is for others of its job.
func (x claimant) handsOver() bool { return x.Info.V.HandsOver() }

// placed is the number of its bundles that have a node in its grant.
func (x claimant) placed() (n int) {
	if x.Grant.V == nil {
		return 0
	}
	for _, name := range x.Grant.V.Bundles {
		if name != "" {
			n++
		}
	}
	return n
}

// key is its key in the queue.
func (x claimant) key() queue.Key { return queue.Key{ID: x.ID, Reservation: x.task == nil} }

// lock is the object that a decision about it locks.
func (x claimant) lock() any {
	if x.task != nil {
		return x.task
	}
	return x.Reservation
}

// newGrant is its initial grant.
func (x claimant) newGrant(now time.Time) *types.Grant {
	g := &types.Grant{Phase: types.Collecting, Bundles: make([]string, len(x.Info.V.Bundles)), Since: now.UnixNano()}
	if x.task != nil {
		g.Task = x.Info.Create
	} else {
		g.Reservation = x.Info.Create
	}
	return g
}

// takesCareOf reports whether this scheduler handles x and x still needs placement.
func (c *Core) takesCareOf(x claimant) bool {
	if x.task == nil {
		return c.division.Owns(x.ID.Namespace, "")
	}
	return c.division.OwnsTask(x.task) && !draft.IsOverdue(x.task.Info.V, c.now)
}

// bindClaimant binds a collecting task if it fits on its node once its collected capacity is
// returned. It binds a task that has yet to begin if it fits anywhere by now. placeClaimant finds
// other nodes for a collecting task later.
func (c *Core) bindClaimant(d *Transaction, x claimant) bool {
	g := x.Grant.V
	begins := g == nil
	if begins {
		g = x.newGrant(c.now)
	}
	e, needs := c.queue.Entry(x.key()), grants.Vectors(c.view, x.task)[0]
	if e == nil || c.inFlightOf(g) || !d.RoomToClaim(g, needs) {
		return false
	}
	c.releaseGrant(d, g)
	n := c.fitsWhereItCollects(d, g, needs)
	if n == nil && begins {
		once := queue.NewShape()
		once.Cursor = c.rng.IntN(len(c.nodes.All()) + 1)
		n, _, _ = c.nodes.Find(d.Draft, once, needs)
	}
	if n == nil || !d.Bind(x.task, n, 0, needs, c.now) {
		c.reacquireGrant(d, g)
		return false
	}
	if !begins {
		d.Dissolve(x.Reservation)
	}
	c.queue.Remove(x.key())
	d.entries = append(d.entries, e)
	c.wakeOffered(d)
	return true
}

// fitsWhereItCollects returns the node of a grant of one bundle if needs fit there; nil if not.
func (c *Core) fitsWhereItCollects(d *Transaction, g *types.Grant, needs []cluster.Need) *cluster.Node {
	n := c.view.Nodes[g.Bundles[0]]
	if n == nil || !n.Eligible() || c.locked(n) || c.poolInFlight(d.Draft, needs) {
		return nil
	}
	if _, short := d.PoolShort(needs); short {
		return nil
	}
	if _, ok := d.Fits(n, needs); !ok {
		return nil
	}
	return n
}

// placeClaimant places a collecting task like any other, with its collected capacity returned.
func (c *Core) placeClaimant(d *Transaction, s *queue.Shape, r *cluster.Reservation, t *cluster.Task) (outcome, []types.ResourceID) {
	if c.locked(t) || d.Has(t) || c.inFlightOf(r.Grant.V) {
		return stalled, nil
	}
	if !d.RoomToClaim(r.Grant.V, c.needsOf(s, t)[0]) {
		return full, nil
	}
	c.releaseGrant(d, r.Grant.V)
	result, lacks := c.placeAnew(d, s, t)
	if result == placed {
		d.Dissolve(claimOf(c.view, t).Reservation)
	} else {
		c.reacquireGrant(d, r.Grant.V)
	}
	return result, lacks
}

// releaseGrant releases a grant, so that searches find its capacity. reacquireGrant or dissolve
// follows.
func (c *Core) releaseGrant(d *Transaction, g *types.Grant) {
	d.ReleaseGrant(g)
	for _, at := range g.Nodes {
		c.nodes.Note(d.Draft, c.view.Nodes[at.Node])
	}
}

// reacquireGrant reacquires a released grant.
func (c *Core) reacquireGrant(d *Transaction, g *types.Grant) {
	d.ReacquireGrant(g)
	for _, at := range g.Nodes {
		c.nodes.Note(d.Draft, c.view.Nodes[at.Node])
	}
}
