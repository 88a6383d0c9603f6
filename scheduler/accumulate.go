package scheduler

import (
	"slices"
	"strings"
	"time"

	"github.com/escher-sched/escher/controlplane"
	"github.com/escher-sched/escher/controlplane/cluster"
	"github.com/escher-sched/escher/scheduler/grants"
	"github.com/escher-sched/escher/scheduler/queue"
	"github.com/escher-sched/escher/scheduler/search"
	"github.com/escher-sched/escher/types"
)

// A large reservation would starve if small tasks took all capacity that becomes free. One that may
// accumulate gets nodes for its bundles after a wait. It collects capacity there as it becomes
// free, before anything else is placed. No task may draw on it until it is complete. A task may
// accumulate likewise: see claimant. Only one of them in the cluster does so at a time (key
// leaders/accumulate), so that no two hold what the other needs. Tasks that end in time may use the
// capacity meanwhile: see backfill.

// accumulator is the core's state of accumulation.
type accumulator struct {
	// candidates wait and may accumulate; some may be outdated. nextAge is when the next one has
	// waited long enough, in Unix nanoseconds; 0 means none is left.
	candidates map[queue.Key]struct{}
	nextAge    int64
	wake       int64
	// seen is the position reached in the log of changed nodes; -1 means none.
	seen int
	// places paces the search of all nodes for a place, rivals the search for outranking work.
	places, rivals paced
	// last is the grant as last seen. progress is when it became so, in Unix nanoseconds. left are
	// the nodes it has left because they freed no more.
	last     *types.Grant
	progress int64
	left     map[string]struct{}
	// ended counts the ended attempts on all nodes. round is its value when the first node of left
	// was given up. resting reports whether none has ended since.
	ended, round int
	resting      bool
	// next is the index at which the next search of candidates begins.
	next int
	// skipped reports whether the search omitted something in flight.
	skipped bool
	busy    queue.Key // as last seen
	// atOnce are the reservations that collect at once; some may be outdated.
	atOnce map[cluster.ID]struct{}
	// refused are those in atOnce whose draft was too large for the store, with the revision of
	// their last change at that time.
	refused map[cluster.ID]int64
}

// searchEvery is the least time between searches of all nodes for reservations that accumulate or
// would begin to.
const searchEvery = time.Second

// paced limits a search to once per searchEvery, and only after a change.
type paced struct {
	// at is when the search last ran, in Unix nanoseconds. seen is the position reached in the log
	// of changed nodes; -1 means none.
	at   int64
	seen int
}

// collecting is the accumulating grant as a draft leaves it.
type collecting struct {
	x claimant
	g *types.Grant
}

// accumulate adds to the draft what can be collected. If this draft cannot hold it, the next draft
// begins with it.
func (c *Core) accumulate(d *Transaction) {
	if d.closed {
		return
	}
	c.accum.wake = 0
	if x, ok := c.accumulating(); ok {
		c.placeOutranking(d, x)
		switch {
		case d.closed:
		case !c.locked(x.lock()) && c.outranked(d, x):
			c.dissolve(d, x)
		default:
			c.accumulateFor(d, x)
		}
		return
	}
	if len(c.accum.candidates) == 0 || c.view.Leaders[grants.AccumulateRole] != nil {
		return
	}
	if at := c.accum.nextAge; at != 0 && at <= c.now.UnixNano() {
		c.accum.places = paced{seen: -1} // the earlier searches did not include it
	}
	if !c.maySearch(&c.accum.places) {
		c.accum.wake = earlier(c.accum.wake, c.accum.nextAge)
		return
	}
	c.begin(d, c.aged())
}

// triesPerSearch bounds the shapes for which one pass searches all nodes.
const triesPerSearch = 16

// begin lets the first candidate that can begin collect. With too many candidates, it continues
// after the ones tried before.
func (c *Core) begin(d *Transaction, aged []claimant) {
	start := c.accum.next
	c.accum.next = 0
	type alike struct {
		shape    *queue.Shape
		priority int
	}
	tried := make(map[alike]bool)
	for i := range aged {
		x := aged[(start+i)%len(aged)]
		if c.placeOutranking(d, x); d.closed {
			c.accumulateAgain()
			return
		}
		if c.queue.Entry(x.key()) == nil {
			continue // it has its place
		}
		s := alike{c.queue.Entry(x.key()).Shape, x.priority()}
		if tried[s] {
			continue // a candidate fails wherever an equal request of equal priority failed
		}
		if len(tried) == triesPerSearch {
			c.accum.next, c.accum.places.seen = (start+i)%len(aged), -1
			c.accum.wake = earlier(c.accum.wake, c.accum.places.at+int64(searchEvery))
			return
		}
		if tried[s] = true; c.accumulateFor(d, x) {
			return
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
		c.accum.wake = earlier(c.accum.wake, at)
		return false
	}
	return true
}

// maySearch is searchDue, and records the search.
func (c *Core) maySearch(s *paced) bool {
	due := c.searchDue(s)
	if due {
		*s = paced{c.now.UnixNano(), c.nodes.End()}
	}
	return due
}

// accumulateFor lets x collect. It returns false if x has not begun and cannot begin at present.
func (c *Core) accumulateFor(d *Transaction, x claimant) bool {
	if c.deciding = x.Reservation; x.task != nil {
		c.deciding = x.task
	}
	if c.view.UnreadNamespace(x.ID.Namespace) {
		return false // its quotas are unknown
	}
	if c.locked(x.lock()) || d.Has(x.lock()) || !c.takesCareOf(x) {
		return true
	}
	if grants.OverPools(c.view, x.Reservation) || c.roomIsMade(x) || c.givesWay(x) {
		if x.Grant.V == nil {
			return false
		}
		c.dissolve(d, x)
		return true
	}
	if c.complete(d, x) {
		return true
	}
	end := c.nodes.End()
	stuck := c.isStuck(x)
	// Work that ends in this draft frees capacity that must not go to others first.
	if c.accum.busy == x.key() && c.accum.seen == end && d.NumNodes() == 0 && !stuck {
		return true
	}
	if !d.RoomFor(x.Reservation) {
		// The next draft begins with it; this one places nothing more.
		c.first, d.closed = true, true
		c.accumulateAgain()
		return true
	}
	g := c.targets(d, x)
	if g == nil {
		return x.Grant.V != nil
	}
	c.accum.busy, c.accum.seen, c.accum.skipped = x.key(), end, false
	if stuck {
		c.moveOn(d, x, g)
	}
	c.collect(d, x.Reservation, g)
	if x.task != nil && g.Phase == types.Granted {
		// The draft had no capacity to bind the task; the next one has.
		g.Phase, c.first = types.Accumulating, true
	}
	if !grants.Equal(g, x.Grant.V) {
		d.accumulate(c.view, x, g)
		if x.task == nil {
			c.queue.Remove(x.key())
		}
	}
	return true
}

// dissolve returns what x has collected, in a draft of its own.
func (c *Core) dissolve(d *Transaction, x claimant) {
	r := c.view.Reservations[x.ID]
	switch {
	case r == nil || c.waitForGrant(d, r):
	case !d.Empty():
		c.first, d.closed = true, true
		c.accumulateAgain()
	default:
		d.closed = d.Release(r) && !d.Empty()
	}
}

// complete grants or binds x if all of it fits now, once what it has collected is returned.
func (c *Core) complete(d *Transaction, x claimant) bool {
	if x.task != nil {
		return c.bindClaimant(d, x)
	}
	return x.Grant.V != nil && c.elsewhere(d, x.Reservation)
}

// accumulateAgain forces a new look at all nodes of the accumulating reservation.
func (c *Core) accumulateAgain() { c.accum.seen, c.accum.places.seen = -1, -1 }

// elsewhere grants all of r if it fits now, once what it has collected is returned: its nodes were
// chosen when less was free. That takes a draft of its own.
func (c *Core) elsewhere(d *Transaction, r *cluster.Reservation) bool {
	g, leader := r.Grant.V, c.view.Leaders[grants.AccumulateRole]
	if leader == nil || c.inFlightOf(g) || !c.searchDue(&c.accum.places) {
		return false
	}
	if !d.Empty() {
		c.first = true
		return false
	}
	c.maySearch(&c.accum.places)
	c.releaseGrant(d, g)
	p := search.NewPacking(c.nodes, d.Draft, grants.BundleOrder(c.view, r))
	if placed := p.Place(); !placed || !d.Grant(r, p.Spots, 2*len(g.Nodes)+1) {
		if placed {
			p.Undo()
		}
		c.reacquireGrant(d, g)
		if p.Skipped {
			c.accum.places.seen = -1 // nodes in flight may fit once they are answered
		}
		return false
	}
	for _, at := range g.Nodes {
		d.Keep(c.view.Nodes[at.Node], at.Holds)
	}
	d.Change.IfUnchanged(controlplane.LeaderKey(grants.AccumulateRole), leader.Mod)
	d.Remove(controlplane.LeaderKey(grants.AccumulateRole))
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

// accumulating returns the current claimant; false if there is none.
func (c *Core) accumulating() (claimant, bool) {
	leader := c.view.Leaders[grants.AccumulateRole]
	if leader == nil {
		return claimant{}, false
	}
	ns, id, _ := strings.Cut(leader.V.Holder, "/")
	r := c.view.Reservations[cluster.ID{Namespace: ns, ID: id}]
	if r == nil || r.Grant.V == nil || r.Grant.V.Phase != types.Accumulating {
		return claimant{}, false
	}
	if t := grants.ClaimedBy(c.view, r); t != nil {
		return claimOf(c.view, t), true
	}
	return claimant{Reservation: r}, r.Current()
}

// mayAccumulate registers a candidate and the time at which it may begin.
func (c *Core) mayAccumulate(k queue.Key, submitted int64) {
	if c.accum.candidates == nil {
		c.accum.candidates = make(map[queue.Key]struct{})
	}
	c.accum.candidates[k] = struct{}{}
	c.accum.nextAge = earlier(c.accum.nextAge, submitted+int64(c.cfg.AccumulateAfter))
	c.accum.places.seen, c.accum.rivals.seen = -1, -1
}

// aged returns the candidates that have waited long enough, in queue order. It also updates the
// time of the next one.
func (c *Core) aged() []claimant {
	c.accum.nextAge = 0
	var aged []claimant
	for k := range c.accum.candidates {
		x, ok := c.candidate(k)
		if !ok {
			delete(c.accum.candidates, k)
			continue
		}
		if at := x.Info.V.Submitted + int64(c.cfg.AccumulateAfter); at > c.now.UnixNano() {
			c.accum.nextAge = earlier(c.accum.nextAge, at)
			continue
		}
		if x.Grant.Absent() && !c.roomIsMade(x) { // otherwise an earlier grant of that name is not over
			aged = append(aged, x)
		}
	}
	c.accum.wake = earlier(c.accum.wake, c.accum.nextAge)
	slices.SortFunc(aged, func(a, b claimant) int {
		if c.queue.Entry(a.key()).Before(c.queue.Entry(b.key())) {
			return -1
		}
		return 1
	})
	return aged
}

// candidate returns the object queued as k if it may accumulate.
func (c *Core) candidate(k queue.Key) (claimant, bool) {
	if c.queue.Entry(k) == nil {
		return claimant{}, false
	}
	if !k.Reservation {
		t := c.view.Task(k.ID)
		if t == nil || t.Info.V == nil || !t.Info.V.Accumulate {
			return claimant{}, false
		}
		return claimOf(c.view, t), true
	}
	r := c.view.Reservations[k.ID]
	return claimant{Reservation: r}, r != nil && r.Info.V != nil && r.Info.V.Accumulate
}

// accumulate writes g as the grant of x, and the leadership that goes with it.
func (d *Transaction) accumulate(v *cluster.View, x claimant, g *types.Grant) {
	ns, id := x.ID.Namespace, x.ID.ID
	d.collecting = &collecting{x, g}
	d.Decide(x.lock())
	if x.task != nil {
		d.CompareTask(x.task)
		d.Change.IfUnchanged(controlplane.GrantKey(ns, id), x.Grant.Mod)
		d.CompareNamespace(ns)
	} else {
		d.CompareReservation(x.Reservation)
	}
	leader := v.UnreadMod(controlplane.LeaderKey(grants.AccumulateRole))
	if l := v.Leaders[grants.AccumulateRole]; l != nil {
		leader = l.Mod
	}
	d.Change.IfUnchanged(controlplane.LeaderKey(grants.AccumulateRole), leader)
	if g.Phase == types.Granted {
		d.Grants = append(d.Grants, x.ID)
	}
}

// sealCollecting writes the grant as accumulate and backfill left it.
func (d *Transaction) sealCollecting() {
	at := d.collecting
	if at == nil {
		return
	}
	key := controlplane.LeaderKey(grants.AccumulateRole)
	led := d.View().Leaders[grants.AccumulateRole] != nil
	switch {
	case at.g.Phase == types.Granted && led:
		d.Remove(key)
	case at.g.Phase == types.Accumulating && !led:
		d.Put(key, &types.Leader{Holder: at.x.ID.String()}, 0)
	}
	d.Put(controlplane.GrantKey(at.x.ID.Namespace, at.x.ID.ID), at.g, at.x.Grant.Mod)
}
