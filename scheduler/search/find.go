package search

import (
	"strings"

	"github.com/escher-sched/escher/controlplane/cluster"
	"github.com/escher-sched/escher/controlplane/grants"
	"github.com/escher-sched/escher/controlplane/match"
	"github.com/escher-sched/escher/scheduler/draft"
	"github.com/escher-sched/escher/scheduler/queue"
	"github.com/escher-sched/escher/types"
)

// Find returns a node for needs, or the resources to wait for. It returns an avoided node only if
// no other fits. skipped reports whether a node or pool in flight might fit.
func (all *Nodes) Find(d *draft.Draft, s *queue.Shape, needs []cluster.Need) (n *cluster.Node, lacks []types.ResourceID, skipped bool) {
	if len(all.avoided) == 0 {
		return all.findOne(d, s, needs)
	}
	all.Keep(all.avoided)
	n, lacks, skipped = all.findOne(d, s, needs)
	if all.Unkeep(all.avoided); n == nil && skipped {
		return all.findOne(d, s, needs)
	}
	return n, lacks, skipped
}

// findOne is find without avoided nodes.
func (all *Nodes) findOne(d *draft.Draft, s *queue.Shape, needs []cluster.Need) (n *cluster.Node, lacks []types.ResourceID, skipped bool) {
	if all.cfg.PoolInFlight(d, needs) {
		return nil, nil, true
	}
	if short, ok := d.PoolShort(needs); ok {
		return nil, []types.ResourceID{short}, false
	}
	look := lookup{all: all, draft: d, needs: needs, rng: all.cfg.Rng, choice: all.cfg.Choice.of(needs)}
	look.bestFit = look.choice == Pack && wantsDevices(needs)
	candidates, by := all.candidates(d, s, needs)
	var some [8]match.Filter
	filters := all.index.Filters(needs, some[:0])
	passed := false
	if by == "" && len(candidates) == len(all.list) {
		all.findAnywhere(&look, s, filters)
	} else if len(candidates) > 0 {
		look.by = by
		start := s.Cursor % len(candidates)
		if !by.Scoped() {
			start = all.cfg.Rng.IntN(len(candidates))
		}
		end := look.over(candidates, partsOf(len(candidates), 0, len(candidates), start), func(from, end int) int {
			for ; from < end && !all.passes(filters, candidates[from]); from++ {
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
		s.Seen = all.base + len(all.changed)
	}
	if by != "" && !passed && look.shortOf == look.seen {
		return nil, []types.ResourceID{by}, look.skipped
	}
	return nil, grants.IDs(needs), look.skipped
}

// findAnywhere searches all nodes. It checks the result of the index, and corrects the index if
// that was wrong.
func (all *Nodes) findAnywhere(look *lookup, s *queue.Shape, filters []match.Filter) {
	if len(all.list) == 0 {
		return
	}
	if look.choice == Pack {
		s.Cursor = all.findFrom(s.Cursor%len(all.list), look, filters)
		return
	}
	end := all.findFrom(all.window.cursor%len(all.list), look, filters)
	if shares := all.shares(); shares == 1 || all.window.full(shares) {
		all.window.cursor = end
	}
}

// findFrom is findAnywhere from a position, and returns where the next search begins.
func (all *Nodes) findFrom(start int, look *lookup, filters []match.Filter) int {
	from, to := all.cfg.Part()
	in := partsOf(len(all.list), from, to, start)
	var some [8]match.Ask
	if asks, ok := all.index.Asks(look.needs, some[:0]); ok {
		fresh := *look
		for range enoughFound {
			end := all.scan(look, asks, filters, in)
			if look.best == nil {
				return end
			}
			if _, ok := look.draft.Fits(look.best, look.needs); ok {
				return end
			}
			all.Note(look.draft, look.best)
			*look = fresh
		}
	}
	return look.over(all.list, in, func(from, end int) int { return match.Next(filters, from, end) })
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
func (all *Nodes) shares() int {
	from, to := all.cfg.Part()
	return min(mostShares, max(1, all.cfg.ToPlace()/max(1, to-from)))
}

// passes reports whether the index has enough of everything on n.
func (all *Nodes) passes(filters []match.Filter, n *cluster.Node) bool {
	pos := all.state(n).pos
	return pos >= 0 && match.Passes(filters, pos)
}

// candidates returns the nodes worth visiting. These are the nodes with the rarest requested
// ephemeral resource, which by names. Otherwise they are all nodes, or, for a shape tried before,
// those that have gained capacity since.
func (all *Nodes) candidates(d *draft.Draft, s *queue.Shape, needs []cluster.Need) (nodes []*cluster.Node, by types.ResourceID) {
	for _, x := range needs {
		if by != "" && len(nodes) == 1 && nodes[0].Own[x.ID] != nil {
			continue // no resource is rarer
		}
		at, limited := all.holders(d, x.ID)
		if limited && (by == "" || len(at) < len(nodes)) {
			nodes, by = at, x.ID
		}
	}
	if by != "" {
		return nodes, by
	}
	if len(needs) > 0 && s.Seen >= all.base && len(s.Resolved) < 2 {
		if since := all.changed[s.Seen-all.base:]; len(since) < len(all.list)/2 {
			return since, ""
		}
	}
	return all.list, ""
}

// holders returns the nodes that may have some of rid; limited is false if any node may.
func (all *Nodes) holders(d *draft.Draft, rid types.ResourceID) (nodes []*cluster.Node, limited bool) {
	nodes, limited = all.limited(rid)
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
func (all *Nodes) limited(rid types.ResourceID) (nodes []*cluster.Node, limited bool) {
	if rid.IsPlacement() {
		if name, ok := strings.CutPrefix(string(rid), "node/"); ok {
			if n := all.view.Nodes[name]; n != nil {
				return all.state(n).itself[:], true
			}
			return nil, true
		}
		return all.labelled[rid], true
	}
	if rid.Physical() || all.view.Pool(rid) != nil || all.view.Everywhere[rid] != nil {
		return nil, false
	}
	return all.view.At(rid), true
}
