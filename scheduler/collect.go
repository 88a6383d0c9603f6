package scheduler

import (
	"cmp"
	"maps"
	"slices"
	"time"

	"github.com/escher-sched/escher/controlplane"
	"github.com/escher-sched/escher/controlplane/cluster"
	"github.com/escher-sched/escher/controlplane/grants"
	"github.com/escher-sched/escher/scheduler/queue"
	"github.com/escher-sched/escher/scheduler/search"
	"github.com/escher-sched/escher/types"
)

// A task or reservation that is directed to nodes collects there: it takes capacity as it becomes
// free, into a grant on which no task may draw until it is complete. See types.Collect. The
// direction may change at any time: holdings on nodes no longer named are returned. The scheduler
// decides neither what collects nor where.
//
// A library directs what may accumulate, because a large one would starve if small tasks took all
// that becomes free. It collects after what precedes it in the queue and before everything else.
// Tasks that end in time may use the capacity meanwhile: see useCollected.
//
// A maker directs a reservation for which it frees capacity, or is about to. That capacity is for no
// other, whatever waits: so it comes before the queue, is never in it, and takes no other nodes.

// collections is the core's state of what collects.
type collections struct {
	// directed are the objects that collect, or hold a part; some may be outdated.
	directed map[queue.Key]*collection
	wake     int64
	// skipped reports whether the search omitted something in flight.
	skipped bool
}

// collection is the core's state of one collecting object.
type collection struct {
	// seen is the position reached in the log of changed nodes; -1 means none. mod is the revision
	// of the object at that time.
	seen int
	mod  int64
	// places paces the search of all nodes for a place.
	places paced
	// yields is the time until which it returns everything and collects nothing, in Unix nanoseconds:
	// one transaction could not hold both its return and what precedes it. placed is the number of
	// its bundles with a node, as last seen: if it falls, another scheduler makes it yield.
	yields int64
	placed int
	// refused is the revision of the object when the store refused a draft for it for good. Until it
	// changes it returns what it has and collects nothing: others would wait for what it never gets.
	// kept is the revision of a grant whose return the store refuses, too, however small.
	refused, kept int64
}

// An etcd without flags takes leastOps and leastBytes: a store that takes less than Config says
// should take them.
const (
	leastOps   = 128
	leastBytes = 1 << 20
)

// searchEvery is the least time between searches of all nodes for what collects.
const searchEvery = time.Second

// paced limits a search to once per searchEvery, and only after a change.
type paced struct {
	// at is when the search last ran, in Unix nanoseconds. seen is the position reached in the log
	// of changed nodes; -1 means none.
	at   int64
	seen int
}

// collecting is the grant of what collects as a draft leaves it.
type collecting struct {
	x claimant
	g *types.Grant
}

// collectAll adds to the draft what can be collected. If this draft cannot hold it, the next draft
// begins with it.
func (c *Core) collectAll(d *Transaction) {
	c.collects.wake = 0
	for _, x := range c.claimants() {
		if d.closed {
			return
		}
		if c.placeOutranking(d, x); !d.closed {
			c.collectFor(d, x)
		}
	}
}

// searchDue reports whether a search is due: something has changed, and the last search was at
// least searchEvery ago.
func (c *Core) searchDue(s *paced) bool {
	if s.seen == c.nodes.End() {
		return false
	}
	if at := s.at + int64(searchEvery); at > c.now.UnixNano() {
		c.collects.wake = earlier(c.collects.wake, at)
		return false
	}
	return true
}

// collectFor lets x collect.
func (c *Core) collectFor(d *Transaction, x claimant) {
	if c.deciding = x.Reservation; x.task != nil {
		c.deciding = x.task
	}
	if c.view.UnreadNamespace(x.ID.Namespace) || c.locked(x.lock()) || d.Has(x.lock()) || !c.takesCareOf(x) {
		return // in an unread namespace, its quotas are unknown
	}
	s, on := c.collects.directed[x.key()], x.on()
	placed := x.placed()
	if s.mod == x.Info.Mod && placed < s.placed {
		s.yields = c.now.UnixNano() + int64(searchEvery)
	}
	if s.placed = placed; s.mod != x.Info.Mod {
		s.placed = 0 // its nodes change
	}
	yields, refused := s.yields > c.now.UnixNano(), s.refused == x.Info.Mod
	switch {
	case x.Grant.V != nil && (yields || refused || len(on) == 0):
		c.dissolve(d, x)
		return
	case yields:
		c.collects.wake = earlier(c.collects.wake, s.yields)
		return
	case refused || x.Info.V.Directed() && c.anyIneligible(on) || c.complete(d, x):
		return // no library finds its maker's nodes others, so a part would be held for nothing
	}
	end := c.nodes.End()
	switch {
	case x.handsOver():
		if !c.findsMore(d, x, on) {
			return
		}
	case s.seen == end && s.mod == x.Info.Mod && d.NumNodes() == 0:
		// Otherwise work that ends in this draft frees capacity that must not go to others first.
		return
	}
	if d.collecting != nil || !d.RoomFor(x.Reservation) || x.handsOver() && !d.Empty() {
		// The next draft begins with it; this one places nothing more. What is handed over needs a draft
		// of its own, because its heirs join it.
		c.first, d.closed = true, true
		s.seen = -1
		return
	}
	if x.handsOver() && !d.RoomToHandOver(x.Reservation, on) {
		return // it could never be handed over
	}
	g, all := c.redirect(d, x, on)
	switch {
	case g == nil:
		return
	case all:
		s.seen, s.mod, c.collects.skipped = end, x.Info.Mod, false
		c.collect(d, x.Reservation, g)
	default: // the next draft returns the rest, and collects
		c.first, d.closed = true, true
	}
	if g.Phase == types.Granted && c.passesOn(d, x, g) {
		return
	}
	if !grants.Equal(g, x.Grant.V) {
		d.setCollecting(x, g)
		if x.task == nil {
			c.queue.Remove(x.key())
		}
	}
}

// passesOn does what becomes of x besides a grant once g, its grant, is complete. It reports whether
// that placed something in the draft; otherwise it leaves g as it is to be stored.
func (c *Core) passesOn(d *Transaction, x claimant, g *types.Grant) bool {
	switch {
	case x.task != nil:
		// The draft had no capacity to bind the task; the next one has.
		g.Phase, c.first = types.Collecting, true
	case x.handsOver():
		switch c.handOver(d, x.Reservation, g) {
		case placed:
			return true
		case stalled:
			g.Phase = types.Collecting
		}
	}
	return false
}

// yield returns what x has collected for what precedes it, in drafts of their own.
func (c *Core) yield(d *Transaction, x claimant) {
	c.collects.directed[x.key()].yields = c.now.UnixNano() + int64(searchEvery)
	c.dissolve(d, x)
}

// dissolve returns what x has collected, in a draft of its own.
func (c *Core) dissolve(d *Transaction, x claimant) {
	r, s := c.view.Reservations[x.ID], c.collects.directed[x.key()]
	switch {
	case r == nil || s.kept == r.Grant.Mod || c.waitForGrant(d, r):
	case !d.Empty():
		c.first, d.closed = true, true
		c.collectAgain()
	default:
		if s.refused == x.Info.Mod {
			d.Limit(controlplane.Limits{Ops: leastOps, Bytes: leastBytes})
		}
		d.of, d.closed = &x, d.Release(r) && !d.Empty()
	}
}

// complete grants or binds x if all of it fits now, once what it has collected is returned.
func (c *Core) complete(d *Transaction, x claimant) bool {
	if x.task != nil {
		return c.bindClaimant(d, x)
	}
	return x.Grant.V != nil && !x.Info.V.Directed() && c.elsewhere(d, x.Reservation)
}

// collectAgain forces a new look at all nodes of what collects.
func (c *Core) collectAgain() {
	for _, s := range c.collects.directed {
		s.seen, s.places.seen = -1, -1
	}
}

// elsewhere grants all of r if it fits now, once what it has collected is returned: its nodes were
// chosen when less was free. That takes a draft of its own.
func (c *Core) elsewhere(d *Transaction, r *cluster.Reservation) bool {
	g, s := r.Grant.V, &c.collects.directed[queue.Key{ID: r.ID, Reservation: true}].places
	if c.inFlightOf(g) || !c.searchDue(s) {
		return false
	}
	if !d.Empty() {
		c.first = true
		return false
	}
	*s = paced{c.now.UnixNano(), c.nodes.End()}
	c.releaseGrant(d, g)
	p := search.NewPacking(c.nodes, d.Draft, grants.BundleOrder(c.view, r))
	if placed := p.Place(); !placed || !d.Grant(r, p.Spots, 2*len(g.Nodes)+1) {
		if placed {
			p.Undo()
		}
		c.reacquireGrant(d, g)
		if p.Skipped {
			s.seen = -1 // nodes in flight may fit once they are answered
		}
		return false
	}
	for _, at := range g.Nodes {
		d.Keep(c.view.Nodes[at.Node], at.Holds)
	}
	d.EndLead(grants.AccumulateRole, r.ID)
	return true
}

// inFlightOf reports whether a node or pool of a grant is in flight.
func (c *Core) inFlightOf(g *types.Grant) bool {
	return slices.ContainsFunc(g.Nodes, func(at types.GrantNode) bool {
		return c.locked(c.view.Nodes[at.Node]) || slices.ContainsFunc(at.Holds, func(h types.Holding) bool {
			return h.Cluster && c.locked(c.view.PoolOf(h.Resource))
		})
	})
}

// keep closes the nodes of a collection in flight to other work.
func (c *Core) keep(d *Transaction) {
	if d.collecting != nil {
		for _, at := range d.collecting.g.Nodes {
			d.kept = append(d.kept, d.View().Nodes[at.Node])
		}
	}
	c.nodes.Keep(d.kept)
}

// unkeep opens them again once the collection is answered.
func (c *Core) unkeep(d *Transaction) { c.nodes.Unkeep(d.kept) }

// mayCollect registers an object that collects, or holds a part.
func (c *Core) mayCollect(k queue.Key) {
	if c.collects.directed == nil {
		c.collects.directed = make(map[queue.Key]*collection)
	}
	if c.collects.directed[k] == nil {
		c.collects.directed[k] = &collection{seen: -1, places: paced{seen: -1}}
	}
}

// claimants returns what collects, or holds a part, in the order in which it takes: what its makers
// direct, the oldest first, and then the rest in queue order.
func (c *Core) claimants() []claimant {
	return slices.SortedFunc(c.known, func(a, b claimant) int {
		x, y := a.Info.V.Directed(), b.Info.V.Directed()
		switch {
		case x && y:
			return cmp.Or(cmp.Compare(a.Info.V.Submitted, b.Info.V.Submitted), a.ID.Compare(b.ID))
		case x || !y && !a.outrankedBy(entryOf(b)):
			return -1
		}
		return 1
	})
}

// known yields what collects, or holds a part, in any order; it forgets what is outdated.
func (c *Core) known(yield func(claimant) bool) {
	for k := range maps.Keys(c.collects.directed) {
		x, ok := c.claimant(k)
		switch {
		case !ok:
			delete(c.collects.directed, k)
		case x.Grant.V == nil && !x.Info.V.Directed() && c.queue.Entry(k) == nil:
		case !yield(x):
			return
		}
	}
}

// claimant returns the object of a key if it is to collect, or holds a part.
func (c *Core) claimant(k queue.Key) (x claimant, ok bool) {
	if k.Reservation {
		r := c.view.Reservations[k.ID]
		if r == nil || r.Info.V == nil {
			return x, false
		}
		x = claimant{Reservation: r}
		return x, r.Current() && r.Grant.V.Phase == types.Collecting || r.Grant.Absent() && x.on() != nil
	}
	t := c.view.Task(k.ID)
	if t == nil || t.Info.V == nil || !t.Info.V.Accumulate {
		return x, false
	}
	x = claimOf(c.view, t)
	return x, grants.CollectedBy(c.view, t) != nil || x.Grant.Absent() && x.on() != nil
}

// setCollecting makes g the grant of x.
func (d *Transaction) setCollecting(x claimant, g *types.Grant) {
	ns, id := x.ID.Namespace, x.ID.ID
	d.collecting, d.of = &collecting{x, g}, &x
	d.Decide(x.lock())
	if x.task != nil {
		d.CompareTask(x.task)
		d.Change.IfUnchanged(controlplane.GrantKey(ns, id), x.Grant.Mod)
		d.CompareNamespace(ns)
	} else {
		d.CompareReservation(x.Reservation)
	}
	if g.Phase == types.Granted {
		d.Grants = append(d.Grants, x.ID)
	}
}

// sealCollecting writes the grant as collectAll and backfill left it.
func (d *Transaction) sealCollecting() {
	at := d.collecting
	if at == nil {
		return
	}
	if at.g.Phase == types.Granted {
		d.EndLead(grants.AccumulateRole, at.x.ID)
	}
	d.Put(controlplane.GrantKey(at.x.ID.Namespace, at.x.ID.ID), at.g, at.x.Grant.Mod)
}

// refuse records that the store refuses a draft for good because of what it collects, hands over or
// returns. A draft that collects among other work is tried without that work first.
func (c *Core) refuse(d *Transaction) {
	x := d.of
	if x == nil || d.Len() > 1 && !x.handsOver() {
		return
	}
	switch s := c.collects.directed[x.key()]; {
	case s == nil:
	case s.refused == x.Info.Mod:
		s.kept = x.Grant.Mod
	default:
		s.refused = x.Info.Mod
	}
}
