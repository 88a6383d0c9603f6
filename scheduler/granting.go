package scheduler

import (
	"maps"
	"math"
	"slices"
	"strings"

	"github.com/escher-sched/escher/controlplane"
	"github.com/escher-sched/escher/controlplane/cluster"
	"github.com/escher-sched/escher/controlplane/grants"
	"github.com/escher-sched/escher/scheduler/draft"
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
		p.Undo()
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

// A reservation that fits, but whose grant exceeds a transaction, is granted in several. Each takes
// the bundles' requests on some of its nodes, and the last one grants it. Until then its grant is
// types.Granting, no task draws on it, and this scheduler places nothing else on its nodes. If a
// part becomes impossible meanwhile, all of it is returned. Every step depends on stored state
// alone, so another scheduler can continue. Only one reservation in the cluster at a time is
// granted this way (key leaders/grant), so that no two hold what the other needs.

// beginGranting takes the first part of the fully placed bundles of a reservation, on their nodes.
func (c *Core) beginGranting(d *Transaction, r *cluster.Reservation, spots []grants.BundlePlacement) (outcome, []types.ResourceID) {
	key := controlplane.LeaderKey(grants.GrantRole)
	if c.view.Leaders[grants.GrantRole] != nil || c.view.UnreadMod(key) != 0 {
		return stalled, nil
	}
	g := grants.New(r, spots)
	g.Phase, g.Since = types.Granting, c.now.UnixNano()
	for i := range g.Nodes {
		g.Nodes[i].Holds = nil
	}
	if !c.restFits(r, g) {
		return noFit, grants.AllIDs(spots)
	}
	if c.grantPart(d, r, g); g.Phase == types.Granting { // a part may be everything: Grant needs more space than collect
		d.Change.IfUnchanged(key, 0)
		d.Put(key, &types.Leader{Holder: r.ID.String()}, 0)
	}
	return placed, nil
}

// grantInParts continues the reservations that are being granted in several transactions.
func (c *Core) grantInParts(d *Transaction) {
	for _, id := range slices.SortedFunc(maps.Keys(c.granting), cluster.ID.Compare) {
		r := c.view.Reservations[id]
		switch {
		case d.closed:
			return
		case r == nil || !r.Current() || r.Grant.V.Phase != types.Granting || c.locked(r) || !c.division.Owns(id.Namespace, ""):
		case !d.Empty():
			c.first, d.closed = true, true // it begins the next draft
		default:
			c.goOnGranting(d, r)
		}
	}
}

// goOnGranting takes the next part of a reservation, or returns all of it.
func (c *Core) goOnGranting(d *Transaction, r *cluster.Reservation) {
	g := grants.Clone(r.Grant.V)
	switch {
	case c.waitForGrant(d, r) || c.waitForPools(r):
	case c.anyIneligible(g.Bundles) || c.view.UnreadNamespace(r.ID.Namespace) || !c.restFits(r, g):
		d.Release(r)
	default:
		c.grantPart(d, r, g)
	}
}

// waitForPools reports whether a pool that a reservation requests is in flight; the reservation is
// then rechecked later.
func (c *Core) waitForPools(r *cluster.Reservation) bool {
	for _, x := range grants.BundleOrder(c.view, r) {
		for _, need := range x.Needs {
			if p := c.view.Pool(need.ID); p != nil && c.whenUnlocked(p, r) {
				return true
			}
		}
	}
	return false
}

// restFits reports whether all that a grant still lacks is free on its nodes, and the complete grant
// can be read.
func (c *Core) restFits(r *cluster.Reservation, g *types.Grant) bool {
	trial := &Transaction{Draft: draft.New(c.view, controlplane.Limits{Ops: math.MaxInt, Bytes: math.MaxInt}, 1)}
	whole := grants.Clone(g)
	c.collect(trial, r, whole)
	return trial.whole && len(types.Encode(0, whole)) <= types.MaxMessageBytes
}

// grantPart takes as much of what g, the grant of r, still lacks as fits into the draft, and grants
// r once that is everything.
func (c *Core) grantPart(d *Transaction, r *cluster.Reservation, g *types.Grant) {
	d.CompareReservation(r)
	c.collect(d, r, g)
	if g.Phase == types.Granted {
		d.EndLead(grants.GrantRole, r.ID)
		d.Grants = append(d.Grants, r.ID)
	}
	d.Put(controlplane.GrantKey(r.ID.Namespace, r.ID.ID), g, r.Grant.Mod)
	d.Decide(r)
	d.closed = true
}

// followGranting tracks whether a reservation is being granted in several transactions: until it is
// granted, nothing else is placed on its nodes.
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
		c.nodes.Keep(c.nodesOf(is))
	}
	if was != nil {
		c.nodes.Unkeep(c.nodesOf(was))
		c.queue.Unstall()
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

// settleGrants releases the grants whose reservation is gone, and ends a stale leadership. A draft
// that does so contains nothing else.
func (c *Core) settleGrants(d *Transaction) {
	c.endStaleLead(d)
	c.reservations.Drain(func(r *cluster.Reservation) bool {
		c.deciding = r
		if c.view.Reservations[r.ID] != r || r.Grant.V == nil || !c.division.Owns(r.ID.Namespace, "") || r.Info.Unread() || r.Current() || grants.ClaimedBy(c.view, r) != nil {
			return true
		}
		if c.waitForGrant(d, r) {
			return true
		}
		return d.Release(r)
	})
	d.closed = !d.Empty()
}

// endStaleLead deletes the leadership of a reservation that is not being granted. Earlier versions
// left one with a grant whose first part was everything, and then granted nothing else in parts.
func (c *Core) endStaleLead(d *Transaction) {
	l := c.view.Leaders[grants.GrantRole]
	if l == nil || c.locked(l) {
		return
	}
	ns, id, _ := strings.Cut(l.V.Holder, "/")
	if c.granting[cluster.ID{Namespace: ns, ID: id}] == nil && c.view.UnreadMod(controlplane.GrantKey(ns, id)) == 0 && c.division.Owns(ns, "") {
		key := controlplane.LeaderKey(grants.GrantRole)
		d.Change.IfUnchanged(key, l.Mod)
		d.Remove(key)
		d.Decide(l)
	}
}

// waitForGrant reports whether anything that the release of a grant changes is in flight; the
// release is then retried later.
func (c *Core) waitForGrant(d *Transaction, r *cluster.Reservation) bool {
	if c.whenUnlocked(r, r) || d.Has(r) {
		return true
	}
	for _, at := range r.Grant.V.Nodes {
		n := c.view.Nodes[at.Node]
		if c.whenUnlocked(n, r) {
			return true
		}
		for _, h := range at.Holds {
			if h.Cluster && c.whenIdle(c.view.PoolOf(h.Resource), r) {
				return true
			}
		}
	}
	return false
}
