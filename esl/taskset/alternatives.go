package taskset

import (
	"slices"
	"time"

	"github.com/escher-sched/escher/controlplane/cluster"
	"github.com/escher-sched/escher/esl"
	"github.com/escher-sched/escher/types"
)

// Alternatives are the needs of each alternative of a task, the preferred ones first. A task
// without alternatives has one.
type Alternatives struct {
	// Open are the currently allowed alternatives; All includes later ones.
	Open, All [][]cluster.Need
}

// AlternativesOf returns the alternatives of a task, without the resources that needs omits. It
// skips an alternative with a resource that exists nowhere. If all have one, the result is the
// needs of the task without alternatives.
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

// known reports whether each requested resource exists, on a node or as a pool.
func known(s *esl.State, requests types.Requests) bool {
	return !slices.ContainsFunc(requests, func(x types.Request) bool {
		id := types.Resolve(s.Namespace, x.Name).Unscoped()
		return !id.Physical() && s.View.Pool(id) == nil && !Exists(s, id)
	})
}

// isOpen reports whether an alternative of a task is allowed by now.
func isOpen(s *esl.State, t *cluster.Task, a types.Alternative) bool {
	return !opening(s, t, a).After(s.Now)
}

// opening returns when an alternative of a task becomes allowed.
func opening(s *esl.State, t *cluster.Task, a types.Alternative) time.Time {
	return time.Unix(0, t.Info.V.Submitted).Add(a.After)
}

// openAlternatives returns the number of currently allowed alternatives of a task.
func openAlternatives(s *esl.State, t *cluster.Task) (n int) {
	for _, a := range t.Info.V.Alternatives {
		n += BoolInt(isOpen(s, t, a))
	}
	return n
}

// NextAlternative returns when another alternative becomes allowed; zero means never.
func NextAlternative(s *esl.State, t *cluster.Task) (next time.Time) {
	for _, a := range t.Info.V.Alternatives {
		if !isOpen(s, t, a) {
			next = Earliest(next, opening(s, t, a))
		}
	}
	return next
}

// Fit returns the first allowed alternative that fits in a room.
func (w Alternatives) Fit(r *esl.Room) (needs []cluster.Need, ok bool) {
	for _, needs := range w.Open {
		if r.Fits(needs) {
			return needs, true
		}
	}
	return nil, false
}

// Fits reports whether an allowed alternative fits in a room.
func (w Alternatives) Fits(r *esl.Room) bool {
	_, ok := w.Fit(r)
	return ok
}

// EverFits reports whether an alternative, possibly a later one, would fit on an empty node.
func (w Alternatives) EverFits(r *esl.Room) bool { return slices.ContainsFunc(w.All, r.EverFits) }

// Put allocates rooms, in their order, for waiting tasks of the set, at most the given number. It
// calls have with each room, the number of tasks there, and the index of their alternative. It
// tries preferred alternatives in all rooms before others.
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
