package scheduler

import (
	"cmp"
	"maps"
	"slices"

	"github.com/escher-sched/escher/controlplane"
	"github.com/escher-sched/escher/controlplane/cluster"
	"github.com/escher-sched/escher/types"
)

// What collects at once: a reservation that says so is never waited for, and several of
// them collect at a time, each on the nodes that it names. It is for who knows what is
// about to become free there, and for whom: what else of its job would accumulate does not
// meanwhile, and gives back what it has. What becomes free there goes to it before
// anybody else; when the rest is there too, what waits of its job is placed with all of
// it in one transaction, in which the grant is handed over: it holds nothing from then on.
// It is not known here why that should be so, nor how long it may take: who made the
// reservation gives it up. One that is for itself is granted when all is there, whoever
// waits of its job.

// collectAtOnce adds to the draft what the reservations that do so can collect, in the
// order in which they were made.
func (c *Core) collectAtOnce(d *Draft) {
	for _, r := range c.atOnce() {
		if d.closed {
			return
		}
		c.collectFor(d, r)
	}
}

// atOnce returns the reservations that collect at once, the oldest first, and forgets
// those that do not any more.
func (c *Core) atOnce() []*cluster.Reservation {
	if len(c.accum.atOnce) == 0 {
		return nil
	}
	var out []*cluster.Reservation
	for id := range maps.Keys(c.accum.atOnce) {
		if r := c.view.Reservations[id]; isAtOnce(r) {
			out = append(out, r)
		} else {
			delete(c.accum.atOnce, id)
			delete(c.accum.refused, id)
			c.accumulateAgain() // others of its job may
		}
	}
	slices.SortFunc(out, func(a, b *cluster.Reservation) int {
		return cmp.Or(cmp.Compare(a.Info.V.Submitted, b.Info.V.Submitted), compareID(a.ID, b.ID))
	})
	return out
}

// isAtOnce reports whether a reservation collects at once, and has not all yet.
func isAtOnce(r *cluster.Reservation) bool {
	return r != nil && r.Info.V != nil && r.Info.V.AtOnce && (r.Grant.V == nil || r.Grant.V.Phase == types.Collecting)
}

// collectFor lets r collect. That takes a draft of its own, as what waits of its job may
// go into it; where another one is begun already, nothing more is given out in that.
func (c *Core) collectFor(d *Draft, r *cluster.Reservation) {
	c.deciding = r
	ns := r.ID.Namespace
	if c.locked(r) || !c.owns(ns, "") || c.view.UnreadNamespace(ns) || r.Grant.Unread() || r.Grant.V != nil && !r.Current() {
		return
	}
	if c.accum.refused[r.ID] == lastChange(r) {
		return
	}
	g := c.directed(r)
	if g == nil || r.Grant.V != nil && !c.findsMore(d, r, g) {
		return
	}
	if !d.empty() {
		c.first, d.closed = true, true
		return
	}
	if !d.roomToHandOver(r) {
		return // it would be collected in vain
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
	if sameGrant(g, r.Grant.V) {
		return
	}
	d.dependOn(r)
	d.put(controlplane.GrantKey(ns, r.ID.ID), g, r.Grant.Mod)
	for _, at := range g.Nodes {
		d.kept = append(d.kept, c.view.Nodes[at.Node])
	}
}

// roomToHandOver reports whether the draft has room for one grant of all that r collects, and
// for handing it over. With that it has room for any part of it to be collected.
func (d *Draft) roomToHandOver(r *cluster.Reservation) bool {
	spots := bundleOrder(d.view, r)
	nodes, pools := make(map[string]struct{}), make(map[types.ResourceID]struct{})
	for i := range spots {
		spots[i].node = d.view.Nodes[r.Info.V.Bundles[spots[i].index].Node]
		nodes[spots[i].node.Name] = struct{}{}
		for _, x := range spots[i].needs {
			if d.view.Pool(x.ID) != nil {
				pools[x.ID] = struct{}{}
			}
		}
	}
	keys := len(d.reliedOnBy(r.ID.Namespace, spots)) + len(pools)
	return d.room(controlplane.HandOverCompares(len(nodes), keys)-spare, handOverCompares+2*len(nodes)+len(pools))
}

// handOverCompares is how many compares a hand-over has besides those of its nodes: of
// both reservations and their grants, and of the namespace.
const handOverCompares = 5

// lastChange is the revision of the last change of a reservation, or of its grant.
func lastChange(r *cluster.Reservation) int64 { return max(r.Info.Mod, r.Grant.Mod) }

// refuseAtOnce notes that the store takes no draft about what collects at once: it is left
// alone until it changes.
func (c *Core) refuseAtOnce(d *Draft) {
	if d.atOnce == nil {
		return
	}
	if c.accum.refused == nil {
		c.accum.refused = make(map[cluster.ID]int64)
	}
	c.accum.refused[d.atOnce.ID] = lastChange(d.atOnce)
}

// roomIsMade reports whether a reservation of the job of x collects at once: x waits for
// that then, and collects nothing by itself.
func (c *Core) roomIsMade(x claimant) bool {
	job := x.Info.V.Job
	if x.task != nil {
		job = x.task.Info.V.Job
	}
	if job == "" {
		return false
	}
	for id := range c.accum.atOnce {
		if r := c.view.Reservations[id]; id.Namespace == x.ID.Namespace && isAtOnce(r) && r.Info.V.Job == job {
			return true
		}
	}
	return false
}

// directed is the grant of r to be added to, on the nodes that its bundles name; nil if
// one of them takes no tasks.
func (c *Core) directed(r *cluster.Reservation) *types.Grant {
	var g *types.Grant
	if r.Grant.V != nil {
		g = cloneGrant(r.Grant.V)
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

// findsMore reports whether anything is free, as the draft leaves it, that g lacks, or
// nothing is lacking and somebody waits for that.
func (c *Core) findsMore(d *Draft, r *cluster.Reservation, g *types.Grant) bool {
	whole := true
	for _, at := range g.Nodes {
		n := c.view.Nodes[at.Node]
		for _, x := range wantedOn(c.view, r, g, at.Node) {
			if heldOf(at.Holds, x.ID) >= x.sum() {
				continue
			}
			whole = false
			free, _ := d.free(n, x.ID)
			if p := c.view.Pool(x.ID); p != nil {
				free = d.poolFree(p)
			}
			if free > 0 && !c.locked(n) {
				return true
			}
		}
	}
	return whole && !c.inFlightOf(g) && len(c.heirs(r)) > 0
}

// dependOn makes the draft depend on r being as it was, and has no other one decide about
// it.
func (d *Draft) dependOn(r *cluster.Reservation) {
	ns, id := r.ID.Namespace, r.ID.ID
	d.Change.IfUnchanged(controlplane.ReservationKey(ns, id), r.Info.Mod)
	d.Change.IfUnchanged(controlplane.GrantKey(ns, id), r.Grant.Mod)
	space := d.namespace(ns)
	d.Change.IfUnchanged(space.key, space.mod)
	d.claim(r)
	d.atOnce = r
	d.items++
}

// handOver places what waits of the job of r with all that g, which is complete, holds.
// What is left of that is free again. stalled: nobody waits at present, or something is in
// flight; noFit: none of those who wait fits.
func (c *Core) handOver(d *Draft, r *cluster.Reservation, g *types.Grant) outcome {
	heirs := c.heirs(r)
	if len(heirs) == 0 || c.inFlightOf(g) {
		return stalled
	}
	c.layDown(d, g)
	result := noFit
	for _, k := range heirs {
		if result == placed && !d.room(2*nodeCompares+len(g.Nodes)+handOverCompares, nodeCompares+len(g.Nodes)) {
			break // what is handed over is to be in it, too
		}
		e := c.queue.entry(k)
		anew := &shape{seen: -1, pos: -1, node: nowhere, at: -1}
		switch one, _ := c.placeHead(d, anew, e); {
		case one == placed:
			result = placed
			c.queue.take(e)
			d.entries = append(d.entries, e)
		case one == stalled && result == noFit:
			result = stalled
		}
	}
	if result != placed {
		c.takeUp(d, g)
		return result
	}
	for _, at := range g.Nodes {
		d.keep(c.view.Nodes[at.Node], at.Holds)
	}
	d.dependOn(r)
	over := &types.Grant{Phase: types.HandedOver, Reservation: r.Info.Create, Bundles: g.Bundles, Since: g.Since}
	d.put(controlplane.GrantKey(r.ID.Namespace, r.ID.ID), over, r.Grant.Mod)
	c.wakeOffered(d)
	return placed
}

// heirs returns what waits of the job of r, in the order of the queue: its reservations,
// and its tasks.
func (c *Core) heirs(r *cluster.Reservation) []entryKey {
	job := cluster.ID{Namespace: r.ID.Namespace, ID: r.Info.V.Job}
	if job.ID == "" {
		return nil
	}
	var out []entryKey
	for id, other := range c.view.Reservations {
		if k := (entryKey{id, true}); id.Namespace == job.Namespace && other.Info.V != nil && other.Info.V.Job == job.ID && c.queue.entry(k) != nil {
			out = append(out, k)
		}
	}
	c.view.EachMember(job, func(t *cluster.Task) {
		if k := (entryKey{id: t.ID}); c.queue.entry(k) != nil {
			out = append(out, k)
		}
	})
	slices.SortFunc(out, func(a, b entryKey) int {
		if c.queue.entry(a).before(c.queue.entry(b)) {
			return -1
		}
		return 1
	})
	return out
}

// mayCollectAtOnce notes what does.
func (c *Core) mayCollectAtOnce(id cluster.ID) {
	if c.accum.atOnce == nil {
		c.accum.atOnce = make(map[cluster.ID]struct{})
	}
	c.accum.atOnce[id] = struct{}{}
}
