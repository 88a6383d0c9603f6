package scheduler

import (
	"cmp"
	"maps"
	"slices"

	"github.com/escher-sched/escher/controlplane"
	"github.com/escher-sched/escher/controlplane/cluster"
	"github.com/escher-sched/escher/scheduler/grants"
	"github.com/escher-sched/escher/scheduler/queue"
	"github.com/escher-sched/escher/types"
)

// An AtOnce reservation collects without a wait, several in parallel, each on the nodes that it
// names. It is for callers that know which capacity becomes free there, and for which job. The
// other tasks and reservations of its job do not accumulate meanwhile, and return what they hold.
//
// Capacity that becomes free there goes to it first. Once it is complete, one transaction places
// the waiting tasks and reservations of its job with all of it. The same transaction hands the
// grant over, which then holds nothing. The scheduler knows neither the purpose nor the duration:
// the creator of the reservation gives it up. A complete ForItself reservation is granted, whatever
// else of its job waits.

// collectAtOnce adds what AtOnce reservations can collect to the draft, in order of their creation.
func (c *Core) collectAtOnce(d *Transaction) {
	for _, r := range c.atOnce() {
		if d.closed {
			return
		}
		c.collectFor(d, r)
	}
}

// atOnce returns the reservations that collect at once, oldest first, and forgets outdated ones.
func (c *Core) atOnce() []*cluster.Reservation {
	if len(c.accum.atOnce) == 0 {
		return nil
	}
	var out []*cluster.Reservation
	for id := range maps.Keys(c.accum.atOnce) {
		if r := c.view.Reservations[id]; grants.IsAtOnce(r) {
			out = append(out, r)
		} else {
			delete(c.accum.atOnce, id)
			delete(c.accum.refused, id)
			c.accumulateAgain() // others of its job may
		}
	}
	slices.SortFunc(out, func(a, b *cluster.Reservation) int {
		return cmp.Or(cmp.Compare(a.Info.V.Submitted, b.Info.V.Submitted), a.ID.Compare(b.ID))
	})
	return out
}

// collectFor lets r collect. That takes a draft of its own, because the waiting tasks and
// reservations of its job may join it. In a draft that has begun, nothing more is placed.
func (c *Core) collectFor(d *Transaction, r *cluster.Reservation) {
	c.deciding = r
	ns := r.ID.Namespace
	if c.locked(r) || !c.division.Owns(ns, "") || c.view.UnreadNamespace(ns) || r.Grant.Unread() || r.Grant.V != nil && !r.Current() {
		return
	}
	if c.accum.refused[r.ID] == lastChange(r) {
		return
	}
	g := c.directed(r)
	if g == nil || r.Grant.V != nil && !c.findsMore(d, r, g) {
		return
	}
	if !d.Empty() {
		c.first, d.closed = true, true
		return
	}
	if !d.RoomToHandOver(r) {
		return // it could never be handed over
	}
	c.collect(d, r, g)
	if g.Phase == types.Granted && !r.Info.V.ForItself {
		switch c.handOver(d, r, g) {
		case placed:
			return
		case stalled:
			g.Phase = types.Collecting
		}
	}
	if grants.Equal(g, r.Grant.V) {
		return
	}
	d.dependOn(r)
	d.Put(controlplane.GrantKey(ns, r.ID.ID), g, r.Grant.Mod)
	for _, at := range g.Nodes {
		d.kept = append(d.kept, c.view.Nodes[at.Node])
	}
}

// lastChange is the revision of the last change of a reservation, or of its grant.
func lastChange(r *cluster.Reservation) int64 { return max(r.Info.Mod, r.Grant.Mod) }

// refuseAtOnce records that the store refuses every draft for an AtOnce reservation: it is left
// alone until it changes.
func (c *Core) refuseAtOnce(d *Transaction) {
	if d.atOnce == nil {
		return
	}
	if c.accum.refused == nil {
		c.accum.refused = make(map[cluster.ID]int64)
	}
	c.accum.refused[d.atOnce.ID] = lastChange(d.atOnce)
}

// roomIsMade reports whether a reservation of the job of x collects at once. x then waits for it
// and does not collect itself.
func (c *Core) roomIsMade(x claimant) bool {
	job := x.Info.V.Job
	if x.task != nil {
		job = x.task.Info.V.Job
	}
	if job == "" {
		return false
	}
	for id := range c.accum.atOnce {
		if r := c.view.Reservations[id]; id.Namespace == x.ID.Namespace && grants.IsAtOnce(r) && r.Info.V.Job == job {
			return true
		}
	}
	return false
}

// directed is the grant of r to add to, on the nodes that its bundles name; nil if one of them
// accepts no tasks.
func (c *Core) directed(r *cluster.Reservation) *types.Grant {
	var g *types.Grant
	if r.Grant.V != nil {
		g = grants.Clone(r.Grant.V)
	} else {
		g = claimant{Reservation: r}.newGrant(c.now)
		g.Phase = types.Collecting
		for i, b := range r.Info.V.Bundles {
			g.Bundles[i] = b.Node
			if g.On(b.Node) == nil && !slices.ContainsFunc(g.Nodes, func(at types.GrantNode) bool { return at.Node == b.Node }) {
				g.Nodes = append(g.Nodes, types.GrantNode{Node: b.Node})
			}
		}
		slices.SortFunc(g.Nodes, func(a, b types.GrantNode) int { return cmp.Compare(a.Node, b.Node) })
	}
	for _, at := range g.Nodes {
		if n := c.view.Nodes[at.Node]; n == nil || !n.Eligible() {
			return nil
		}
	}
	return g
}

// findsMore reports whether the draft leaves free capacity that g lacks, or g is complete and heirs
// wait for it.
func (c *Core) findsMore(d *Transaction, r *cluster.Reservation, g *types.Grant) bool {
	whole := true
	for _, at := range g.Nodes {
		n := c.view.Nodes[at.Node]
		for _, x := range grants.WantedOn(c.view, r, g, at.Node) {
			if grants.HeldOf(at.Holds, x.ID) >= x.Sum() {
				continue
			}
			whole = false
			free, _ := d.Free(n, x.ID)
			if p := c.view.Pool(x.ID); p != nil {
				free = d.PoolFree(p)
			}
			if free > 0 && !c.locked(n) {
				return true
			}
		}
	}
	return whole && !c.inFlightOf(g) && len(c.heirs(r)) > 0
}

// dependOn makes the draft depend on r being unchanged, and keeps other drafts from deciding about
// it.
func (d *Transaction) dependOn(r *cluster.Reservation) {
	d.CompareReservation(r)
	d.Decide(r)
	d.atOnce = r
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
	d.dependOn(r)
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

// mayCollectAtOnce registers a reservation that collects at once.
func (c *Core) mayCollectAtOnce(id cluster.ID) {
	if c.accum.atOnce == nil {
		c.accum.atOnce = make(map[cluster.ID]struct{})
	}
	c.accum.atOnce[id] = struct{}{}
}
