package scheduler

import (
	"strings"

	"github.com/escher-sched/escher/controlplane/cluster"
	"github.com/escher-sched/escher/controlplane/match"
	"github.com/escher-sched/escher/types"
)

// solo is how often a task conflicts before it is sent alone, so that nobody's
// churn poisons other people's batches.
const solo = 2

// outcome is what became of an attempt to place the head of a shape.
type outcome int

const (
	placed  outcome = iota
	noFit           // nowhere: it waits
	stalled         // what might fit is in flight
	full            // the draft has no room: it is for the next one
)

// placeWaiting fills the draft with what waits: in order, but for a few that go beside
// what was placed.
func (c *Core) placeWaiting(d *Draft) { c.placeUntil(d, nil) }

// placeUntil is placeWaiting of what comes before an entry, unless that is nil.
func (c *Core) placeUntil(d *Draft, limit *entry) {
	for !d.closed && len(d.entries)-d.bundles < c.batch && len(c.queue.ready) > 0 {
		s := c.queue.ready[0].shape
		e := s.head()
		if limit != nil && !e.before(limit) {
			return
		}
		alone := e.conflicts >= solo
		if alone && !d.empty() {
			c.first = true
			return
		}
		switch c.try(d, s) {
		case placed:
			d.closed = d.closed || alone
			if limit == nil {
				c.placeBeside(d, e.priority)
			}
		case full:
			c.first = true
			return
		}
	}
}

// try places the head of a ready shape, or has the shape wait.
func (c *Core) try(d *Draft, s *shape) outcome {
	d.last = nil
	e := s.head()
	result, lacks := c.placeHead(d, s, e)
	switch result {
	case placed:
		if !s.unit {
			c.queue.take(e)
			d.entries = append(d.entries, e)
		}
		c.wakeOffered(d)
	case noFit:
		c.queue.rest(s)
		c.queue.wait(s, lacks)
		c.restWaiting(s)
	case stalled:
		c.queue.rest(s)
		c.queue.stalled = append(c.queue.stalled, s)
	}
	return result
}

// wakeOffered wakes what waits for what the draft itself brings, so that it can be
// placed in the same transaction.
func (c *Core) wakeOffered(d *Draft) {
	for _, rid := range d.fresh {
		c.forgetSeen(rid)
		c.queue.wake(rid)
	}
	d.fresh = d.fresh[:0]
}

func (c *Core) placeHead(d *Draft, s *shape, e *entry) (outcome, []types.ResourceID) {
	c.deciding = e
	if c.view.UnreadNamespace(e.id.Namespace) {
		return noFit, nil // until that changes, which makes all of the namespace ready
	}
	if s.unit {
		return c.placeUnit(d, s)
	}
	if e.bundles {
		return c.placeBundles(d, s, c.view.Reservations[e.id])
	}
	return c.placeTask(d, s, c.view.Task(e.id))
}

// placeTask places a task, if it fits anywhere.
func (c *Core) placeTask(d *Draft, s *shape, t *cluster.Task) (outcome, []types.ResourceID) {
	if t.Info.V.Accumulate && d.has(t) {
		return stalled, nil // the draft collects for it
	}
	if r := collectedBy(c.view, t); r != nil {
		return c.placeClaimant(d, s, r, t)
	}
	return c.placeAnew(d, s, t)
}

// placeAnew tries the alternatives of a task that are allowed by now, in their
// order.
func (c *Core) placeAnew(d *Draft, s *shape, t *cluster.Task) (outcome, []types.ResourceID) {
	var lacks []types.ResourceID
	inFlight := false
	for i, needs := range c.needsOf(s, t) {
		if at := allowedAt(t.Info.V, i); at > c.now.UnixNano() {
			if s.until == 0 || at < s.until {
				c.queue.at(s, at)
			}
			continue
		}
		n, short, skipped := c.find(d, s, needs)
		if n != nil {
			if d.bind(t, n, i, needs, c.now) {
				d.last = n
				return placed, nil
			}
			if d.empty() {
				// Larger than a transaction. What it relies on may become less.
				return noFit, idsOf(needs)
			}
			return full, nil
		}
		switch c.useCollected(d, t, i, needs) {
		case placed:
			return placed, nil
		case full:
			return full, nil
		case stalled:
			skipped = true
		}
		if inFlight = inFlight || skipped; c.outranks(d, t) {
			short = idsOf(needs) // what it lacks was perhaps collected, and then it lacks the rest
		}
		lacks = append(lacks, short...)
	}
	if inFlight {
		return stalled, nil
	}
	if t.Info.V.MaxRun > 0 {
		lacks = append(lacks, lendable)
	}
	return noFit, lacks
}

// allowedAt is when a task may take alternative i, in Unix nanoseconds.
func allowedAt(t *cluster.TaskValue, i int) int64 {
	if i >= len(t.Alternatives) {
		return 0
	}
	return t.Submitted + int64(t.Alternatives[i].After)
}

// needsOf returns the needs of each alternative of the tasks of a shape.
func (c *Core) needsOf(s *shape, t *cluster.Task) [][]cluster.Need {
	at := int64(0)
	if ns := c.view.Namespaces[t.ID.Namespace]; ns != nil {
		at = ns.Mod
	}
	if s.resolved == nil || s.resolvedAt != at {
		s.resolved, s.resolvedAt = Vectors(c.view, t), at
	}
	return s.resolved
}

// Vectors returns what each alternative of a task asks for, all included; one
// vector if it has no alternatives.
func Vectors(v *cluster.View, t *cluster.Task) [][]cluster.Need {
	if len(t.Info.V.Alternatives) == 0 {
		return [][]cluster.Need{v.Needs(t.ID.Namespace, t.Info.V.Requests, t.Info.V.Devices...)}
	}
	var out [][]cluster.Need
	for _, a := range t.Info.V.Alternatives {
		out = append(out, v.Needs(t.ID.Namespace, t.Info.V.Requests.Plus(a.Requests), t.Info.V.Devices...))
	}
	return out
}

// find returns a node for needs, or what to wait for: one that is avoided only if no other
// does. skipped tells that a node or pool in flight might do.
func (c *Core) find(d *Draft, s *shape, needs []cluster.Need) (n *cluster.Node, lacks []types.ResourceID, skipped bool) {
	if len(c.accum.avoided) == 0 {
		return c.findOne(d, s, needs)
	}
	c.accum.keepNodes(c.accum.avoided)
	n, lacks, skipped = c.findOne(d, s, needs)
	if c.accum.unkeepNodes(c.accum.avoided); n == nil && skipped {
		return c.findOne(d, s, needs)
	}
	return n, lacks, skipped
}

// findOne is find, of all nodes.
func (c *Core) findOne(d *Draft, s *shape, needs []cluster.Need) (n *cluster.Node, lacks []types.ResourceID, skipped bool) {
	if c.poolInFlight(d, needs) {
		return nil, nil, true
	}
	if short, ok := d.poolShort(needs); ok {
		return nil, []types.ResourceID{short}, false
	}
	look := search{core: c, draft: d, needs: needs, rng: c.rng, choice: c.cfg.Placement}
	candidates, by := c.candidates(d, s, needs)
	var some [8]match.Filter
	filters := c.index.Filters(needs, some[:0])
	passed := false
	if by == "" && len(candidates) == len(c.nodes) {
		c.findAnywhere(&look, s, filters)
	} else if len(candidates) > 0 {
		look.by = by
		start := s.cursor % len(candidates)
		if !by.Scoped() {
			start = c.rng.IntN(len(candidates))
		}
		end := look.over(candidates, start, func(from, end int) int {
			for ; from < end && !c.passes(filters, candidates[from]); from++ {
				passed = true
			}
			return from
		})
		if by.Scoped() {
			s.cursor = end // where the next that asks for the same has room
		}
	}
	if look.best != nil {
		return look.best, nil, false
	}
	if !look.skipped {
		s.seen = c.base + len(c.changed)
	}
	if by != "" && !passed && look.shortOf == look.seen {
		return nil, []types.ResourceID{by}, look.skipped
	}
	return nil, idsOf(needs), look.skipped
}

// findAnywhere looks among all nodes. What the index finds is looked at, and entered
// into it anew if it was wrong.
func (c *Core) findAnywhere(look *search, s *shape, filters []match.Filter) {
	if len(c.nodes) == 0 {
		return
	}
	if c.cfg.Placement == Pack {
		s.cursor = c.findFrom(s.cursor%len(c.nodes), look, filters)
		return
	}
	end := c.findFrom(c.window.cursor%len(c.nodes), look, filters)
	if shares := c.shares(); shares == 1 || c.window.full(shares) {
		c.window.cursor = end
	}
}

// findFrom is findAnywhere, from a place on, and returns where the next search is to begin.
func (c *Core) findFrom(start int, look *search, filters []match.Filter) int {
	var some [8]match.Ask
	if asks, ok := c.index.Asks(look.needs, some[:0]); ok {
		fresh := *look
		for range enoughFound {
			end := c.scan(look, asks, filters, start)
			if look.best == nil {
				return end
			}
			if _, ok := look.draft.fits(look.best, look.needs); ok {
				return end
			}
			c.note(look.draft, look.best)
			*look = fresh
		}
	}
	return look.over(c.nodes, start, func(from, end int) int { return match.Next(filters, from, end) })
}

// window is where among all nodes the next search begins: behind the nodes found by the
// last one, whatever that was for, so that the nodes take turns. While more tasks are to be
// placed than there are nodes, each will get several: then several searches begin at the
// same place, for tasks of one transaction that share a node cost the store less.
type window struct {
	cursor int
	// found counts the searches that began at cursor.
	found int
}

// full counts a search, and reports whether the next one is to begin elsewhere.
func (w *window) full(shares int) bool {
	w.found++
	if w.found < shares*enoughFound {
		return false
	}
	w.found = 0
	return true
}

// mostShares is how many tasks a node gets in one transaction, in the mean, at most.
const mostShares = 4

// shares returns how many tasks of one transaction a node is to get: as many as each of
// this scheduler's part must get of those that are to be placed.
func (c *Core) shares() int {
	from, to := c.part()
	return min(mostShares, max(1, c.queue.toPlace/max(1, to-from)))
}

// passes reports whether the index has enough of everything on n.
func (c *Core) passes(filters []match.Filter, n *cluster.Node) bool {
	pos := c.state(n).pos
	return pos >= 0 && match.Passes(filters, pos)
}

// poolInFlight reports whether needs draw on pools that are in flight, so that the draft
// cannot.
func (c *Core) poolInFlight(d *Draft, needs []cluster.Need) bool {
	if len(c.drawing) == 0 {
		return false
	}
	for _, x := range needs {
		if p := c.view.Pool(x.ID); p != nil && d.pools[p] == nil && !c.mayDraw(p) {
			return true
		}
	}
	return false
}

// anyNode is what a task lacks that asks for nothing and finds no node.
const anyNode types.ResourceID = ""

func idsOf(needs []cluster.Need) []types.ResourceID {
	out := []types.ResourceID{anyNode}
	for _, x := range needs {
		out = append(out, x.ID)
	}
	return out
}

// candidates returns the nodes worth looking at: those that have the rarest of the
// ephemeral resources asked for; by names it. Else all nodes or, if the shape was
// tried before, those that have more of something since.
func (c *Core) candidates(d *Draft, s *shape, needs []cluster.Need) (nodes []*cluster.Node, by types.ResourceID) {
	for _, x := range needs {
		if by != "" && len(nodes) == 1 && nodes[0].Own[x.ID] != nil {
			continue // no rarer than that
		}
		at, limited := c.holders(d, x.ID)
		if limited && (by == "" || len(at) < len(nodes)) {
			nodes, by = at, x.ID
		}
	}
	if by != "" {
		return nodes, by
	}
	if len(needs) > 0 && s.seen >= c.base && len(s.resolved) < 2 {
		if since := c.changed[s.seen-c.base:]; len(since) < len(c.nodes)/2 {
			return since, ""
		}
	}
	return c.nodes, ""
}

// holders returns the nodes that may have some of rid; limited is false if any
// may.
func (c *Core) holders(d *Draft, rid types.ResourceID) (nodes []*cluster.Node, limited bool) {
	nodes, limited = c.limited(rid)
	switch more := d.offered[rid]; {
	case len(more) == 0 || !limited:
	case len(nodes) == 0:
		nodes = more
	default:
		nodes = append(append([]*cluster.Node(nil), nodes...), more...)
	}
	return nodes, limited
}

// limited is holders, but for what a draft brings.
func (c *Core) limited(rid types.ResourceID) (nodes []*cluster.Node, limited bool) {
	if rid.IsPlacement() {
		if name, ok := strings.CutPrefix(string(rid), "node/"); ok {
			if n := c.view.Nodes[name]; n != nil {
				return c.state(n).itself[:], true
			}
			return nil, true
		}
		return c.labelled[rid], true
	}
	if rid.Physical() || c.view.Pool(rid) != nil || c.view.Everywhere[rid] != nil {
		return nil, false
	}
	return c.view.At(rid), true
}
