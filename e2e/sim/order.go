package sim

import (
	"cmp"
	"maps"
	"slices"
	"strings"

	"github.com/escher-sched/escher/controlplane/cluster"
	"github.com/escher-sched/escher/controlplane/grants"
	"github.com/escher-sched/escher/esl"
	"github.com/escher-sched/escher/scheduler"
	"github.com/escher-sched/escher/types"
)

// rank is a place in the queue: by priority, then by age.
type rank struct {
	priority  int
	submitted int64
}

// before reports whether a comes before b in the queue, and is not just as old.
func (a rank) before(b rank) bool {
	return cmp.Or(cmp.Compare(b.priority, a.priority), cmp.Compare(a.submitted, b.submitted)) < 0
}

// checkOrder checks that at rest nothing waits for what collects behind it: nothing that waits fits into
// what is free on the nodes, together with what others of lower priority, or younger ones of the same,
// have collected there.
func (w *world) checkOrder(view *cluster.View, waiting []scheduler.Waiting) {
	for _, x := range waiting {
		at, all := requested(view, x)
		if len(all) == 0 {
			continue
		}
		rooms, behind := roomsBefore(view, at)
		if len(behind) == 0 {
			continue
		}
		w.seen["waits before what collects"]++
		if placed(view, rooms, all) {
			w.fail("%s waits, and fits with what %s has collected behind it", x.ID, strings.Join(behind, ", "))
		}
	}
}

// requested returns the rank of what waits, and what it requests; nothing if it draws on a reservation, has
// alternatives, or collects itself.
func requested(view *cluster.View, x scheduler.Waiting) (at rank, all [][]cluster.Need) {
	if x.Reservation {
		r := view.Reservations[x.ID]
		if r == nil || r.Info.V == nil || r.Info.V.Directed() || r.Grant.V != nil {
			return at, nil
		}
		for _, b := range r.Info.V.Bundles {
			if b.Node != "" {
				return at, nil
			}
			all = append(all, view.BundleNeeds(x.ID.Namespace, b.Requests, b.Devices...))
		}
		return rank{r.Info.V.Order(), r.Info.V.Submitted}, all
	}
	t := view.Task(x.ID)
	if t == nil || t.Info.V == nil || len(t.Info.V.Alternatives) > 0 || t.Info.V.Scheduler != "" || grants.CollectedBy(view, t) != nil ||
		slices.ContainsFunc(t.Info.V.Requests, func(r types.Request) bool { return strings.Contains(r.Name, "@") }) {
		return at, nil
	}
	return rank{t.Info.V.Order(), t.Info.V.Submitted}, [][]cluster.Need{view.Needs(x.ID.Namespace, t.Info.V.Requests, t.Info.V.Devices...)}
}

// roomsBefore returns the rooms of the nodes without what others behind a rank have collected, and the ids
// of these others.
func roomsBefore(view *cluster.View, at rank) (rooms []*esl.Room, behind []string) {
	for _, name := range slices.Sorted(maps.Keys(view.Nodes)) {
		if n := view.Nodes[name]; n.Eligible() {
			rooms = append(rooms, esl.NewRoom(view, n).Clone())
		}
	}
	for id, r := range view.Reservations {
		of, ok := collects(view, r)
		if !ok || !at.before(of) {
			continue
		}
		behind = append(behind, id.String())
		for _, room := range rooms {
			room.Return(r.Grant.V.On(room.Node.Name))
		}
	}
	return rooms, behind
}

// collects returns the rank of what has collected a part of a grant, as the library directs.
func collects(view *cluster.View, r *cluster.Reservation) (at rank, ok bool) {
	if !grants.Accumulates(r) {
		return at, false
	}
	if r.Info.V != nil {
		return rank{r.Info.V.Order(), r.Info.V.Submitted}, true
	}
	t := view.Task(r.ID)
	if t == nil || t.Info.V == nil {
		return at, false
	}
	return rank{t.Info.V.Order(), t.Info.V.Submitted}, true
}

// placed places requests, each on the first node where it fits, and reports whether all fit. What is
// requested of the whole cluster must be free.
func placed(view *cluster.View, rooms []*esl.Room, all [][]cluster.Need) bool {
	pools := make(map[types.ResourceID]types.Quantity)
	for _, needs := range all {
		i := slices.IndexFunc(rooms, func(r *esl.Room) bool { return r.Fits(needs) })
		if i < 0 {
			return false
		}
		rooms[i].Take(needs)
		for _, x := range needs {
			if p := view.Pool(x.ID); p != nil {
				if pools[x.ID] += x.Amount; pools[x.ID] > p.Free() {
					return false
				}
			}
		}
	}
	return true
}
