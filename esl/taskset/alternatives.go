package taskset

import (
	"slices"
	"time"

	"github.com/escher-sched/escher/controlplane/cluster"
	"github.com/escher-sched/escher/esl"
	"github.com/escher-sched/escher/types"
)

// Alternatives are what a task may have of its node: one of these, the best first, a single one
// unless it has alternatives.
type Alternatives struct {
	// open are those that it may take now, all also those that it may take later.
	Open, All [][]cluster.Need
}

// AlternativesOf returns those of a task, each without what needs leaves out. One that asks for
// something that is nowhere is none at present; if all do, they are left aside.
func AlternativesOf(s *esl.State, t *cluster.Task, own string) Alternatives {
	v := t.Info.V
	if len(v.Alternatives) == 0 {
		one := [][]cluster.Need{needs(s, v.Job, v.Requests, v.Devices, own)}
		return Alternatives{Open: one, All: one}
	}
	var out Alternatives
	for _, a := range v.Alternatives {
		if !known(s, a.Requests) {
			continue
		}
		needs := needs(s, v.Job, v.Requests.Plus(a.Requests), v.Devices, own)
		out.All = append(out.All, needs)
		if isOpen(s, t, a) {
			out.Open = append(out.Open, needs)
		}
	}
	if len(out.All) == 0 {
		out.All = [][]cluster.Need{needs(s, v.Job, v.Requests, v.Devices, own)}
		out.Open = out.All
	}
	return out
}

// known reports whether there is some of all that is asked for, on a node or in a pool.
func known(s *esl.State, requests types.Requests) bool {
	return !slices.ContainsFunc(requests, func(x types.Request) bool {
		id := types.Resolve(s.Namespace, x.Name).Unscoped()
		return !id.Physical() && s.View.Pool(id) == nil && !Exists(s, id)
	})
}

// isOpen reports whether a task may take an alternative by now.
func isOpen(s *esl.State, t *cluster.Task, a types.Alternative) bool {
	return !opening(s, t, a).After(s.Now)
}

// opening is when a task may take an alternative.
func opening(s *esl.State, t *cluster.Task, a types.Alternative) time.Time {
	return time.Unix(0, t.Info.V.Submitted).Add(a.After)
}

// openAlternatives returns how many alternatives a task may take by now, and nextWay when it may
// take another one; zero: never.
func openAlternatives(s *esl.State, t *cluster.Task) (n int) {
	for _, a := range t.Info.V.Alternatives {
		n += BoolInt(isOpen(s, t, a))
	}
	return n
}

func NextAlternative(s *esl.State, t *cluster.Task) (next time.Time) {
	for _, a := range t.Info.V.Alternatives {
		if !isOpen(s, t, a) {
			next = Earliest(next, opening(s, t, a))
		}
	}
	return next
}

// Fit returns the first of the ways in which a task fits in a room.
func (w Alternatives) Fit(r *esl.Room) (needs []cluster.Need, ok bool) {
	for _, needs := range w.Open {
		if r.Fits(needs) {
			return needs, true
		}
	}
	return nil, false
}

// Fits reports whether a task fits in a room in some way.
func (w Alternatives) Fits(r *esl.Room) bool {
	_, ok := w.Fit(r)
	return ok
}

// EverFits reports whether a task would fit on a node in some way, be it later, if nothing were in
// use there.
func (w Alternatives) EverFits(r *esl.Room) bool { return slices.ContainsFunc(w.All, r.EverFits) }

// Put takes rooms for what waits of a crowd, for at most so many tasks, and tells have for
// how many in which room, and in which of their ways. The best ways come first, in all
// rooms, which are in order.
func (c Set) Put(rooms []*esl.Room, most int, have func(r *esl.Room, n, way int)) {
	left, ways := make([]int, len(c.Shapes)), 0
	for i, x := range c.Shapes {
		left[i], ways = x.Waiting, max(ways, len(x.Open))
	}
	for way := range ways {
		for _, r := range rooms {
			for i, x := range c.Shapes {
				switch {
				case most <= 0:
					return
				case way >= len(x.Open):
					continue
				}
				if n := r.Put(x.Open[way], min(left[i], most/x.Unit)); n > 0 {
					left[i] -= n
					most -= n * x.Unit
					have(r, n*x.Unit, way)
				}
			}
		}
	}
}
