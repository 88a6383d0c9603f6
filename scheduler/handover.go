package scheduler

import (
	"slices"

	"github.com/escher-sched/escher/controlplane"
	"github.com/escher-sched/escher/controlplane/cluster"
	"github.com/escher-sched/escher/controlplane/grants"
	"github.com/escher-sched/escher/scheduler/queue"
	"github.com/escher-sched/escher/types"
)

// A complete reservation that hands over is not granted. One transaction places the waiting tasks and
// reservations of its job with all that it holds, and its grant holds nothing then. If none of them
// fits, it is granted. The scheduler knows neither the purpose nor the duration: the maker of the
// reservation gives it up.

// findsMore reports whether the draft leaves free capacity that x lacks, or x is complete and heirs
// wait for it. Without that, what hands over would ask for a draft of its own at every change.
func (c *Core) findsMore(d *Transaction, x claimant, on []string) bool {
	g := x.Grant.V
	if g == nil || !slices.Equal(g.Bundles, on) && !slices.Equal(g.Bundles, c.allowed(x, on)) {
		return true
	}
	whole := !slices.Contains(g.Bundles, "")
	for _, at := range g.Nodes {
		n := c.view.Nodes[at.Node]
		for _, w := range grants.WantedOn(c.view, x.Reservation, g, at.Node) {
			if grants.HeldOf(at.Holds, w.ID) >= w.Sum() {
				continue
			}
			whole = false
			free, _ := d.Free(n, w.ID)
			if p := c.view.Pool(w.ID); p != nil {
				free = d.PoolFree(p)
			}
			if free > 0 && !c.locked(n) {
				return true
			}
		}
	}
	return whole && !c.inFlightOf(g) && len(c.heirs(x.Reservation)) > 0
}

// handOver places the heirs of r with all that the complete g holds. The remainder becomes free. It
// returns stalled if there are no heirs or something is in flight, noFit if no heir fits.
func (c *Core) handOver(d *Transaction, r *cluster.Reservation, g *types.Grant) outcome {
	heirs := c.heirs(r)
	if len(heirs) == 0 || c.inFlightOf(g) {
		return stalled
	}
	c.releaseGrant(d, g)
	result := noFit
	for _, k := range heirs {
		if result == placed && !d.RoomForHeir(len(g.Nodes)) {
			break // the draft needs space for the hand-over
		}
		e := c.queue.Entry(k)
		once := queue.NewShape()
		switch one, _ := c.placeHead(d, once, e); {
		case one == placed:
			result = placed
			c.queue.Take(e)
			d.entries = append(d.entries, e)
		case one == stalled && result == noFit:
			result = stalled
		}
	}
	if result != placed {
		c.reacquireGrant(d, g)
		return result
	}
	for _, at := range g.Nodes {
		d.Keep(c.view.Nodes[at.Node], at.Holds)
	}
	d.CompareReservation(r)
	d.Decide(r)
	d.of = &claimant{Reservation: r}
	over := &types.Grant{Phase: types.HandedOver, Reservation: r.Info.Create, Bundles: g.Bundles, Since: g.Since}
	d.Put(controlplane.GrantKey(r.ID.Namespace, r.ID.ID), over, r.Grant.Mod)
	c.wakeOffered(d)
	return placed
}

// heirs returns the waiting reservations and tasks of the job of r, in queue order.
func (c *Core) heirs(r *cluster.Reservation) []queue.Key {
	job := cluster.ID{Namespace: r.ID.Namespace, ID: r.Info.V.Job}
	if job.ID == "" {
		return nil
	}
	var out []queue.Key
	for id, other := range c.view.Reservations {
		if k := (queue.Key{ID: id, Reservation: true}); id.Namespace == job.Namespace && other.Info.V != nil && other.Info.V.Job == job.ID && c.queue.Entry(k) != nil {
			out = append(out, k)
		}
	}
	c.view.EachMember(job, func(t *cluster.Task) {
		if k := (queue.Key{ID: t.ID}); c.queue.Entry(k) != nil {
			out = append(out, k)
		}
	})
	slices.SortFunc(out, func(a, b queue.Key) int {
		if c.queue.Entry(a).Before(c.queue.Entry(b)) {
			return -1
		}
		return 1
	})
	return out
}
