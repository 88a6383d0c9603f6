package collect

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"github.com/escher-sched/escher/controlplane/cluster"
	"github.com/escher-sched/escher/controlplane/grants"
	"github.com/escher-sched/escher/types"
)

// claimant is a task or reservation that may collect. For a task, the reservation is synthesized
// from its request, with what it has collected as the grant.
type claimant struct {
	*cluster.Reservation
	task *cluster.Task // nil for a reservation
}

func (x claimant) key() Subject { return Subject{x.ID, x.task == nil} }

// job is the id of its job; empty if it has none.
func (x claimant) job() string {
	if x.task != nil {
		return x.task.Info.V.Job
	}
	return x.Info.V.Job
}

// priority is the submitted priority, without raises.
func (x claimant) priority() int {
	if x.task != nil {
		return x.task.Info.V.Priority
	}
	return x.Info.V.Priority
}

// compare orders claimants as the queue does: by priority, age, id.
func (x claimant) compare(y claimant) int {
	return cmp.Or(cmp.Compare(y.Info.V.Order(), x.Info.V.Order()), cmp.Compare(x.Info.V.Submitted, y.Info.V.Submitted),
		x.ID.Compare(y.ID), cmp.Compare(boolInt(x.task != nil), boolInt(y.task != nil)))
}

func (x claimant) precedes(y claimant) bool { return x.compare(y) < 0 }

func boolInt(b bool) int {
	if b {
		return 1
	}
	return 0
}

// shape is equal for equal requests of equal priority and job.
func (x claimant) shape() string {
	bundles := types.Encode(0, &types.Reservation{Bundles: x.Info.V.Bundles})
	return fmt.Sprint(x.ID.Namespace, "/", x.job(), "/", x.priority(), "/", string(bundles))
}

// moment is the cluster as a decision finds it.
type moment struct {
	v   *cluster.View
	now time.Time
	// collecting are the directed objects that wait, aged the others that may collect by now, both in
	// queue order. over are directed tasks that no longer wait.
	collecting, aged, over []claimant
	// nextAge is when the next one has waited long enough; zero means none is left.
	nextAge time.Time
}

// look finds what may collect, and forgets what no longer can.
func (s *State) look(v *cluster.View, now time.Time) *moment {
	if mean := v.MeanRun(); mean > 0 {
		s.mean = mean // without ended tasks in the view the last one holds
	}
	s.waits = s.cfg.waitsFor(s.mean)
	at := &moment{v: v, now: now}
	if !s.nextAge.IsZero() && !s.nextAge.After(now) {
		s.places, s.rivals = paced{changes: -1}, paced{changes: -1} // the earlier searches did not include it
	}
	for k := range s.known {
		x, ok := claimantOf(v, k)
		if !ok {
			if over(v, k) {
				delete(s.known, k)
			}
			continue
		}
		directed, waits := x.Info.V.Collect != nil, x.waits(v, now)
		due := time.Unix(0, x.Info.V.Submitted).Add(s.after)
		if until := s.passed[k]; until.After(due) {
			due = until
		}
		switch {
		case directed && !waits && x.task != nil:
			at.over = append(at.over, x)
		case !waits:
		case directed:
			at.collecting = append(at.collecting, x)
		case due.After(now):
			if at.nextAge.IsZero() || due.Before(at.nextAge) {
				at.nextAge = due
			}
		case x.Grant.Absent() && !s.roomIsMade(v, x): // otherwise an earlier grant of that name is not over
			delete(s.passed, k)
			at.aged = append(at.aged, x)
		}
	}
	s.nextAge = at.nextAge
	for _, list := range [][]claimant{at.collecting, at.aged, at.over} {
		slices.SortFunc(list, claimant.compare)
	}
	return at
}

// claimantOf returns the object of a key if it may collect.
func claimantOf(v *cluster.View, k Subject) (claimant, bool) {
	if k.Reservation {
		r := v.Reservations[k.ID]
		return claimant{Reservation: r}, r != nil && r.Info.V != nil && r.Info.V.Accumulate
	}
	t := v.Task(k.ID)
	if t == nil || t.Info.V == nil || !t.Info.V.Accumulate || t.Phase().Ended() {
		return claimant{}, false
	}
	return claimant{grants.ClaimOf(v, t), t}, true
}

// over reports whether the object of a key will never collect again.
func over(v *cluster.View, k Subject) bool {
	if k.Reservation {
		r := v.Reservations[k.ID]
		return r == nil || r.Info.V == nil && !r.Info.Unread() || r.Info.V != nil && !r.Info.V.Accumulate
	}
	t := v.Task(k.ID)
	return t == nil || t.Info.V == nil && !t.Info.Unread() || t.Info.V != nil && (!t.Info.V.Accumulate || t.Phase().Ended())
}

// waits reports whether x waits to be placed, and a scheduler would collect for it.
func (x claimant) waits(v *cluster.View, now time.Time) bool {
	if x.task == nil {
		return x.Grant.Absent() || x.Current() && x.Grant.V.Phase == types.Collecting
	}
	t := x.task.Info.V
	if x.task.Phase() != types.Pending || !v.Visible(x.task) || t.Stop != nil || len(x.task.Bindings) > 0 {
		return false
	}
	if t.Deadline != 0 && t.Deadline <= now.UnixNano() || t.Scheduler != "" && v.Schedulers[t.Scheduler] == nil {
		return false
	}
	if s := x.task.Status.V; s != nil && s.Retry > now.UnixNano() {
		return false
	}
	return true
}
