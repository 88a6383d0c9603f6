package taskset

import (
	"time"

	"github.com/escher-sched/escher/controlplane/grants"
	"github.com/escher-sched/escher/esl"
	"github.com/escher-sched/escher/types"
)

// Wish is a unit that waits for capacity: a reservation of the job, or a task that draws on none.
type Wish struct {
	ID, Job string
	// Reservation reports whether it is a reservation.
	Reservation bool
	// Priority is as given, Raised what is added to it by now.
	Priority, Raised int
	// Since is when its wait began.
	Since   time.Time
	Session string
	// Ways are its alternatives, each a list of bundles, the preferred ones first.
	Ways [][]types.Bundle
}

// WaitingReservations returns the waiting reservations of the job. An accumulating one gives its part
// back when capacity is made for it.
func WaitingReservations(s *esl.State) []Wish {
	return WaitingReservationsOf(s, func(job string) bool { return job == s.Job })
}

// WaitingReservationsOf is WaitingReservations for the jobs that of selects.
func WaitingReservationsOf(s *esl.State, of func(job string) bool) []Wish {
	var out []Wish
	for id, r := range s.View.Reservations {
		if id.Namespace != s.Namespace || r.Info.V == nil || !of(r.Info.V.Job) || r.Info.V.Directed() || r.Grant.V != nil && !(r.Current() && grants.Accumulates(r)) {
			continue
		}
		out = append(out, Wish{
			ID: id.ID, Job: r.Info.V.Job, Reservation: true, Priority: r.Info.V.Priority, Raised: r.Info.V.Raised, Since: time.Unix(0, r.Info.V.Submitted),
			Session: r.Info.V.Session, Ways: [][]types.Bundle{r.Info.V.Bundles},
		})
	}
	return out
}

// WaitingTasks returns the waiting tasks of the job that draw on no reservation. It leaves out tasks
// behind others that have not ended. The waits of the rest start after that.
func WaitingTasks(s *esl.State) []Wish {
	var out []Wish
	for _, t := range s.Members() {
		if t.Info.V == nil || t.Phase() != types.Pending || t.Info.V.Stop != nil || !s.View.Visible(t) {
			continue
		}
		closed, since := Behind(s, t.Info.V.Requests)
		if closed {
			continue
		}
		since = max(since, t.Info.V.Submitted)
		if t.Status.V != nil {
			since = max(since, t.Status.V.Ended, t.Status.V.Retry)
		}
		if ways := BundlesOf(s, t); len(ways) > 0 {
			out = append(out, Wish{
				ID: t.ID.ID, Job: s.Job, Priority: t.Info.V.Priority, Raised: t.Info.V.Order() - t.Info.V.Priority, Since: time.Unix(0, since),
				Session: t.Info.V.Session, Ways: ways,
			})
		}
	}
	return out
}
