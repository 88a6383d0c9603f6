package collect

import (
	"slices"
	"strings"

	"github.com/escher-sched/escher/controlplane/cluster"
	"github.com/escher-sched/escher/controlplane/grants"
	"github.com/escher-sched/escher/types"
)

// A claimant ends its collection if a reservation of its namespace that its maker directs, for
// waiting tasks of higher priority, could collect it: otherwise both would wait. While that
// reservation lacks capacity, no claimant begins on it: otherwise it would take and return the same
// capacity forever.

func compare(a, b string) int { return strings.Compare(a, b) }

// eachDirected calls f for the reservations that their makers direct, and forgets outdated ones.
func (s *State) eachDirected(v *cluster.View, f func(*cluster.Reservation)) {
	for id := range s.directed {
		switch r := v.Reservations[id]; {
		case r == nil || r.Info.V == nil || !r.Info.V.Directed():
			delete(s.directed, id)
		case grants.IsDirected(r):
			f(r)
		}
	}
}

// roomIsMade reports whether a reservation collects for the job of x, where its maker directs it. x
// then waits for it and does not collect itself.
func (s *State) roomIsMade(v *cluster.View, x claimant) (made bool) {
	if job := x.job(); job != "" {
		s.eachDirected(v, func(r *cluster.Reservation) {
			made = made || r.ID.Namespace == x.ID.Namespace && r.Info.V.Job == job
		})
	}
	return made
}

// above returns the reservations that their makers direct, for waiting tasks of the namespace of x
// with higher priority.
func (s *State) above(v *cluster.View, x claimant) (out []*cluster.Reservation) {
	s.eachDirected(v, func(r *cluster.Reservation) {
		if r.ID.Namespace == x.ID.Namespace && r.Info.V.HandsOver() && r.Info.V.Priority > x.priority() && r.Current() {
			out = append(out, r)
		}
	})
	return out
}

// givesWay reports whether x holds capacity that a reservation above it lacks.
func (s *State) givesWay(v *cluster.View, x claimant) bool {
	if x.Grant.V == nil {
		return false
	}
	return slices.ContainsFunc(s.above(v, x), func(r *cluster.Reservation) bool {
		g := r.Grant.V
		return slices.ContainsFunc(g.Nodes, func(at types.GrantNode) bool {
			return slices.ContainsFunc(grants.WantedOn(v, r, g, at.Node), func(w grants.Want) bool {
				return grants.HeldOf(at.Holds, w.ID) < w.Sum() && grants.HoldsAt(v, x.Grant.V, at.Node, w.ID)
			})
		})
	})
}

// overdrawn reports whether more of a cluster-wide resource is in use than it has, and x requests it: its
// maker has lowered it. What is collected of it is not needed yet, so it returns first; running tasks keep
// theirs.
func overdrawn(v *cluster.View, x claimant) bool {
	for _, b := range grants.BundleOrder(v, x.Reservation) {
		if slices.ContainsFunc(b.Needs, func(need cluster.Need) bool {
			p := v.Pool(need.ID)
			return p != nil && p.Free() < 0
		}) {
			return true
		}
	}
	return false
}

// shortage is a resource lacking on a node; "" stands for the whole cluster.
type shortage struct {
	node string
	id   types.ResourceID
}

// lackedAbove returns what the reservations above x lack: x must not begin on those.
func (s *State) lackedAbove(v *cluster.View, x claimant) map[shortage]bool {
	out := make(map[shortage]bool)
	for _, r := range s.above(v, x) {
		for _, at := range r.Grant.V.Nodes {
			for _, w := range grants.WantedOn(v, r, r.Grant.V, at.Node) {
				if grants.HeldOf(at.Holds, w.ID) >= w.Sum() {
					continue
				}
				if v.Pool(w.ID) != nil {
					out[shortage{"", w.ID}] = true
				} else {
					out[shortage{at.Node, w.ID}] = true
				}
			}
		}
	}
	return out
}

// anyLacked reports whether any of needs is lacking on a node, or cluster-wide.
func anyLacked(lacked map[shortage]bool, node string, needs []cluster.Need) bool {
	return len(lacked) > 0 && slices.ContainsFunc(needs, func(x cluster.Need) bool {
		return lacked[shortage{node, x.ID}] || lacked[shortage{"", x.ID}]
	})
}
