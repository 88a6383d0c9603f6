package room

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"github.com/escher-sched/escher/controlplane/cluster"
	"github.com/escher-sched/escher/controlplane/manifest"
	"github.com/escher-sched/escher/esl"
	"github.com/escher-sched/escher/esl/taskset"
	"github.com/escher-sched/escher/types"
)

// Aging lets what waits long come before what is of a higher priority and came later: while
// a task, or a reservation such as a gang's, waits, it comes as if its priority were one
// higher for each Every that it has waited, up to Limit. What comes after others, or stands
// before a barrier, waits in this sense when nothing of that is before it any more. That is the order in which room is
// given out and nothing else: nobody is evicted for it, and as soon as it has its place
// its priority is its own.
type Aging struct {
	// Every is how long it takes for one; 0 is five minutes.
	Every manifest.Duration `json:"every,omitempty" desc:"how long a task waits for its priority to count one higher; 5m if it is left out" zero:"is no time: give at least 1s, or leave it out for 5m"`
	// Limit is the most that is added; 0 is 10.
	Limit int `json:"limit,omitempty" desc:"how much higher it counts at most; 10 if it is left out" zero:"would never count it higher: leave the policy out, or leave limit out for 10" max:"1000"`
}

// Kind is age.
func (Aging) Kind() string { return "ageing" }

// Validate checks the values. What is raised too often is written too often.
func (p Aging) Validate() error {
	var errs []error
	if p.Every != 0 && time.Duration(p.Every) < time.Second {
		errs = append(errs, esl.Invalid("every: %s is less than 1s: give a longer time, or leave it out for 5m", time.Duration(p.Every)))
	}
	if p.Limit < 0 || p.Limit > mostAged {
		errs = append(errs, esl.Invalid("limit: %d is not within 1 and %d: change it, or leave it out for 10", p.Limit, mostAged))
	}
	return esl.Join(errs)
}

// mostAged is how often something is raised at most.
const mostAged = 1000

// Apply changes nothing of the tasks.
func (p Aging) Apply(g *esl.Group) error {
	g.Raises()
	return p.Validate()
}

// Next raises what has waited for another Every.
func (p Aging) Next(s *esl.State) esl.Plan {
	plan := esl.Plan{Reason: "they have waited longer"}
	look := func(id string, reservation bool, since int64, raised int) {
		by, next := p.by(s.Now.Sub(time.Unix(0, since)))
		if next > 0 {
			plan.RequeueAfter = taskset.Earliest(plan.RequeueAfter, s.Now.Add(next))
		}
		if by != raised && len(plan.Raise) < taskset.AtOnce {
			plan.Raise = append(plan.Raise, esl.Raise{ID: id, Reservation: reservation, By: by})
		}
	}
	for _, r := range waitingReservations(s) {
		if closed, since := behindAny(s, r.ways); !closed {
			look(r.id, true, max(since, r.since.UnixNano()), s.Reservation(r.id).Info.V.Raised)
		}
	}
	for _, t := range waitingTasks(s) {
		task := s.View.Task(cluster.ID{Namespace: s.Namespace, ID: t.id}).Info.V
		look(t.id, false, t.since.UnixNano(), task.Order()-task.Priority)
	}
	return plan
}

// behindAny is behind, of all bundles of a reservation.
func behindAny(s *esl.State, ways [][]types.Bundle) (closed bool, since int64) {
	for _, b := range slices.Concat(ways...) {
		shut, at := taskset.Behind(s, b.Requests)
		closed, since = closed || shut, max(since, at)
	}
	return closed, since
}

// by is what is added after so long, and when it will be more: 0 never.
func (p Aging) by(waited time.Duration) (by int, next time.Duration) {
	every, limit := cmp.Or(time.Duration(p.Every), 5*time.Minute), cmp.Or(p.Limit, 10)
	if by = int(max(waited, 0) / every); by >= limit {
		return limit, 0
	}
	return by, every - max(waited, 0)%every
}

// Why says as what a task counts that was raised.
func (p Aging) Why(s *esl.State, task string) string {
	t, ok := taskset.Waits(s, task)
	if !ok || t.Info.V.Order() == t.Info.V.Priority || t.Phase() != types.Pending {
		return ""
	}
	return fmt.Sprintf("ageing: it has waited long, and comes as if its priority were %d instead of %d", t.Info.V.Order(), t.Info.V.Priority)
}
