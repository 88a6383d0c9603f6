package scheduler

import (
	"github.com/escher-sched/escher/controlplane/cluster"
	"github.com/escher-sched/escher/types"
)

// ask is a need that the index can tell all about.
type ask struct {
	*column
	amount types.Quantity
}

// asksOf returns needs as the index has them; ok is false if it does not tell all that
// counts: some are not physical, or devices are to be near to one another, or not any.
func (x *index) asksOf(needs []cluster.Need, out []ask) (asks []ask, ok bool) {
	for _, need := range needs {
		c := x.column(need.ID)
		if c == nil || c.devices && need.Amount > whole || need.Devices != nil {
			return nil, false
		}
		out = append(out, ask{c, need.Amount})
	}
	return out, len(needs) > 0
}

// scan is over, of all nodes, by the index alone: neither a node that is too full nor one
// that fits is looked at, but the one taken in the end. It begins with this scheduler's
// part of them.
func (c *Core) scan(s *search, asks []ask, filters []filter, start int) int {
	enough := enoughFound
	if len(c.nodes) <= lookAtAll {
		enough = len(c.nodes)
	}
	from, to := c.part()
	start = min(max(start, from), to)
	for i, part := range [][2]int{{start, to}, {from, start}, {to, len(c.nodes)}, {0, from}} {
		if i == 2 && s.found > 0 {
			break // others are at work there
		}
		for at := next(filters, part[0], part[1]); at < part[1]; at = next(filters, at+1, part[1]) {
			n := c.nodes[at]
			if c.index.locked[at] || len(c.accum.kept) > 0 && c.closed(n) {
				s.skipped = true
				continue
			}
			before := s.best
			if s.consider(n, s.meritBy(c.index.load(asks, at))); s.best != before {
				s.bestAt = at
			}
			if s.found >= enough {
				return s.goOn(at + 1)
			}
		}
	}
	return s.goOn(start)
}

// load is Draft.load of the node at a place.
func (x *index) load(asks []ask, at int) float64 {
	var most float64
	for _, a := range asks {
		if capacity := a.capacity[at]; capacity > 0 && capacity != types.Inf {
			most = max(most, float64(capacity-a.column.amount.free[at]+a.amount)/float64(capacity))
		}
	}
	return most + float64(x.tasks[at])/(1<<20)
}
