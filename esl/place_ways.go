package esl

import (
	"slices"
	"time"

	"github.com/escher-sched/escher/controlplane/cluster"
	"github.com/escher-sched/escher/types"
)

// ways are what a task may have of its node: one of these, the best first, a single one
// unless it has alternatives.
type ways struct {
	// open are those that it may take now, all also those that it may take later.
	open, all [][]cluster.Need
}

// ways returns those of a task, each without what needs leaves out. One that asks for
// something that is nowhere is none at present; if all do, they are left aside.
func (s *State) ways(t *cluster.Task, own string) ways {
	v := t.Info.V
	if len(v.Alternatives) == 0 {
		one := [][]cluster.Need{s.needs(v.Job, v.Requests, v.Devices, own)}
		return ways{open: one, all: one}
	}
	var out ways
	for _, a := range v.Alternatives {
		if !s.known(a.Requests) {
			continue
		}
		needs := s.needs(v.Job, v.Requests.Plus(a.Requests), v.Devices, own)
		out.all = append(out.all, needs)
		if s.isOpen(t, a) {
			out.open = append(out.open, needs)
		}
	}
	if len(out.all) == 0 {
		out.all = [][]cluster.Need{s.needs(v.Job, v.Requests, v.Devices, own)}
		out.open = out.all
	}
	return out
}

// known reports whether there is some of all that is asked for, on a node or in a pool.
func (s *State) known(requests types.Requests) bool {
	return !slices.ContainsFunc(requests, func(x types.Request) bool {
		id := types.Resolve(s.Namespace, x.Name).Unscoped()
		return !id.Physical() && s.View.Pool(id) == nil && !s.somewhere(id)
	})
}

// isOpen reports whether a task may take an alternative by now.
func (s *State) isOpen(t *cluster.Task, a types.Alternative) bool {
	return !s.opening(t, a).After(s.Now)
}

// opening is when a task may take an alternative.
func (s *State) opening(t *cluster.Task, a types.Alternative) time.Time {
	return time.Unix(0, t.Info.V.Submitted).Add(a.After)
}

// openWays returns how many alternatives a task may take by now, and nextWay when it may
// take another one; zero: never.
func (s *State) openWays(t *cluster.Task) (n int) {
	for _, a := range t.Info.V.Alternatives {
		n += boolInt(s.isOpen(t, a))
	}
	return n
}

func (s *State) nextWay(t *cluster.Task) (next time.Time) {
	for _, a := range t.Info.V.Alternatives {
		if !s.isOpen(t, a) {
			next = earliest(next, s.opening(t, a))
		}
	}
	return next
}

// fit returns the first of the ways in which a task fits in a room.
func (w ways) fit(r *Room) (needs []cluster.Need, ok bool) {
	for _, needs := range w.open {
		if r.Fits(needs) {
			return needs, true
		}
	}
	return nil, false
}

// fits reports whether a task fits in a room in some way.
func (w ways) fits(r *Room) bool {
	_, ok := w.fit(r)
	return ok
}

// large reports whether a node would do in some way, be it later, if nothing else were
// there.
func (w ways) large(r *Room) bool { return slices.ContainsFunc(w.all, r.Large) }

// put takes rooms for what waits of a crowd, for at most so many tasks, and tells have for
// how many in which room, and in which of their ways. The best ways come first, in all
// rooms, which are in order.
func (c crowd) put(rooms []*Room, most int, have func(r *Room, n, way int)) {
	left, ways := make([]int, len(c.shapes)), 0
	for i, x := range c.shapes {
		left[i], ways = x.waiting, max(ways, len(x.open))
	}
	for way := range ways {
		for _, r := range rooms {
			for i, x := range c.shapes {
				switch {
				case most <= 0:
					return
				case way >= len(x.open):
					continue
				}
				if n := r.Put(x.open[way], min(left[i], most/x.unit)); n > 0 {
					left[i] -= n
					most -= n * x.unit
					have(r, n*x.unit, way)
				}
			}
		}
	}
}
