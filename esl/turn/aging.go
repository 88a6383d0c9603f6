package turn

import (
	"cmp"
	"time"

	"github.com/escher-sched/escher/controlplane/manifest"
	"github.com/escher-sched/escher/controlplane/why"
	"github.com/escher-sched/escher/esl"
	"github.com/escher-sched/escher/esl/taskset"
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
	return esl.Join(
		esl.InvalidIf(p.Every != 0 && time.Duration(p.Every) < time.Second, "every: %s is less than 1s: give a longer time, or leave it out for 5m", time.Duration(p.Every)),
		esl.InvalidIf(p.Limit < 0 || p.Limit > mostAged, "limit: %d is not within 1 and %d: change it, or leave it out for 10", p.Limit, mostAged),
	)
}

// Apply leaves the tasks as they are.
func (p Aging) Apply(g *esl.Group) error {
	g.Raises()
	return p.Validate()
}

// Next raises tasks and reservations that have waited for another Every.
func (p Aging) Next(s *esl.State) esl.Plan {
	return raise(s, "they have waited longer", func(w taskset.Wish) (int, time.Duration) {
		return aged(s.Now.Sub(w.Since), cmp.Or(time.Duration(p.Every), 5*time.Minute), cmp.Or(p.Limit, 10))
	})
}

// Why tells the raised priority of a task.
func (p Aging) Why(s *esl.State, task string) why.Reason {
	w, ok := waits(s, task)
	if !ok {
		return why.Reason{}
	}
	return why.Say(why.Order, "aging: it has waited long, and comes as if its priority were %d instead of %d", w.Priority+w.Raised, w.Priority)
}
