package scheduler

import (
	"github.com/escher-sched/escher/controlplane/cluster"
	"github.com/escher-sched/escher/controlplane/match"
	"github.com/escher-sched/escher/scheduler/draft"
	"github.com/escher-sched/escher/types"
)

// scan is search.over for all nodes, by the index alone: only the chosen node is evaluated, later.
// It begins with this scheduler's part of the nodes.
func (c *Core) scan(s *search, asks []match.Ask, filters []match.Filter, start int) int {
	enough := enoughFound
	if len(c.nodes) <= lookAtAll {
		enough = len(c.nodes)
	}
	from, to := c.part()
	start = min(max(start, from), to)
	for i, part := range [][2]int{{start, to}, {from, start}, {to, len(c.nodes)}, {0, from}} {
		if i == 2 && s.found > 0 {
			break // other schedulers place there
		}
		for at := match.Next(filters, part[0], part[1]); at < part[1]; at = match.Next(filters, at+1, part[1]) {
			n := c.nodes[at]
			if c.index.Locked(at) || len(c.accum.kept) > 0 && c.closed(n) {
				s.skipped = true
				continue
			}
			before := s.best
			if s.consider(n, s.scored(c.index.Score(asks, at))); s.best != before {
				s.bestAt = at
			}
			if s.found >= enough {
				return s.goOn(at + 1)
			}
		}
	}
	return s.goOn(start)
}

// note updates the index with the free amounts of a node, as the draft leaves it or, if that is
// nil, as stored.
func (c *Core) note(d *draft.Draft, n *cluster.Node) {
	if d == nil {
		d = c.blank
	}
	if place := c.state(n).pos; place >= 0 {
		r := d.RoomOn(n)
		c.index.SetAll(place, &r)
	}
}

// noteOf is note for one resource.
func (c *Core) noteOf(d *draft.Draft, n *cluster.Node, rid types.ResourceID) {
	if place := c.state(n).pos; place >= 0 && c.index.Has(rid) {
		r := d.RoomOn(n)
		c.index.Set(place, rid, &r)
	}
}
