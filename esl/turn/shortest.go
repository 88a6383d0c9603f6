package turn

import (
	"cmp"
	"time"

	"github.com/escher-sched/escher/controlplane/manifest"
	"github.com/escher-sched/escher/controlplane/why"
	"github.com/escher-sched/escher/esl"
	"github.com/escher-sched/escher/esl/taskset"
)

// Shortest puts short jobs before long ones: a waiting task or gang queues as if its priority were one
// higher for each time that its length can be halved, from a week on. The length is the limit of the run
// time. Escher enforces that limit, and so a length that is too short is of no use. Without a limit, it is
// the median of the past runs of the same name.
//
// A job counts as half as long after each Every of waiting. So a job that is half as long as another one
// begins first only if it comes less than Every later. No job waits forever behind shorter ones.
type Shortest struct {
	// Unknown is the length of a task without a limit of its run time and without past runs; 0 means the
	// mean of the tasks that have ended.
	Unknown manifest.Duration `json:"unknown,omitempty" desc:"the length of a task without a run time limit and without past runs; the mean of the tasks that have ended if it is left out" zero:"is not a length: give one, or leave it out for the mean"`
	// Every is how long a job waits until it counts as half as long; 0 means four hours.
	Every manifest.Duration `json:"every,omitempty" desc:"how long a job waits until it counts as half as long; 4h if it is left out" zero:"is not a duration: give at least 1s, or leave it out for 4h"`
}

// Kind returns shortest.
func (Shortest) Kind() string { return "shortest" }

// Describe says what the policy does, and its flag.
func (Shortest) Describe() esl.Description {
	return esl.Description{Does: "the shorter a job, by --max-run or past runs, the earlier it begins; no task is evicted for that", Flags: []esl.Flag{{
		Name: "shortest", Usage: "raise the priority by 1 for each time that the length, by --max-run or past runs, can be halved, from a week on",
	}}}
}

// Validate checks the values. Frequent raises would mean frequent writes.
func (p Shortest) Validate() error {
	return esl.Join(
		esl.InvalidIf(p.Unknown < 0, "unknown: %s is negative: give a length, or leave it out for the mean", time.Duration(p.Unknown)),
		esl.InvalidIf(p.Every != 0 && time.Duration(p.Every) < time.Second, "every: %s is less than 1s: give a longer time, or leave it out for 4h", time.Duration(p.Every)),
	)
}

// Apply leaves the tasks as they are.
func (p Shortest) Apply(g *esl.Group) error {
	g.Raises()
	return p.Validate()
}

// Next raises what waits, by its length and its wait.
func (p Shortest) Next(s *esl.State) esl.Plan {
	return raise(s, "they are short, or have waited long", func(w taskset.Wish) (int, time.Duration) {
		return p.level(p.length(s, w), s.Now.Sub(w.Since))
	})
}

// length returns the length of what waits; 0 if it is not known.
func (p Shortest) length(s *esl.State, w taskset.Wish) time.Duration {
	return cmp.Or(longestRun(s, w), time.Duration(p.Unknown), s.View.MeanRun())
}

// noLonger is the length that counts as not short at all.
const noLonger = 7 * 24 * time.Hour

// level returns how far a job of a length is raised after a wait, and in how long it will be more; 0
// means never.
func (p Shortest) level(length, wait time.Duration) (level int, next time.Duration) {
	if length > 0 {
		level = halvings(noLonger, max(length, time.Second))
	}
	more, next := aged(wait, cmp.Or(time.Duration(p.Every), 4*time.Hour), mostAged)
	return level + more, next
}

// Why tells the raised priority of a task.
func (p Shortest) Why(s *esl.State, task string) why.Reason {
	w, ok := waits(s, task)
	if !ok {
		return why.Reason{}
	}
	return why.Say(why.Order, "shortest: it is %s long and has waited %s, and comes as if its priority were %d instead of %d",
		why.InWords(p.length(s, w)), why.InWords(s.Now.Sub(w.Since)), w.Priority+w.Raised, w.Priority)
}
