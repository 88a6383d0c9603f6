package scheduler

import (
	"bytes"
	"slices"
	"strings"
	"time"

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
	// searched is when all nodes were last searched for places, in Unix nanoseconds,
	// and how much of the log had been seen then; -1 is none.
	searched   int64
	searchedAt int
	// skipped tells that something was left out because it was in flight.
	skipped bool
	busy    *cluster.Reservation // as of the last look
	// kept are the nodes of a collection that is in flight: until it is answered it
	// is not known what else becomes free there, and nobody else is to have it.
	kept map[*cluster.Node]struct{}
}

// searchEvery is how often at most all nodes are searched for places of a
// reservation that accumulates, or would begin to.
const searchEvery = time.Second

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
	aged := c.agedReservations()
	if len(aged) == 0 || !c.maySearch() {
		return
	}
	for _, r := range aged {
		if c.accumulateFor(d, r) {
			return
		}
	}
}

// searchDue reports whether all nodes are to be searched: something has changed
// since they were, and that is some time ago.
func (c *Core) searchDue() bool {
	if c.accum.searchedAt == c.base+len(c.changed) {
		return false
	}
	if at := c.accum.searched + int64(searchEvery); at > c.now.UnixNano() {
		c.accum.wake = earlier(c.accum.wake, at)
		return false
	}
	return true
}

// maySearch is searchDue, and notes that it is done.
func (c *Core) maySearch() bool {
	due := c.searchDue()
	if due {
		c.accum.searched, c.accum.searchedAt = c.now.UnixNano(), c.base+len(c.changed)
	}
	return due
}

// accumulateFor lets r collect; false if r has not begun to, and cannot at present.
func (c *Core) accumulateFor(d *Draft, r *cluster.Reservation) bool {
	if c.locked(r) || !c.owns(r.ID.Namespace, "") {
		return true
	}
	if r.Grant.V != nil && c.elsewhere(d, r) {
		return true
	}
	end := c.base + len(c.changed)
	// What ends in this draft frees something that nobody else is to have first.
	if c.accum.busy == r && c.accum.seen == end && len(d.order) == 0 {
		return true
	}
	if !d.roomFor(r) {
		// It begins the next one, and nothing more is given out in this one.
		c.first, d.closed = true, true
		c.accumulateAgain()
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
func (c *Core) accumulateAgain() { c.accum.seen, c.accum.searchedAt = -1, -1 }

// elsewhere grants r, all of it, if there is room now with what it has collected
// given back: its nodes were chosen when there was less. That takes a draft of its
// own.
func (c *Core) elsewhere(d *Draft, r *cluster.Reservation) bool {
	g, leader := r.Grant.V, c.view.Leaders[role]
	if leader == nil || c.inFlightOf(g) || !c.searchDue() {
		return false
	}
	if !d.empty() {
		c.first = true
		return false
	}
	c.maySearch()
	for _, at := range g.Nodes {
		d.giveBack(c.view.Nodes[at.Node], at.Holds)
	}
	p := packing{core: c, draft: d, spots: bundleOrder(c.view, r)}
	p.looks = looksBack + len(p.spots)
	if placed := p.place(0); !placed || !d.grant(r, p.spots, 2*len(g.Nodes)+1) {
		for _, x := range p.spots {
			if placed {
				d.giveBack(x.node, x.holds)
			}
		}
		for _, at := range g.Nodes {
			d.take(c.view.Nodes[at.Node], at.Holds)
		}
		return false
	}
	for _, at := range g.Nodes {
		d.keep(c.view.Nodes[at.Node], at.Holds)
	}
	d.Change.IfUnchanged(controlplane.LeaderKey(role), leader.Mod)
	d.Change.Delete(controlplane.LeaderKey(role))
	return true
}

// inFlightOf reports whether any of what a grant holds is in flight.
func (c *Core) inFlightOf(g *types.Grant) bool {
	return slices.ContainsFunc(g.Nodes, func(at types.GrantNode) bool {
		return c.locked(c.view.Nodes[at.Node]) || slices.ContainsFunc(at.Holds, func(h types.Holding) bool {
			return h.Cluster && c.locked(c.view.PoolOf(h.Resource))
		})
	})
}

// keep keeps what becomes free on the nodes of a collection that is in flight.
func (a *accumulator) keep(v *cluster.View, g *types.Grant) {
	a.kept = make(map[*cluster.Node]struct{}, len(g.Nodes))
	for _, at := range g.Nodes {
		a.kept[v.Nodes[at.Node]] = struct{}{}
	}
}

// closed reports whether nothing is to be placed on n until something in flight is
// answered.
func (c *Core) closed(n *cluster.Node) bool {
	_, kept := c.accum.kept[n]
	return kept || c.locked(n)
}

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
		if at > c.now.UnixNano() {
			c.accum.wake = earlier(c.accum.wake, at)
			continue
		}
		aged = append(aged, r)
		if at > c.accum.searched {
			c.accum.searched, c.accum.searchedAt = 0, -1 // it was not among those searched for
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

// targets returns the grant of r to be added to, with a node for each bundle, where
// one can be found. What it has on nodes that are not eligible any more is given
// back, and the rest stays. nil: nothing can be done at present.
func (c *Core) targets(d *Draft, r *cluster.Reservation) *types.Grant {
	g := &types.Grant{Phase: types.Accumulating, Reservation: r.Info.Create, Bundles: make([]string, len(r.Info.V.Bundles))}
	if r.Grant.V != nil {
		if g = cloneGrant(r.Grant.V); !c.untargeted(g) {
			return g
		}
		if c.waitForGrant(d, r) {
			return nil
		}
		c.giveUpLost(d, r, g)
	}
	wanted := make(map[string]*types.Allocated)
	for _, x := range bundleOrder(c.view, r) {
		if name := g.Bundles[x.index]; name != "" {
			want(wanted, name, x.needs)
		}
	}
	for _, x := range bundleOrder(c.view, r) {
		if g.Bundles[x.index] != "" {
			continue
		}
		n := c.target(d, g, x.needs, wanted)
		if n == nil && r.Grant.V == nil {
			return nil
		}
		if n == nil {
			continue
		}
		g.Bundles[x.index] = n.Name
		if !slices.ContainsFunc(g.Nodes, func(at types.GrantNode) bool { return at.Node == n.Name }) {
			g.Nodes = append(g.Nodes, types.GrantNode{Node: n.Name})
		}
		want(wanted, n.Name, x.needs)
	}
	slices.SortFunc(g.Nodes, func(a, b types.GrantNode) int { return strings.Compare(a.Node, b.Node) })
	return g
}

// want counts what a bundle wants of a node.
func want(wanted map[string]*types.Allocated, name string, needs []cluster.Need) {
	if wanted[name] == nil {
		wanted[name] = &types.Allocated{}
	}
	for _, x := range needs {
		wanted[name].Take(types.Holding{Resource: x.ID, Amount: x.Amount})
	}
}

// giveUpLost gives back what g, to be the grant of r, has on nodes that are not
// eligible any more.
func (c *Core) giveUpLost(d *Draft, r *cluster.Reservation, g *types.Grant) {
	lost := &types.Grant{}
	g.Nodes = slices.DeleteFunc(g.Nodes, func(at types.GrantNode) bool {
		if c.view.Nodes[at.Node].Eligible() {
			return false
		}
		lost.Nodes = append(lost.Nodes, at)
		return true
	})
	for i, name := range g.Bundles {
		if name != "" && !c.view.Nodes[name].Eligible() {
			g.Bundles[i] = ""
		}
	}
	d.returnUndrawn(r, lost)
}

// target returns the node with the most free that is large enough for needs beside
// what is wanted there already. What g has there counts as free.
func (c *Core) target(d *Draft, g *types.Grant, needs []cluster.Need, wanted map[string]*types.Allocated) *cluster.Node {
	var best *cluster.Node
	var most float64
	for _, n := range c.nodes {
		if !n.Eligible() || !c.largeEnough(n, needs, wanted[n.Name]) {
			continue
		}
		if share := c.freeShare(d, n, needs, wanted[n.Name], g.On(n.Name)); best == nil || share > most {
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
func (c *Core) freeShare(d *Draft, n *cluster.Node, needs []cluster.Need, wanted *types.Allocated, held []types.Holding) float64 {
	least := 1.0
	for _, x := range needs {
		free, _ := d.free(n, x.ID)
		free = free.Add(heldOf(held, x.ID))
		if wanted != nil {
			free = free.Minus(wanted.Of(x.ID))
		}
		if x.Amount > 0 && free < x.Amount {
			least = min(least, float64(free)/float64(x.Amount))
		}
	}
	return least
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
	leader := v.UnreadMod(controlplane.LeaderKey(role))
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
