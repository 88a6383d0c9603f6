package scheduler

import (
	"strings"

	"github.com/escher-sched/escher/controlplane/cluster"
	"github.com/escher-sched/escher/controlplane/match"
	"github.com/escher-sched/escher/scheduler/draft"
	"github.com/escher-sched/escher/scheduler/grants"
	"github.com/escher-sched/escher/scheduler/queue"
	"github.com/escher-sched/escher/types"
)

// solo is the number of conflicts after which a task is sent alone, so that its churn does not fail
// the batches of others.
const solo = 2

// outcome is the result of a try to place the head of a shape.
type outcome int

const (
	placed  outcome = iota
	noFit           // nowhere: it waits
	stalled         // nodes or pools that might fit are in flight
	full            // the draft has no space: try in the next one
)

// placeWaiting fills the draft with waiting entries: in queue order, except for a few placed next
// to others.
func (c *Core) placeWaiting(d *Transaction) { c.placeUntil(d, nil) }

// placeUntil is placeWaiting for the entries before limit; nil means no limit.
func (c *Core) placeUntil(d *Transaction, limit *queue.Entry) {
	for !d.closed && len(d.entries)-d.Bundles() < c.batch {
		s := c.queue.First()
		if s == nil {
			return
		}
		e := s.Head()
		if limit != nil && !e.Before(limit) {
			return
		}
		alone := e.Conflicts >= solo
		if alone && !d.Empty() {
			c.first = true
			return
		}
		switch c.try(d, s) {
		case placed:
			d.closed = d.closed || alone
			if limit == nil {
				c.placeBeside(d, e.Priority)
			}
		case full:
			c.first = true
			return
		}
	}
}

// try places the head of a ready shape, or makes the shape wait.
func (c *Core) try(d *Transaction, s *queue.Shape) outcome {
	d.last = nil
	e := s.Head()
	result, lacks := c.placeHead(d, s, e)
	switch result {
	case placed:
		c.queue.Take(e)
		d.entries = append(d.entries, e)
		c.wakeOffered(d)
	case noFit:
		c.queue.Rest(s)
		c.queue.Wait(s, lacks)
		c.restWaiting(s)
	case stalled:
		c.queue.Rest(s)
		c.queue.Stall(s)
	}
	return result
}

// wakeOffered wakes entries that wait for capacity that the draft adds, so that the same
// transaction can place them.
func (c *Core) wakeOffered(d *Transaction) {
	for _, rid := range d.NewlyOffered() {
		c.forgetSeen(rid)
		c.queue.Wake(rid)
	}
}

func (c *Core) placeHead(d *Transaction, s *queue.Shape, e *queue.Entry) (outcome, []types.ResourceID) {
	c.deciding = e
	if c.view.UnreadNamespace(e.ID.Namespace) {
		return noFit, nil // until that changes, which makes the whole namespace ready
	}
	if e.Reservation {
		return c.placeBundles(d, s, c.view.Reservations[e.ID])
	}
	return c.placeTask(d, s, c.view.Task(e.ID))
}

// placeTask places a task if it fits anywhere.
func (c *Core) placeTask(d *Transaction, s *queue.Shape, t *cluster.Task) (outcome, []types.ResourceID) {
	if t.Info.V.Accumulate && d.Has(t) {
		return stalled, nil // the draft collects for it
	}
	if r := CollectedBy(c.view, t); r != nil {
		return c.placeClaimant(d, s, r, t)
	}
	return c.placeAnew(d, s, t)
}

// placeAnew tries the currently allowed alternatives of a task, in order.
func (c *Core) placeAnew(d *Transaction, s *queue.Shape, t *cluster.Task) (outcome, []types.ResourceID) {
	var lacks []types.ResourceID
	inFlight := false
	for i, needs := range c.needsOf(s, t) {
		if at := grants.AllowedAt(t.Info.V, i); at > c.now.UnixNano() {
			c.queue.WakeAt(s, at)
			continue
		}
		n, short, skipped := c.find(d.Draft, s, needs)
		if n != nil {
			if d.Bind(t, n, i, needs, c.now) {
				d.last = n
				return placed, nil
			}
			if d.Empty() {
				// It exceeds a transaction. It may rely on fewer keys later.
				return noFit, grants.IDs(needs)
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
			short = grants.IDs(needs) // what it lacks may have been collected, and then it lacks the rest
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

// needsOf returns the needs of each alternative of the tasks of a shape.
func (c *Core) needsOf(s *queue.Shape, t *cluster.Task) [][]cluster.Need {
	at := int64(0)
	if ns := c.view.Namespaces[t.ID.Namespace]; ns != nil {
		at = ns.Mod
	}
	if s.Resolved == nil || s.ResolvedAt != at {
		s.Resolved, s.ResolvedAt = grants.Vectors(c.view, t), at
	}
	return s.Resolved
}

// find returns a node for needs, or the resources to wait for. It returns an avoided node only if
// no other fits. skipped reports whether a node or pool in flight might fit.
func (c *Core) find(d *draft.Draft, s *queue.Shape, needs []cluster.Need) (n *cluster.Node, lacks []types.ResourceID, skipped bool) {
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

// findOne is find without avoided nodes.
func (c *Core) findOne(d *draft.Draft, s *queue.Shape, needs []cluster.Need) (n *cluster.Node, lacks []types.ResourceID, skipped bool) {
	if c.poolInFlight(d, needs) {
		return nil, nil, true
	}
	if short, ok := d.PoolShort(needs); ok {
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
		start := s.Cursor % len(candidates)
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
			s.Cursor = end // the next task with the same request has capacity there
		}
	}
	if look.best != nil {
		return look.best, nil, false
	}
	if !look.skipped {
		s.Seen = c.base + len(c.changed)
	}
	if by != "" && !passed && look.shortOf == look.seen {
		return nil, []types.ResourceID{by}, look.skipped
	}
	return nil, grants.IDs(needs), look.skipped
}

// findAnywhere searches all nodes. It checks the result of the index, and corrects the index if
// that was wrong.
func (c *Core) findAnywhere(look *search, s *queue.Shape, filters []match.Filter) {
	if len(c.nodes) == 0 {
		return
	}
	if c.cfg.Placement == Pack {
		s.Cursor = c.findFrom(s.Cursor%len(c.nodes), look, filters)
		return
	}
	end := c.findFrom(c.window.cursor%len(c.nodes), look, filters)
	if shares := c.shares(); shares == 1 || c.window.full(shares) {
		c.window.cursor = end
	}
}

// findFrom is findAnywhere from a position, and returns where the next search begins.
func (c *Core) findFrom(start int, look *search, filters []match.Filter) int {
	var some [8]match.Ask
	if asks, ok := c.index.Asks(look.needs, some[:0]); ok {
		fresh := *look
		for range enoughFound {
			end := c.scan(look, asks, filters, start)
			if look.best == nil {
				return end
			}
			if _, ok := look.draft.Fits(look.best, look.needs); ok {
				return end
			}
			c.note(look.draft, look.best)
			*look = fresh
		}
	}
	return look.over(c.nodes, start, func(from, end int) int { return match.Next(filters, from, end) })
}

// window is where the next search of all nodes begins: after the nodes found by the last search of
// any shape, so that the nodes take turns. While more tasks are ready than there are nodes, each
// node gets several. Several searches then begin at the same position, because tasks of one
// transaction on one node cost the store less.
type window struct {
	cursor int
	// found counts the searches that began at cursor.
	found int
}

// full counts a search, and reports whether the next one begins elsewhere.
func (w *window) full(shares int) bool {
	w.found++
	if w.found < shares*enoughFound {
		return false
	}
	w.found = 0
	return true
}

// mostShares bounds the average number of tasks that a node gets in one transaction.
const mostShares = 4

// shares returns how many tasks of one transaction a node gets: the ready tasks per node of this
// scheduler's part.
func (c *Core) shares() int {
	from, to := c.part()
	return min(mostShares, max(1, c.queue.ToPlace()/max(1, to-from)))
}

// passes reports whether the index has enough of everything on n.
func (c *Core) passes(filters []match.Filter, n *cluster.Node) bool {
	pos := c.state(n).pos
	return pos >= 0 && match.Passes(filters, pos)
}

// poolInFlight reports whether needs draw on pools in flight that the draft cannot draw on.
func (c *Core) poolInFlight(d *draft.Draft, needs []cluster.Need) bool {
	if len(c.drawing) == 0 {
		return false
	}
	for _, x := range needs {
		if p := c.view.Pool(x.ID); p != nil && !d.Considers(p) && !c.mayDraw(p) {
			return true
		}
	}
	return false
}

// candidates returns the nodes worth visiting. These are the nodes with the rarest requested
// ephemeral resource, which by names. Otherwise they are all nodes, or, for a shape tried before,
// those that have gained capacity since.
func (c *Core) candidates(d *draft.Draft, s *queue.Shape, needs []cluster.Need) (nodes []*cluster.Node, by types.ResourceID) {
	for _, x := range needs {
		if by != "" && len(nodes) == 1 && nodes[0].Own[x.ID] != nil {
			continue // no resource is rarer
		}
		at, limited := c.holders(d, x.ID)
		if limited && (by == "" || len(at) < len(nodes)) {
			nodes, by = at, x.ID
		}
	}
	if by != "" {
		return nodes, by
	}
	if len(needs) > 0 && s.Seen >= c.base && len(s.Resolved) < 2 {
		if since := c.changed[s.Seen-c.base:]; len(since) < len(c.nodes)/2 {
			return since, ""
		}
	}
	return c.nodes, ""
}

// holders returns the nodes that may have some of rid; limited is false if any node may.
func (c *Core) holders(d *draft.Draft, rid types.ResourceID) (nodes []*cluster.Node, limited bool) {
	nodes, limited = c.limited(rid)
	switch more := d.OfferedOn(rid); {
	case len(more) == 0 || !limited:
	case len(nodes) == 0:
		nodes = more
	default:
		nodes = append(append([]*cluster.Node(nil), nodes...), more...)
	}
	return nodes, limited
}

// limited is holders without the capacity that a draft adds.
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
