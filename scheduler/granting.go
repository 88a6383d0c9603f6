package scheduler

import (
	"maps"
	"math"
	"slices"

	"github.com/escher-sched/escher/controlplane"
	"github.com/escher-sched/escher/controlplane/cluster"
	"github.com/escher-sched/escher/types"
)

// A reservation that fits as a whole, and whose grant is larger than a transaction, is granted
// in several: each takes what the bundles ask for on some of its nodes, the last one grants it.
// Until then its grant is types.Granting, no task draws on it, and this scheduler places nothing
// else on its nodes. Where something of it has become impossible meanwhile all of it is given
// back. All of that is decided on what is stored, so that another scheduler goes on with it.
// One reservation in the cluster at a time is granted so (key leaders/grant): two never hold
// what the other needs.

// grantRole is the leadership of the reservation that is granted in several transactions.
const grantRole = "grant"

// beginGranting takes the first part of what the bundles of a reservation ask for, which are
// all placed, on the nodes that they were given.
func (c *Core) beginGranting(d *Draft, r *cluster.Reservation, spots []spot) (outcome, []types.ResourceID) {
	key := controlplane.LeaderKey(grantRole)
	if c.view.Leaders[grantRole] != nil || c.view.UnreadMod(key) != 0 {
		return stalled, nil
	}
	g := grantOf(r, spots)
	g.Phase, g.Since = types.Granting, c.now.UnixNano()
	for i := range g.Nodes {
		g.Nodes[i].Holds = nil
	}
	if !c.restFits(r, g) {
		return noFit, allIDs(spots)
	}
	d.Change.IfUnchanged(key, 0)
	d.put(key, &types.Leader{Holder: r.ID.String()}, 0)
	c.grantPart(d, r, g)
	return placed, nil
}

// grantInParts goes on with the reservations that are being granted in several transactions.
func (c *Core) grantInParts(d *Draft) {
	for _, id := range slices.SortedFunc(maps.Keys(c.granting), compareID) {
		r := c.view.Reservations[id]
		switch {
		case d.closed:
			return
		case r == nil || !r.Current() || r.Grant.V.Phase != types.Granting || c.locked(r) || !c.owns(id.Namespace, ""):
		case !d.empty():
			c.first, d.closed = true, true // it begins the next one
		default:
			c.goOnGranting(d, r)
		}
	}
}

// goOnGranting takes the next part of a reservation, or gives all of it back.
func (c *Core) goOnGranting(d *Draft, r *cluster.Reservation) {
	g := cloneGrant(r.Grant.V)
	switch {
	case c.waitForGrant(d, r) || c.waitForPools(r):
	case c.untargeted(g) || c.view.UnreadNamespace(r.ID.Namespace) || !c.restFits(r, g):
		d.release(r)
	default:
		c.grantPart(d, r, g)
	}
}

// waitForPools reports whether a resource of the cluster that a reservation asks for is in
// flight; it is then looked at again later.
func (c *Core) waitForPools(r *cluster.Reservation) bool {
	for _, x := range bundleOrder(c.view, r) {
		for _, need := range x.needs {
			if p := c.view.Pool(need.ID); p != nil && c.whenUnlocked(p, r) {
				return true
			}
		}
	}
	return false
}

// restFits reports whether all that a grant does not hold yet is free on its nodes.
func (c *Core) restFits(r *cluster.Reservation, g *types.Grant) bool {
	trial := newDraft(c.view, controlplane.Limits{Ops: math.MaxInt, Bytes: math.MaxInt}, 1)
	c.collect(trial, r, cloneGrant(g))
	return trial.whole
}

// grantPart takes as much as goes into the draft of what g, the grant of r, does not hold yet,
// and grants it if that is all.
func (c *Core) grantPart(d *Draft, r *cluster.Reservation, g *types.Grant) {
	ns, id := r.ID.Namespace, r.ID.ID
	d.Change.IfUnchanged(controlplane.ReservationKey(ns, id), r.Info.Mod)
	d.Change.IfUnchanged(controlplane.GrantKey(ns, id), r.Grant.Mod)
	space := d.namespace(ns)
	d.Change.IfUnchanged(space.key, space.mod)
	c.collect(d, r, g)
	if g.Phase == types.Granted {
		d.endLead(grantRole, r.ID)
		d.Grants = append(d.Grants, r.ID)
	}
	d.put(controlplane.GrantKey(ns, id), g, r.Grant.Mod)
	d.claim(r)
	d.items++
	d.closed = true
}

// followGranting notes that a reservation is being granted in several transactions, or is not
// any more: until then nothing else is placed on its nodes.
func (c *Core) followGranting(id cluster.ID) {
	was, is := c.granting[id], (*types.Grant)(nil)
	if r := c.view.Reservations[id]; r != nil && r.Grant.V != nil && r.Grant.V.Phase == types.Granting {
		is = r.Grant.V
	}
	if was == is {
		return
	}
	if is == nil {
		delete(c.granting, id)
	} else {
		if c.granting == nil {
			c.granting = make(map[cluster.ID]*types.Grant)
		}
		c.granting[id] = is
		c.accum.keepNodes(c.nodesOf(is))
	}
	if was != nil {
		c.accum.unkeepNodes(c.nodesOf(was))
		c.queue.unstall()
	}
}

// nodesOf returns the nodes of a grant.
func (c *Core) nodesOf(g *types.Grant) []*cluster.Node {
	out := make([]*cluster.Node, len(g.Nodes))
	for i, at := range g.Nodes {
		out[i] = c.view.Nodes[at.Node]
	}
	return out
}
