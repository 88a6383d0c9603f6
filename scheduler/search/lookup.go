package search

import (
	"math/rand/v2"
	"slices"

	"github.com/escher-sched/escher/controlplane/cluster"
	"github.com/escher-sched/escher/controlplane/match"
	"github.com/escher-sched/escher/scheduler/draft"
	"github.com/escher-sched/escher/types"
)

// A search stops after finding enough nodes that fit, starts at a varying position, and takes the
// best. That costs the same in clusters of any size (the power of a few choices, Mitzenmacher
// 1996). In a small cluster it covers all nodes.
//
// The best node has the devices of one task nearest to one another. Among equals it is the least
// loaded or the fullest node, as Config.Choice says. Among those the seed decides, so that the
// same snapshot and seed give the same node.
const (
	lookAtAll   = 64
	enoughFound = 4
	// enoughPacked is for the fullest node: most nodes that fit may be empty, and of four, all.
	enoughPacked = 64
	// enoughPlaced is for the nodes of a rack or zone, which every bundle searches.
	enoughPlaced = 12
)

// Choice selects among the nodes that fit a task.
type Choice string

const (
	// Spread takes the least loaded node: running tasks have spare capacity, and a lost node costs
	// little.
	Spread Choice = "spread"
	// Pack takes the fullest node, of devices the one with the fewest left: others stay empty for
	// large tasks. In a cluster of more than 64 nodes it is the fullest of the first 64 that fit. Tasks
	// with the same request fill one node before they try others.
	Pack Choice = "pack"
	// Auto packs what requests devices, and spreads the rest. Devices are few and whole: where they
	// are spread, no node has all of its devices free for a large task or a gang.
	Auto Choice = "auto"
)

// of returns the choice for needs.
func (c Choice) of(needs []cluster.Need) Choice {
	switch {
	case c == Spread || c == Pack:
		return c
	case wantsDevices(needs):
		return Pack
	}
	return Spread
}

func wantsDevices(needs []cluster.Need) bool {
	return slices.ContainsFunc(needs, func(x cluster.Need) bool { return x.ID.OfDevices() })
}

// Validate returns an Invalid error for an unknown choice.
func (c Choice) Validate() error {
	switch c {
	case "", Auto, Spread, Pack:
		return nil
	}
	return types.Errorf(types.Invalid, "placement: %q is unknown: give %s, %s or %s", string(c), Auto, Spread, Pack)
}

// lookup is a search for nodes for one shape.
type lookup struct {
	all    *Nodes
	draft  *draft.Draft
	needs  []cluster.Need
	choice Choice
	// best fit counts the devices that are left.
	bestFit bool
	rng     *rand.Rand

	best    *cluster.Node
	bestAt  int         // its index among the nodes passed to over
	score   match.Score // of best
	ties    int
	found   int
	skipped bool // a node in flight might have fit
	// by is the resource that preselected the nodes. shortOf counts the visited nodes that have too
	// little of it.
	by      types.ResourceID
	shortOf int
	seen    int
}

// parts are the ranges of the nodes in the order of a search: those of one's own part from start,
// around, and then the others.
type parts [4][2]int

// partsOf returns the ranges of n nodes, of which from to to are one's own.
func partsOf(n, from, to, start int) parts {
	start = min(max(start, from), to)
	return parts{{start, to}, {from, start}, {to, n}, {0, from}}
}

// foreign reports whether a range is of the nodes on which other schedulers place.
func foreign(i int) bool { return i >= 2 }

// over visits nodes in parts, and returns where the next search for the same shape begins: after the
// last visited node, or, with Pack, at the chosen one. next skips nodes that cannot fit.
func (s *lookup) over(nodes []*cluster.Node, in parts, next func(from, end int) int) int {
	enough := s.enough()
	switch {
	case s.by.Scoped():
		enough = 1 // the node was chosen with the reservation
	case len(nodes) > lookAtAll:
	case s.by.IsPlacement():
		enough = min(len(nodes), max(enough, enoughPlaced))
	default:
		enough = len(nodes)
	}
	for i, part := range in {
		if foreign(i) && s.found > 0 {
			break
		}
		for at := next(part[0], part[1]); at < part[1]; at = next(at+1, part[1]) {
			if before := s.best; s.look(nodes[at]) && s.best != before {
				s.bestAt = at
			}
			if s.found >= enough {
				return s.goOn(at + 1)
			}
		}
	}
	return s.goOn(in[0][0])
}

// goOn returns where the next search begins if this one ended before at.
func (s *lookup) goOn(at int) int {
	if s.choice == Pack && s.best != nil {
		return s.bestAt
	}
	return at
}

// enough is how many nodes that fit are compared in a large cluster.
func (s *lookup) enough() int {
	if s.choice == Pack {
		return enoughPacked
	}
	return enoughFound
}

// look considers one node and reports whether it fits.
func (s *lookup) look(n *cluster.Node) bool {
	if !n.Eligible() {
		return false
	}
	if s.all.Closed(n) {
		s.skipped = true
		return false
	}
	s.seen++
	r := s.draft.RoomOn(n)
	if short, ok := r.Short(s.needs); !ok {
		if short == s.by {
			s.shortOf++
		}
		return false
	}
	if s.bestFit {
		s.consider(n, r.Left(s.needs))
	} else {
		s.consider(n, s.scored(r.Score(s.needs)))
	}
	return true
}

// consider compares a node that fits with the best one.
func (s *lookup) consider(n *cluster.Node, score match.Score) {
	s.found++
	switch {
	case s.best == nil || score.Better(s.score):
		s.best, s.score, s.ties = n, score, 1
	case !s.score.Better(score):
		if s.ties++; s.rng.IntN(s.ties) == 0 {
			s.best = n
		}
	}
}

// scored adapts the score of a node to the placement choice.
func (s *lookup) scored(score match.Score) match.Score {
	if s.choice == Pack {
		score.Load = -score.Load
	}
	return score
}

// scan is lookup.over for all nodes, by the index alone: only the chosen node is evaluated, later.
// It begins with this scheduler's part of the nodes.
func (all *Nodes) scan(s *lookup, asks []match.Ask, filters []match.Filter, in parts) int {
	enough := s.enough()
	if len(all.list) <= lookAtAll {
		enough = len(all.list)
	}
	for i, part := range in {
		if foreign(i) && s.found > 0 {
			break
		}
		for at := match.Next(filters, part[0], part[1]); at < part[1]; at = match.Next(filters, at+1, part[1]) {
			n := all.list[at]
			if all.index.Locked(at) || len(all.kept) > 0 && all.Closed(n) {
				s.skipped = true
				continue
			}
			before := s.best
			if s.bestFit {
				s.consider(n, all.index.Left(asks, at))
			} else {
				s.consider(n, s.scored(all.index.Score(asks, at)))
			}
			if s.best != before {
				s.bestAt = at
			}
			if s.found >= enough {
				return s.goOn(at + 1)
			}
		}
	}
	return s.goOn(in[0][0])
}
