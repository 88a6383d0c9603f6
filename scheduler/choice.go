package scheduler

import (
	"math/rand/v2"

	"github.com/escher-sched/escher/controlplane/cluster"
	"github.com/escher-sched/escher/controlplane/match"
	"github.com/escher-sched/escher/types"
)

// Choosing among nodes that fit: enough of them are found, from a place that
// differs from search to search, and the best is taken: that costs the same however
// large the cluster is (the power of a few choices, Mitzenmacher 1996). In a small
// cluster all are looked at.
//
// The best is where several devices of one task are nearest to one another; among
// those, the least loaded or the fullest node, as Config.Placement says; among those,
// any: the seed decides, so that the same snapshot and seed give the same node.
const (
	lookAtAll   = 64
	enoughFound = 4
	// enoughPlaced is for the nodes of a rack or zone: bundle after bundle looks at them.
	enoughPlaced = 12
)

// Choice says which of the nodes that fit a task is bound to.
type Choice string

const (
	// Spread takes the least loaded node: what runs has room, and little is lost
	// with one node.
	Spread Choice = "spread"
	// Pack takes the fullest node: others stay empty for what is large. In a cluster
	// of more than 64 nodes it is the fullest of a few, and a node is filled before
	// others are looked at by tasks that ask for the same.
	Pack Choice = "pack"
)

// Validate returns what is wrong with the choice: Invalid.
func (c Choice) Validate() error {
	switch c {
	case "", Spread, Pack:
		return nil
	}
	return types.Errorf(types.Invalid, "placement: %q is unknown: give %s or %s", string(c), Spread, Pack)
}

// search looks for nodes for one shape.
type search struct {
	core   *Core
	draft  *Draft
	needs  []cluster.Need
	choice Choice
	rng    *rand.Rand

	best    *cluster.Node
	bestAt  int         // its place among the nodes looked at by over
	score   match.Score // of the best
	ties    int
	found   int
	skipped bool // a node in flight might have done
	// by is the resource that the nodes were picked by; shortOf counts those that
	// were looked at and do not have enough of it.
	by      types.ResourceID
	shortOf int
	seen    int
}

// over looks at nodes from the given start, around, and returns where the next search
// for the same is to begin: behind what was looked at, or, to pack, where it was placed.
// next passes over those that need not be looked at.
func (s *search) over(nodes []*cluster.Node, start int, next func(from, end int) int) int {
	enough := enoughFound
	switch {
	case s.by.Scoped():
		enough = 1 // that was chosen when it was reserved
	case len(nodes) > lookAtAll:
	case s.by.IsPlacement():
		enough = min(len(nodes), enoughPlaced)
	default:
		enough = len(nodes)
	}
	for _, part := range [][2]int{{start, len(nodes)}, {0, min(start, len(nodes))}} {
		for at := next(part[0], part[1]); at < part[1]; at = next(at+1, part[1]) {
			if before := s.best; s.look(nodes[at]) && s.best != before {
				s.bestAt = at
			}
			if s.found >= enough {
				return s.goOn(at + 1)
			}
		}
	}
	return s.goOn(start)
}

// goOn returns where the next search is to begin, if this one ended before at.
func (s *search) goOn(at int) int {
	if s.choice == Pack && s.best != nil {
		return s.bestAt
	}
	return at
}

// look takes one node into account, and reports whether it fits.
func (s *search) look(n *cluster.Node) bool {
	if !n.Eligible() {
		return false
	}
	if s.core.closed(n) {
		s.skipped = true
		return false
	}
	s.seen++
	r := s.draft.on(n)
	if short, ok := r.Short(s.needs); !ok {
		if short == s.by {
			s.shortOf++
		}
		return false
	}
	s.consider(n, s.scored(r.Score(s.needs)))
	return true
}

// consider takes a node into account that fits.
func (s *search) consider(n *cluster.Node, score match.Score) {
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

// scored is the score of a node by what is preferred.
func (s *search) scored(score match.Score) match.Score {
	if s.choice == Pack {
		score.Load = -score.Load
	}
	return score
}
