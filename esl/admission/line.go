package admission

import (
	"cmp"
	"slices"
	"strings"
	"time"

	"github.com/escher-sched/escher/controlplane"
	"github.com/escher-sched/escher/controlplane/cluster"
	"github.com/escher-sched/escher/controlplane/why"
	"github.com/escher-sched/escher/esl"
	"github.com/escher-sched/escher/esl/taskset"
	"github.com/escher-sched/escher/types"
)

// letIn is how long an admitted task may take to begin while others wait. Then its gate closes
// again, and it queues behind those that have waited meanwhile.
const letIn = time.Minute

// A unit is gates that open all or none: the gate of a task, or those of tasks that draw on one
// reservation.
type unit []gate

// gates are the gates of a queue by their state.
type gates struct {
	// waiting are the units to open, in turn. The first begun of them are partly open, and are
	// finished before any other.
	waiting []unit
	begun   int
	// closing are the partly open units whose other gates were closed again.
	closing []unit
	// entering are admitted, and have not begun; ended are open and no longer needed.
	entering, ended []gate
	// inside is how many have begun, and have not ended.
	inside int
}

// sortGates sorts the gates of a queue by their state. The queue admits at most so many at once; 0
// means any number.
func sortGates(s *esl.State, all []gate, most int) gates {
	var out gates
	units := make(map[string]unit)
	shut := make(map[string]bool)
	due := dueOf(all)
	for _, g := range all {
		switch phase := g.task.Phase(); {
		case phase.Ended() && g.pool != nil:
			out.ended = append(out.ended, g)
		case phase.Ended():
		case g.waits(s):
			units[g.whole()] = append(units[g.whole()], g)
		case phase == types.Pending && g.closed():
			shut[g.whole()] = true // its unit cannot be admitted as a whole
		case phase == types.Pending:
			out.entering = append(out.entering, g)
		default:
			out.inside++
		}
	}
	var begun, fresh, again []unit
	for id, u := range units {
		slices.SortFunc(u, inTurn)
		open, inPart := due[id]
		switch {
		case inPart && s.Now.Before(open):
			begun = append(begun, u)
		case inPart:
			out.closing = append(out.closing, u)
		case shut[id], most > 0 && len(u) > most:
		case u[0].pool != nil:
			again = append(again, u)
		default:
			fresh = append(fresh, u)
		}
	}
	slices.SortFunc(out.ended, inTurn)
	out.waiting, out.begun = append(merged(begun, nil), merged(fresh, again)...), len(begun)
	return out
}

// dueOf returns when to close the gates of admitted units that have not begun: all gates of a unit
// at once, letIn after the last of them was opened.
func dueOf(all []gate) map[string]time.Time {
	due := make(map[string]time.Time)
	for i := range all {
		g := &all[i]
		if g.task.Phase() != types.Pending || g.closed() {
			continue
		}
		if at := g.entered().Add(letIn); at.After(due[g.whole()]) {
			due[g.whole()] = at
		}
	}
	return due
}

// whole identifies the unit of a gate: the reservation that its task draws on, or the task.
func (g *gate) whole() string {
	for _, x := range g.task.Info.V.Requests {
		if name, lock, ok := strings.Cut(x.Name, "@"); ok && name == g.name {
			return g.job + "@" + lock
		}
	}
	return g.task.ID.ID
}

// merged returns units in turn: those admitted without effect come behind those that were waiting
// when their gates were closed.
func merged(fresh, again []unit) []unit {
	slices.SortFunc(fresh, func(a, b unit) int { return inTurn(a[0], b[0]) })
	slices.SortFunc(again, func(a, b unit) int {
		return cmp.Or(cmp.Compare(b.priority(), a.priority()), cmp.Compare(a.since(), b.since()), inTurn(a[0], b[0]))
	})
	out := make([]unit, 0, len(fresh)+len(again))
	for len(fresh) > 0 && len(again) > 0 {
		a, b := fresh[0], again[0]
		if b.priority() > a.priority() || b.priority() == a.priority() && b.since() < a.since() {
			out, again = append(out, b), again[1:]
		} else {
			out, fresh = append(out, a), fresh[1:]
		}
	}
	return append(append(out, fresh...), again...)
}

// open returns the changes that create the gates of a unit.
func (u unit) open(now time.Time) (sets []controlplane.Resource) {
	for i := range u {
		sets = append(sets, u[i].open(now))
	}
	return sets
}

func (u unit) priority() int { return int(u[0].task.Info.V.Order()) }

// since is the revision since which the unit waits.
func (u unit) since() int64 {
	if pool := u[0].pool; pool != nil {
		return pool.Info.Mod
	}
	return u[0].task.Info.Mod
}

// closeIdle returns the changes that close the gates of admitted tasks that do not begin, while
// others wait; and when to call again. A gang that is collecting capacity is left out.
func closeIdle(s *esl.State, l gates) (closed []controlplane.Resource, again time.Time) {
	if len(l.waiting)+len(l.closing) == 0 {
		return nil, again
	}
	due := dueOf(l.entering)
	for i := range l.entering {
		g := &l.entering[i]
		if collectsFor(s, g.task) {
			continue
		}
		if due := due[g.whole()]; s.Now.Before(due) {
			again = taskset.Earliest(again, due)
		} else {
			closed = append(closed, controlplane.Resource{Name: g.name, Where: controlplane.InCluster(), Options: esl.OfJob(g.job)})
		}
	}
	return closed, again
}

// entered is when a task was admitted, or came back to wait.
func (g *gate) entered() time.Time {
	at := esl.Stamped(g.pool.Capacity())
	if v := g.task.Status.V; v != nil {
		for _, then := range []int64{v.Bound, v.Full().Retry} {
			if t := time.Unix(0, then); t.After(at) {
				at = t
			}
		}
	}
	return at
}

// collectsFor reports whether the reservation that a task draws on is granted or collecting.
func collectsFor(s *esl.State, t *cluster.Task) bool {
	return slices.ContainsFunc(t.Info.V.Requests, func(x types.Request) bool {
		_, id, scoped := strings.Cut(x.Name, "@")
		r := s.Reservation(id)
		return scoped && r != nil && r.Current()
	})
}

// ahead returns how many gates are before that of a task; ok is false if it is not in line.
func ahead(line []unit, t *cluster.Task) (n int, ok bool) {
	for _, u := range line {
		if slices.ContainsFunc(u, func(g gate) bool { return g.task.ID == t.ID }) {
			return n, true
		}
		n += len(u)
	}
	return 0, false
}

// take returns up to most gates of the first unit in line, if the unit fits in room, and the rest
// of the line. Later plans open the other gates of a larger unit, before any other unit.
func take(line []unit, room, most int) (gates unit, left []unit) {
	if len(line) == 0 || len(line[0]) > room || most <= 0 {
		return nil, line
	}
	if len(line[0]) <= most {
		return line[0], line[1:]
	}
	return line[0][:most], append([]unit{line[0][most:]}, line[1:]...)
}

// whyOutside says why a task that waits only for its gate is not in the line of a queue; nothing if it
// waits for something else.
func whyOutside(s *esl.State, queue string, all []gate, t *cluster.Task, most int) why.Reason {
	i := slices.IndexFunc(all, func(g gate) bool { return g.task.ID == t.ID })
	if i < 0 || !all[i].closed() || t.Info.V.Stop != nil || !taskset.Ready(s, t.Info.V, all[i].after) {
		return why.Reason{}
	}
	if !fitsSomeNode(s, t.Info.V) {
		return why.Say(why.Order, "%s does not let it in: no node that takes tasks is large enough for it", queue)
	}
	together := 0
	for _, g := range all {
		together += taskset.BoolInt(g.whole() == all[i].whole())
	}
	if most > 0 && together > most {
		return why.Say(why.Order, "%s lets in %d at once, and its gang has %d members: it never lets them in", queue, most, together)
	}
	return why.Say(why.Order, "%s lets in its gang as a whole, and not all of that can be let in yet", queue)
}
