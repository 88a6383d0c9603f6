package turn

import (
	"time"

	"github.com/escher-sched/escher/controlplane"
	"github.com/escher-sched/escher/controlplane/cluster"
	"github.com/escher-sched/escher/controlplane/why"
	"github.com/escher-sched/escher/esl"
	"github.com/escher-sched/escher/esl/taskset"
)

// EarliestDeadline puts jobs first whose deadline is close: a waiting task or gang queues as if its
// priority were one higher for each time that its slack was halved, from a day on. The slack is the time
// left until it must begin: until the deadline, less the limit of the run time. The order among such
// jobs is that of least slack (Mok, 1983); without limits it is that of earliest deadline.
//
// A task that has not begun, and whose limit does not fit before its deadline any more, ends instead of
// taking the place of one that can meet it.
type EarliestDeadline struct{}

// Kind returns earliest-deadline.
func (EarliestDeadline) Kind() string { return "earliest-deadline" }

// Describe says what the policy does, and its flag.
func (EarliestDeadline) Describe() esl.Description {
	return esl.Description{Does: "the closer the deadline of a waiting job, the earlier it begins; it ends if it cannot meet it", Flags: []esl.Flag{{
		Name: "earliest-deadline", Usage: "raise the priority by 1 for each time that the slack until --deadline was halved, from a day on; it ends if --max-run no longer fits",
	}}}
}

// Apply refuses tasks without a deadline, and leaves the others as they are.
func (EarliestDeadline) Apply(g *esl.Group) error {
	g.Raises()
	for i := range g.Tasks {
		if g.Tasks[i].Task.Deadline == 0 {
			return esl.Invalid("tasks[%d].deadline: is missing, and earliest-deadline orders tasks by it: give one, such as deadline: 2h, or leave the policy out", i)
		}
	}
	return nil
}

// relaxed is the slack that does not count as little at all.
const relaxed = 24 * time.Hour

// Next ends waiting tasks that can no longer meet their deadline, and raises the others.
func (EarliestDeadline) Next(s *esl.State) esl.Plan {
	ended, again := late(s)
	if len(ended) > 0 {
		return esl.Plan{Stop: ended, Reason: "they cannot meet their deadlines any more"}
	}
	plan := raise(s, "their deadlines are close", func(w taskset.Wish) (int, time.Duration) { return level(slack(s, w)) })
	if !again.IsZero() {
		plan.RequeueAfter = taskset.Earliest(again, plan.RequeueAfter)
	}
	return plan
}

// late returns how to end the waiting tasks that cannot meet their deadline, and when the next one
// will not be able to.
func late(s *esl.State) (late []esl.Stop, again time.Time) {
	for _, t := range s.Members() {
		begun := t.Status.V != nil && t.Status.V.Bound != 0 // it may have saved its work, and need less
		if !taskset.IsWaiting(t) || begun || t.Info.V.Deadline == 0 || t.Info.V.MaxRun == 0 || taskset.HasGrant(s, t) {
			continue
		}
		switch begin := latest(t); {
		case s.Now.Before(begin):
			again = taskset.Earliest(again, begin)
		case len(late) < taskset.AtOnce:
			late = append(late, esl.Stop{Task: t.ID.ID, StopOptions: controlplane.StopOptions{
				Reason: "its deadline comes too early: it may run for " + why.InWords(t.Info.V.MaxRun) + ", and " + why.InWords(max(0, begin.Add(t.Info.V.MaxRun).Sub(s.Now))) + " is left",
			}})
		}
	}
	return late, again
}

// latest returns when a task with a deadline must begin at the latest.
func latest(t *cluster.Task) time.Time {
	return time.Unix(0, t.Info.V.Deadline).Add(-t.Info.V.MaxRun)
}

// slack returns the time until what waits must begin.
func slack(s *esl.State, w taskset.Wish) time.Duration {
	least := relaxed
	for _, t := range tasksOf(s, w) {
		if t.Info.V.Deadline != 0 {
			least = min(least, latest(t).Sub(s.Now))
		}
	}
	return least
}

// level returns how far a job with a slack is raised, and in how long that is more; 0 means never.
func level(slack time.Duration) (level int, next time.Duration) {
	if level = halvings(relaxed, slack); level == mostHalved {
		return level, 0
	}
	return level, max(time.Second, slack-relaxed>>(level+1))
}

// Why tells the raised priority of a task.
func (EarliestDeadline) Why(s *esl.State, task string) why.Reason {
	w, ok := waits(s, task)
	if !ok {
		return why.Reason{}
	}
	return why.Say(why.Order, "earliest-deadline: it must begin within %s, and comes as if its priority were %d instead of %d",
		why.InWords(max(0, slack(s, w))), w.Priority+w.Raised, w.Priority)
}
