package scheduler

import (
	"bytes"
	"slices"
	"strings"

	"github.com/escher-sched/escher/controlplane"
	"github.com/escher-sched/escher/controlplane/cluster"
	"github.com/escher-sched/escher/types"
)

// A large reservation would starve if small tasks took whatever becomes free. One
// that may accumulate, and has waited long enough, is given nodes for its bundles
// and collects there what becomes free, before anything else is placed; nobody may
// draw on it until all of it is held. One reservation in the cluster does so at a
// time (key leaders/accumulate), so that two never hold what the other needs.
// Tasks that end in time may use it meanwhile: see backfill.

// role is the leadership of the reservation that accumulates.
const role = "accumulate"

// accumulator is what the core remembers of reservations that may accumulate.
type accumulator struct {
	candidates fifo[*cluster.Reservation]
	wake       int64
	// seen is how much of the log of changed nodes was looked at; -1 is none.
	seen int
	// skipped tells that something was left out because it was in flight.
	skipped bool
	busy    *cluster.Reservation // as of the last look
}

// collecting is the accumulating grant as a draft leaves it.
type collecting struct {
	r *cluster.Reservation
	g *types.Grant
}

// accumulate adds to the draft what the accumulating reservation can collect, or
// the first collection of the next one.
func (c *Core) accumulate(d *Draft) {
	if d.closed {
		return
	}
	c.accum.wake = 0
	if r := c.accumulating(); r != nil {
		c.accumulateFor(d, r)
		return
	}
	for _, r := range c.agedReservations() {
		if c.accumulateFor(d, r) {
			return
		}
	}
}

// accumulateFor lets r collect; false if r has not begun to, and cannot at present.
func (c *Core) accumulateFor(d *Draft, r *cluster.Reservation) bool {
	if c.locked(r) || !c.owns(r.ID.Namespace, "") {
		return true
	}
	end := c.base + len(c.changed)
	// What ends in this draft frees something that nobody else is to have first.
	if c.accum.busy == r && c.accum.seen == end && len(d.order) == 0 || !d.roomFor(r) {
		return true
	}
	g := c.targets(d, r)
	if g == nil {
		return r.Grant.V != nil
	}
	c.accum.busy, c.accum.seen, c.accum.skipped = r, end, false
	c.collect(d, r, g)
	if !sameGrant(g, r.Grant.V) {
		d.accumulate(c.view, r, g)
		c.queue.remove(entryKey{r.ID, true})
	}
	return true
}

// accumulateAgain lets the accumulating reservation look at all of its nodes again.
func (c *Core) accumulateAgain() { c.accum.seen = -1 }

// roomFor reports whether the draft has room for whatever accumulating r takes.
func (d *Draft) roomFor(r *cluster.Reservation) bool {
	n := len(r.Info.V.Bundles)
	if r.Grant.V != nil {
		n += len(r.Grant.V.Nodes)
	}
	return d.empty() || d.room((nodeCompares+2)*n+4, n+4)
}

// accumulating returns the reservation that collects at present.
func (c *Core) accumulating() *cluster.Reservation {
	leader := c.view.Leaders[role]
	if leader == nil {
		return nil
	}
	ns, id, _ := strings.Cut(leader.V.Holder, "/")
	r := c.view.Reservations[cluster.ID{Namespace: ns, ID: id}]
	if r == nil || !r.Current() || r.Grant.V.Phase != types.Accumulating {
		return nil
	}
	return r
}

// agedReservations returns the reservations whose time to accumulate has come, in
// their order, if no other one collects; and notes when it comes for the next one.
func (c *Core) agedReservations() []*cluster.Reservation {
	if c.view.Leaders[role] != nil {
		return nil
	}
	var aged []*cluster.Reservation
	for _, r := range slices.Clone(c.accum.candidates.list) {
		if c.queue.entries[entryKey{r.ID, true}] == nil || c.view.Reservations[r.ID] != r || !r.Info.V.Accumulate {
			c.accum.candidates.remove(r)
			continue
		}
		at := r.Info.V.Submitted + int64(c.cfg.AccumulateAfter)
		switch {
		case at <= c.now.UnixNano():
			aged = append(aged, r)
		case c.accum.wake == 0 || at < c.accum.wake:
			c.accum.wake = at
		}
	}
	slices.SortFunc(aged, func(a, b *cluster.Reservation) int {
		if c.queue.entries[entryKey{a.ID, true}].before(c.queue.entries[entryKey{b.ID, true}]) {
			return -1
		}
		return 1
	})
	return aged
}

// sameGrant reports whether a grant needs not be written.
func sameGrant(g, written *types.Grant) bool {
	return written != nil && bytes.Equal(types.Encode(0, g), types.Encode(0, written))
}

// untargeted reports whether an accumulating grant needs other nodes: it has none
// for some bundle, or one that is not eligible any more.
func (c *Core) untargeted(g *types.Grant) bool {
	return slices.Contains(g.Bundles, "") ||
		slices.ContainsFunc(g.Nodes, func(at types.GrantNode) bool { return !c.view.Nodes[at.Node].Eligible() })
}

// targets returns the grant of r to be added to, with a node for each bundle. nil:
// nothing can be done at present.
func (c *Core) targets(d *Draft, r *cluster.Reservation) *types.Grant {
	if g := r.Grant.V; g != nil && !c.untargeted(g) {
		return cloneGrant(g)
	}
	empty := &types.Grant{Phase: types.Accumulating, Reservation: r.Info.Create, Bundles: make([]string, len(r.Info.V.Bundles))}
	if r.Grant.V != nil {
		// Begin again: what is held elsewhere returns.
		if c.waitForGrant(d, r) {
			return nil
		}
		d.returnUndrawn(r, r.Grant.V)
	}
	g := cloneGrant(empty)
	wanted := make(map[string]*types.Allocated)
	for _, x := range bundleOrder(c.view, r) {
		n := c.target(d, x.needs, wanted)
		if n == nil && r.Grant.V != nil {
			return empty
		}
		if n == nil {
			return nil
		}
		g.Bundles[x.index] = n.Name
		if wanted[n.Name] == nil {
			wanted[n.Name] = &types.Allocated{}
			g.Nodes = append(g.Nodes, types.GrantNode{Node: n.Name})
		}
		for _, y := range x.needs {
			wanted[n.Name].Take(types.Holding{Resource: y.ID, Amount: y.Amount})
		}
	}
	slices.SortFunc(g.Nodes, func(a, b types.GrantNode) int { return strings.Compare(a.Node, b.Node) })
	return g
}

// target returns the node with the most free that is large enough for needs beside
// what is wanted there already.
func (c *Core) target(d *Draft, needs []cluster.Need, wanted map[string]*types.Allocated) *cluster.Node {
	var best *cluster.Node
	var most float64
	for _, n := range c.nodes {
		if !n.Eligible() || !c.largeEnough(n, needs, wanted[n.Name]) {
			continue
		}
		if share := c.freeShare(d, n, needs, wanted[n.Name]); best == nil || share > most {
			best, most = n, share
		}
	}
	return best
}

func (c *Core) largeEnough(n *cluster.Node, needs []cluster.Need, wanted *types.Allocated) bool {
	for _, x := range needs {
		if c.view.Pool(x.ID) != nil {
			continue
		}
		capacity, ok := c.view.Capacity(n, x.ID)
		if wanted != nil {
			capacity = capacity.Minus(wanted.Of(x.ID))
		}
		if !ok || capacity < x.Amount {
			return false
		}
	}
	return true
}

// freeShare returns how much of needs is free on n already: 1 is all of it.
func (c *Core) freeShare(d *Draft, n *cluster.Node, needs []cluster.Need, wanted *types.Allocated) float64 {
	least := 1.0
	for _, x := range needs {
		free, _ := d.free(n, x.ID)
		if wanted != nil {
			free = free.Minus(wanted.Of(x.ID))
		}
		if x.Amount > 0 && free < x.Amount {
			least = min(least, float64(free)/float64(x.Amount))
		}
	}
	return least
}

// collect takes what is free and wanted. The grant is granted once nothing is
// missing.
func (c *Core) collect(d *Draft, r *cluster.Reservation, g *types.Grant) {
	missing := slices.Contains(g.Bundles, "")
	for i := range g.Nodes {
		at := &g.Nodes[i]
		n := c.view.Nodes[at.Node]
		for _, x := range wantedOn(c.view, r, g, at.Node) {
			rest := x.Amount - heldOf(at.Holds, x.ID)
			if rest <= 0 {
				continue
			}
			h, ok := c.collectable(d, n, cluster.Need{ID: x.ID, Amount: rest})
			missing = missing || !ok || h.Amount < rest
			if ok {
				d.take(n, []types.Holding{h})
				d.keep(n, []types.Holding{h})
				d.compareNode(n)
				for _, k := range d.reliedOn(r.ID.Namespace, n, []cluster.Need{x}) {
					d.Change.IfUnchanged(k.key, k.mod)
				}
				at.Holds = addHolding(at.Holds, h)
			}
		}
	}
	if !missing {
		g.Phase = types.Granted
	}
}

// wantedOn returns what the bundles given to a node want there.
func wantedOn(v *cluster.View, r *cluster.Reservation, g *types.Grant, node string) []cluster.Need {
	sum := &types.Allocated{}
	for i, name := range g.Bundles {
		if name != node {
			continue
		}
		for _, x := range bundleNeeds(v, r.ID.Namespace, r.Info.V.Bundles[i]) {
			if !x.ID.IsPlacement() {
				sum.Take(types.Holding{Resource: x.ID, Amount: x.Amount})
			}
		}
	}
	needs := make([]cluster.Need, 0, len(sum.Holds))
	for _, h := range sum.Holds {
		needs = append(needs, cluster.Need{ID: h.Resource, Amount: h.Amount})
	}
	return needs
}

// collectable returns as much of x as is free on n; ok is false if nothing is, or
// if it is in flight.
func (c *Core) collectable(d *Draft, n *cluster.Node, x cluster.Need) (h types.Holding, ok bool) {
	p := c.view.Pool(x.ID)
	if c.locked(n) || p != nil && c.locked(p) {
		c.accum.skipped = true
		return h, false
	}
	free := types.Quantity(0)
	if p != nil {
		free = d.poolFree(p)
	} else {
		free, _ = d.free(n, x.ID)
	}
	amount := min(x.Amount, free)
	slots := d.slots(n, x.ID)
	for slots != nil && amount > 0 && pick(slots, amount) == nil {
		// Whole devices, as many as are free.
		amount = (amount - 1) / whole * whole
	}
	if amount <= 0 {
		return h, false
	}
	return types.Holding{Resource: x.ID, Amount: amount, Cluster: p != nil, Devices: pick(slots, amount)}, true
}

func heldOf(holds []types.Holding, rid types.ResourceID) types.Quantity {
	var sum types.Quantity
	for _, h := range holds {
		if h.Resource == rid {
			sum += h.Amount
		}
	}
	return sum
}

// addHolding adds to the holding of the same resource, without changing holds.
func addHolding(holds []types.Holding, h types.Holding) []types.Holding {
	var pools []types.Holding
	sum := &types.Allocated{}
	for _, x := range append(slices.Clone(holds), h) {
		if x.Cluster {
			pools = append(pools, x)
			continue
		}
		sum.Take(x)
	}
	for _, x := range mergePools(pools) {
		x.Cluster = true
		sum.Holds = append(sum.Holds, x)
	}
	return sum.Holds
}

func mergePools(pools []types.Holding) []types.Holding {
	sum := &types.Allocated{}
	for _, x := range pools {
		sum.Take(x)
	}
	return sum.Holds
}

func cloneGrant(g *types.Grant) *types.Grant {
	c := *g
	c.Bundles = slices.Clone(g.Bundles)
	c.Nodes = slices.Clone(g.Nodes)
	for i := range c.Nodes {
		c.Nodes[i].Holds = (&types.Allocated{Holds: g.Nodes[i].Holds}).Clone().Holds
	}
	return &c
}

// accumulate writes g as the grant of r, and the leadership that goes with it.
func (d *Draft) accumulate(v *cluster.View, r *cluster.Reservation, g *types.Grant) {
	ns, id := r.ID.Namespace, r.ID.ID
	d.collecting = &collecting{r, g}
	d.claim(r)
	d.items++
	d.Change.IfUnchanged(controlplane.ReservationKey(ns, id), r.Info.Mod)
	d.Change.IfUnchanged(controlplane.GrantKey(ns, id), r.Grant.Mod)
	space := d.namespace(ns)
	d.Change.IfUnchanged(space.key, space.mod)
	leader := int64(0)
	if l := v.Leaders[role]; l != nil {
		leader = l.Mod
	}
	d.Change.IfUnchanged(controlplane.LeaderKey(role), leader)
	if g.Phase == types.Granted {
		d.Grants = append(d.Grants, r.ID)
	}
}

// sealCollecting writes what accumulate and backfill left of the grant.
func (d *Draft) sealCollecting() {
	x := d.collecting
	if x == nil {
		return
	}
	key := controlplane.LeaderKey(role)
	led := d.view.Leaders[role] != nil
	switch {
	case x.g.Phase == types.Granted && led:
		d.Change.Delete(key)
	case x.g.Phase == types.Accumulating && !led:
		d.put(key, &types.Leader{Holder: x.r.ID.String()})
	}
	d.put(controlplane.GrantKey(x.r.ID.Namespace, x.r.ID.ID), x.g)
}
