package room

import (
	"cmp"
	"slices"
	"strings"
	"time"

	"github.com/escher-sched/escher/controlplane/cluster"
	"github.com/escher-sched/escher/esl"
	"github.com/escher-sched/escher/esl/taskset"
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

// wanting returns what waits, and what of it has waited long enough, the first first; again
// is when something else will have.
func (p Preempt) wanting(s *esl.State) (all, long []wish, again time.Time) {
	all = slices.Concat(waitingReservations(s), waitingTasks(s))
	slices.SortStableFunc(all, func(a, b wish) int {
		return cmp.Or(cmp.Compare(b.priority, a.priority), a.since.Compare(b.since), strings.Compare(a.id, b.id))
	})
	for _, w := range all {
		if due := w.since.Add(p.after()); s.Now.Before(due) {
			again = taskset.Earliest(again, due)
		} else {
			long = append(long, w)
		}
	}
	return all, long, again
}

// waitingReservations returns those of the job that wait for their place. One that has
// accumulated a part of it gives that back when room is made for it: see newClearing.
func waitingReservations(s *esl.State) []wish {
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

// waitingTasks returns the tasks of the job that wait, and draw on no reservation: not those
// that come after what has not ended yet, nor since when they did.
func waitingTasks(s *esl.State) []wish {
	var out []wish
	for _, t := range s.Members() {
		if t.Info.V == nil || t.Phase() != types.Pending || t.Info.V.Stop != nil || !s.View.Visible(t) {
			continue
		}
		closed, since := taskset.Behind(s, t.Info.V.Requests)
		if closed {
			continue
		}
		since = max(since, t.Info.V.Submitted)
		if t.Status.V != nil {
			since = max(since, t.Status.V.Ended, t.Status.V.Retry)
		}
		if ways := taskset.BundlesOf(s, t); len(ways) > 0 {
			out = append(out, wish{id: t.ID.ID, priority: t.Info.V.Priority, since: time.Unix(0, since), session: t.Info.V.Session, ways: ways})
		}
	}
	return out
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

// triedInVain is what a policy remembers of room that was made, and that was not whole then, or
// into which nobody of the job fitted: it reckons by less than the scheduler, such as how
// devices lie to one another.
type triedInVain struct {
	last  int64         // the CreateRevision of the reservation that was the last such room
	wait  time.Duration // how long is waited then
	until time.Time
	// since is when all had ended for some room first, by the CreateRevision.
	since map[int64]time.Time
}

// The wait after room that was made in vain, which is doubled each time; and how long after all
// have ended it is known to be in vain.
const (
	vainFirst = time.Second
	vainMost  = 5 * time.Minute
	vainIdle  = 10 * time.Second
)

// note takes into account what becomes of a room.
func (x *triedInVain) note(s *esl.State, r *cluster.Reservation) {
	switch {
	case r.Current() && r.Grant.V.Phase == types.HandedOver:
		*x = triedInVain{}
	case taskset.Granted(r):
		x.failed(s, r)
	}
}

// failed takes into account that a room is given up that was made in vain.
func (x *triedInVain) failed(s *esl.State, r *cluster.Reservation) {
	if r.Info.Create != x.last {
		x.last, x.wait = r.Info.Create, min(max(2*x.wait, vainFirst), vainMost)
		x.until, x.since = s.Now.Add(x.wait), nil
	}
}

// awaitsLeaving reports whether somebody is about to end by whom there is more room: on the nodes that
// it is made on, or, where it takes something of the whole cluster, anywhere.
func awaitsLeaving(s *esl.State, r *cluster.Reservation) bool {
	for _, b := range r.Info.V.Bundles {
		pools := slices.ContainsFunc(s.View.BundleNeeds(r.ID.Namespace, b.Requests), func(x cluster.Need) bool { return s.View.Pool(x.ID) != nil })
		for name, n := range s.View.Nodes {
			if (pools || name == b.Node) && len(leaving(n)) > 0 {
				return true
			}
		}
	}
	return false
}

// leaving returns who is about to leave a node; nil is none.
func leaving(n *cluster.Node) (who []*cluster.Task) {
	if n == nil {
		return nil
	}
	for _, b := range n.Bindings {
		if b.Task.Info.V != nil && b.Task.Phase().Held() && taskset.Leaving(b.Task) {
			who = append(who, b.Task)
		}
	}
	return who
}

// idle reports whether all that room is made by have ended for so long that the scheduler would
// have handed it over, if it did.
func (x *triedInVain) idle(s *esl.State, r *cluster.Reservation) bool {
	if x.since == nil {
		x.since = make(map[int64]time.Time)
	}
	if x.since[r.Info.Create].IsZero() {
		x.since[r.Info.Create] = s.Now
	}
	return !s.Now.Before(x.since[r.Info.Create].Add(vainIdle))
}
