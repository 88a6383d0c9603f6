package scheduler

import (
	"github.com/escher-sched/escher/controlplane/cluster"
	"github.com/escher-sched/escher/scheduler/grants"
	"github.com/escher-sched/escher/scheduler/queue"
	"github.com/escher-sched/escher/scheduler/search"
	"github.com/escher-sched/escher/types"
)

// placeBundles grants a reservation if all its bundles fit, or moves the bundles of a granted one:
// everything in this draft, or nothing.
func (c *Core) placeBundles(d *Transaction, s *queue.Shape, r *cluster.Reservation) (outcome, []types.ResourceID) {
	if r.Grant.V != nil {
		return c.placeMove(d, r)
	}
	if !d.Empty() && !d.RoomForGang(len(r.Info.V.Bundles)) {
		return full, nil
	}
	p := search.NewPacking(c.nodes, d.Draft, grants.BundleOrder(c.view, r))
	if !p.Place() {
		result, lacks := c.grantCollected(d, r)
		if p.Skipped && result == noFit {
			return stalled, nil
		}
		return result, lacks
	}
	if !d.Grant(r, p.Spots, 0) {
		for _, x := range p.Spots {
			d.Undo(x.Node, x.Holds)
		}
		if !d.Empty() {
			return full, nil
		}
		return c.beginGranting(d, r, p.Spots)
	}
	return placed, nil
}

// grantBehind returns the reservation that a scoped resource draws on.
func (c *Core) grantBehind(rid types.ResourceID) *cluster.Reservation {
	if !rid.Scoped() {
		return nil
	}
	ns, _, name := rid.Split()
	return c.view.Reservations[cluster.ID{Namespace: ns, ID: name}]
}
