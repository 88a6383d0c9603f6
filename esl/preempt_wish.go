package esl

import (
	"cmp"
	"slices"
	"strings"
	"time"

	"github.com/escher-sched/escher/controlplane/cluster"
	"github.com/escher-sched/escher/types"
)

// For whom room is made, and how often that is tried.

// wish is what waits for room as a whole: a reservation of the job, or a task that draws on
// none.
type wish struct {
	id       string
	priority int
	since    time.Time
	session  string
	// ways are the bundles that it may be had as, the preferred ones first.
	ways [][]types.Bundle
}

// wanting returns what has waited long enough, the first first; again is when something
// else will have.
func (p Preempt) wanting(s *State) (long []wish, again time.Time) {
	for _, w := range slices.Concat(s.reservationsWaiting(), s.tasksWaiting()) {
		if due := w.since.Add(p.after()); s.Now.Before(due) {
			again = earliest(again, due)
		} else {
			long = append(long, w)
		}
	}
	slices.SortStableFunc(long, func(a, b wish) int {
		return cmp.Or(cmp.Compare(b.priority, a.priority), a.since.Compare(b.since), strings.Compare(a.id, b.id))
	})
	return long, again
}

// reservationsWaiting returns those of the job that wait for their place. One that has
// accumulated a part of it gives that back when room is made for it: see newClearing.
func (s *State) reservationsWaiting() []wish {
	var out []wish
	for id, r := range s.View.Reservations {
		if id.Namespace != s.Namespace || r.Info.V == nil || r.Info.V.Job != s.Job || r.Info.V.AtOnce || r.Grant.V != nil && !accumulating(r) {
			continue
		}
		out = append(out, wish{
			id: id.ID, priority: r.Info.V.Priority, since: time.Unix(0, r.Info.V.Submitted), session: r.Info.V.Session,
			ways: [][]types.Bundle{r.Info.V.Bundles},
		})
	}
	return out
}

// tasksWaiting returns the tasks of the job that wait, and draw on no reservation: not those
// that come after what has not ended yet, nor since when they did.
func (s *State) tasksWaiting() []wish {
	var out []wish
	for _, t := range s.Members() {
		if t.Info.V == nil || t.Phase() != types.Pending || t.Info.V.Stop != nil || !s.View.Visible(t) {
			continue
		}
		closed, since := s.behind(t.Info.V.Requests)
		if closed {
			continue
		}
		since = max(since, t.Info.V.Submitted)
		if t.Status.V != nil {
			since = max(since, t.Status.V.Ended, t.Status.V.Retry)
		}
		if ways := s.waysOf(t); len(ways) > 0 {
			out = append(out, wish{id: t.ID.ID, priority: t.Info.V.Priority, since: time.Unix(0, since), session: t.Info.V.Session, ways: ways})
		}
	}
	return out
}

// waysOf returns how a task may be had by now, but for what is drawn from reservations.
func (s *State) waysOf(t *cluster.Task) (ways [][]types.Bundle) {
	all := t.Info.V.Alternatives
	if len(all) == 0 {
		all = []types.Alternative{{}}
	}
	for _, way := range all {
		asked := t.Info.V.Requests.Plus(way.Requests)
		drawn := slices.ContainsFunc(asked, func(x types.Request) bool { return strings.Contains(x.Name, "@") })
		if !drawn && len(asked) > 0 && !s.Now.Before(time.Unix(0, t.Info.V.Submitted).Add(way.After)) {
			ways = append(ways, []types.Bundle{{Requests: asked, Devices: t.Info.V.Devices}})
		}
	}
	return ways
}

// accumulating reports whether a reservation has a part of its place.
func accumulating(r *cluster.Reservation) bool {
	return r.Current() && r.Grant.V.Phase == types.Accumulating
}

// patient reports whether those who leave anyway are waited for at a moment: as long as
// nobody has waited for longer than the policy gives those that it evicts. How long the
// others take nobody knows.
func (p Preempt) patient(all []wish, at time.Time) bool {
	return !slices.ContainsFunc(all, func(w wish) bool { return !at.Before(w.since.Add(p.within())) })
}

// triedInVain is what a policy remembers of room that was made whole, and into which nobody
// of the job fitted: it reckons by less than the scheduler, such as ports by number.
type triedInVain struct {
	last  int64         // the CreateRevision of the reservation that was the last such room
	wait  time.Duration // how long is waited then
	until time.Time
}

// The wait after room that was made in vain, which is doubled each time.
const (
	vainFirst = time.Second
	vainMost  = 5 * time.Minute
)

// note takes into account what becomes of a room.
func (x *triedInVain) note(s *State, r *cluster.Reservation) {
	switch {
	case r.Current() && r.Grant.V.Phase == types.HandedOver:
		*x = triedInVain{}
	case granted(r) && r.Info.Create != x.last:
		x.last, x.wait = r.Info.Create, min(max(2*x.wait, vainFirst), vainMost)
		x.until = s.Now.Add(x.wait)
	}
}
