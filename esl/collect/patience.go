package collect

import (
	"slices"
	"time"

	"github.com/escher-sched/escher/controlplane/grants"
	"github.com/escher-sched/escher/types"
)

// progress is the course of the current collection.
type progress struct {
	of Subject
	// last is its grant as last seen. since is when it became so.
	last  *types.Grant
	since time.Time
	// left are the nodes it has left because they freed no more. round is the number of ended
	// attempts when the first of them was left. resting reports whether none has ended since.
	left    map[string]struct{}
	round   int
	resting bool
}

// follow notes the progress of the collection of x.
func (s *State) follow(x claimant, now time.Time) {
	g := x.Grant.V
	if s.of != x.key() || s.left == nil {
		s.progress = progress{of: x.key(), since: now, round: s.ended, left: make(map[string]struct{})}
	} else if g != s.last {
		s.since = now
	}
	s.last = g
}

// isStuck reports whether x should collect elsewhere: nothing has been freed for long, and no known
// end is ahead. It also schedules the next check.
func (s *State) isStuck(p *Plan, at *moment, x claimant) bool {
	if x.Grant.V == nil {
		p.again(s.since.Add(s.silence))
		return false
	}
	if s.resting && s.round == s.ended {
		return false
	}
	s.resting = false
	since := s.since
	if known := grants.Completion(at.v, x.Reservation, x.Grant.V); known.After(since) {
		since = known
	}
	due := since.Add(s.patience)
	if due.After(at.now) {
		p.again(due)
		return false
	}
	return true
}

// moveOn returns the nodes of x with others in place of the first that lacks something: the tasks
// there may never end. It avoids former nodes while there are others. If there is none, on stays as
// it is until an attempt ends somewhere.
func (s *State) moveOn(at *moment, x claimant, on []string) []string {
	s.since = at.now
	g := x.Grant.V
	i := slices.IndexFunc(g.Nodes, func(part types.GrantNode) bool {
		return slices.ContainsFunc(grants.WantedOn(at.v, x.Reservation, g, part.Node), func(w grants.Want) bool { return grants.HeldOf(part.Holds, w.ID) < w.Sum() })
	})
	if i < 0 {
		s.resting, s.round = true, s.ended
		return on
	}
	from := g.Nodes[i].Node
	s.left[from] = struct{}{}
	kept := slices.Clone(on)
	for b, name := range kept {
		if name == from {
			kept[b] = ""
		}
	}
	moved, all := s.assign(at.v, x, kept, s.left)
	if !all {
		clear(s.left)
		s.resting, s.round = s.round == s.ended, s.ended
		return on
	}
	return moved
}
