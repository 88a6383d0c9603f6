package ahead

import (
	"time"

	"github.com/escher-sched/escher/controlplane/cluster"
	"github.com/escher-sched/escher/esl"
	"github.com/escher-sched/escher/types"
)

// The choice of nodes for what begins at a later time.

// A candidate is a node at three times: now, when all tasks have ended that end before the reservation
// begins, and when all have. late is how many end later, as far as is known.
type candidate struct {
	rooms [3]*esl.Room
	late  int
}

// soonest returns a node for each bundle, on which it fits the soonest; nil if there is none for one of them.
// Of the nodes on which it does not fit before at, it is the one on which the fewest tasks end later.
func soonest(s *esl.State, bundles []types.Bundle, at time.Time) (on []string) {
	var all []candidate
	for _, room := range s.Rooms() {
		c := candidate{rooms: [3]*esl.Room{room.Clone(), room.Clone(), room.Clone()}}
		for _, b := range room.Node.Bindings {
			if b.Info.V == nil {
				continue
			}
			holds := own(b)
			c.rooms[2].Return(holds)
			if b.Info.V.MaxRun > 0 && b.Info.V.Bound+int64(b.Info.V.MaxRun) <= at.UnixNano() {
				c.rooms[1].Return(holds)
			} else {
				c.late++
			}
		}
		all = append(all, c)
	}
	for _, b := range bundles {
		needs := s.View.BundleNeeds(s.Namespace, b.Requests, b.Devices...)
		best, when := -1, 0
		for i := range all {
			if b.Node != "" && all[i].rooms[0].Node.Name != b.Node {
				continue
			}
			if t := all[i].fits(needs); t < len(all[i].rooms) && (best < 0 || t < when || t == when && t == 2 && all[i].late < all[best].late) {
				best, when = i, t
			}
		}
		if best < 0 {
			return nil
		}
		for _, room := range all[best].rooms {
			room.Take(needs)
		}
		on = append(on, all[best].rooms[0].Node.Name)
	}
	return on
}

// fits returns the first of the times at which needs fit.
func (c *candidate) fits(needs []cluster.Need) (t int) {
	for t < len(c.rooms) && !c.rooms[t].Fits(needs) {
		t++
	}
	return t
}

// own returns what the end of an attempt frees on its node: not what a reservation keeps.
func own(b *cluster.Binding) (out []types.Holding) {
	for _, h := range b.Info.V.Holds {
		if !h.Cluster && !h.Resource.Scoped() {
			out = append(out, h)
		}
	}
	return out
}
