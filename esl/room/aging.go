package room

import (
	"cmp"
	"slices"
	"time"

	"github.com/escher-sched/escher/controlplane/cluster"
	"github.com/escher-sched/escher/controlplane/manifest"
	"github.com/escher-sched/escher/controlplane/why"
	"github.com/escher-sched/escher/esl"
	"github.com/escher-sched/escher/esl/taskset"
	"github.com/escher-sched/escher/types"
)

// Aging raises what has waited long above later tasks of a higher priority: a waiting task or
// reservation queues as if its priority were one higher for each Every of waiting, by at most
// Limit. The waiting time of a task that comes after others, or behind a barrier, starts when these
// no longer hold it back. Aging changes only the order in the queue: no task is evicted for it, and
// once bound a task has its own priority again.
type Aging struct {
	// Every is the waiting time for one level; 0 means five minutes.
	Every manifest.Duration `json:"every,omitempty" desc:"how long a task waits for its priority to count one higher; 5m if it is left out" zero:"is not a duration: give at least 1s, or leave it out for 5m"`
	// Limit is the most that is added; 0 means 10.
	Limit int `json:"limit,omitempty" desc:"how much higher it counts at most; 10 if it is left out" zero:"would never count it higher: leave the policy out, or leave limit out for 10" max:"1000"`
}

// Kind returns aging.
func (Aging) Kind() string { return "aging" }

// Describe says what the policy does, and its flags.
func (Aging) Describe() esl.Description {
	return esl.Description{Does: "the longer a task waits, the higher its priority; no task is evicted for that", Flags: []esl.Flag{{
		Name: "aging", Usage: "raise the priority by 1 per this time of waiting, by at most 10",
		Time: func(every time.Duration) (esl.Parameters, error) {
			if every == 0 {
				return nil, esl.Invalid("aging: 0s is not a duration: give how long a task waits for its priority to count one higher, or leave --aging out")
			}
			return esl.Parameters{"every": every}, nil
		},
	}}}
}

// Validate checks the values. Frequent raises would mean frequent writes.
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

// mostAged is the largest Limit.
const mostAged = 1000

// Apply leaves the tasks as they are.
func (p Aging) Apply(g *esl.Group) error {
	g.Raises()
	return p.Validate()
}

// Next raises tasks and reservations that have waited for another Every.
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

// behindAny is taskset.Behind for all bundles of a reservation.
func behindAny(s *esl.State, ways [][]types.Bundle) (closed bool, since int64) {
	for _, b := range slices.Concat(ways...) {
		shut, at := taskset.Behind(s, b.Requests)
		closed, since = closed || shut, max(since, at)
	}
	return closed, since
}

// by returns how much is added after a waiting time, and in how long it will be more; 0 means
// never.
func (p Aging) by(waited time.Duration) (by int, next time.Duration) {
	every, limit := cmp.Or(time.Duration(p.Every), 5*time.Minute), cmp.Or(p.Limit, 10)
	if by = int(max(waited, 0) / every); by >= limit {
		return limit, 0
	}
	return by, every - max(waited, 0)%every
}

// Why tells the raised priority of a task.
func (p Aging) Why(s *esl.State, task string) why.Reason {
	t, ok := taskset.Waits(s, task)
	if !ok || t.Info.V.Order() == t.Info.V.Priority || t.Phase() != types.Pending {
		return why.Reason{}
	}
	return why.Say(why.Order, "aging: it has waited long, and comes as if its priority were %d instead of %d", t.Info.V.Order(), t.Info.V.Priority)
}
