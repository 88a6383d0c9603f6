package esl

import (
	"cmp"
	"fmt"

	"github.com/escher-sched/escher/controlplane"
	"github.com/escher-sched/escher/controlplane/cluster"
	"github.com/escher-sched/escher/types"
)

// atOnce is how many tasks are ended in one transaction at most; the others follow.
const atOnce = 40

// keepWhole ends what is left of tasks that belong together when one has ended without
// success; and, unless each is alone, has those run again that are behind: one that has to
// run again is at the attempt to come, and all are to be at the same. So what has run side
// by side with an attempt that is over does not go on with the next one.
func keepWhole(members []*cluster.Task, alone bool) Plan {
	last, over := 0, ""
	for _, t := range members {
		last = max(last, attemptOf(t))
	}
	for _, t := range members {
		switch ph := t.Phase(); {
		case ph == types.Failed:
			over = fmt.Sprintf("member %s failed: %s", t.ID.ID, t.Status.V.Reason)
		case ph == types.Cancelled || !ph.Ended() && t.Info.V.Stop != nil:
			over = cmp.Or(over, fmt.Sprintf("member %s was stopped", t.ID.ID))
		case ph == types.Succeeded && attemptOf(t) < last && !alone:
			over = cmp.Or(over, fmt.Sprintf("it was to run again, and member %s has succeeded", t.ID.ID))
		}
	}
	plan := Plan{Reason: cmp.Or(over, fmt.Sprintf("all members are to be at attempt %d", last))}
	for _, t := range members {
		switch stays := t.Phase().Held() && attemptOf(t) == t.Status.V.Attempt; {
		case len(plan.Stop)+len(plan.Evict) == atOnce:
			return plan
		case over != "" && !t.Phase().Ended() && t.Info.V.Stop == nil:
			plan.Stop = append(plan.Stop, Stop{Task: t.ID.ID, StopOptions: controlplane.StopOptions{Reason: over}})
		case over == "" && !alone && stays && attemptOf(t) < last:
			plan.Evict = append(plan.Evict, Evict{Task: t.ID.ID, Attempt: attemptOf(t)})
		}
	}
	return plan
}

// attemptOf returns which attempt a task is at, or will be at next if it waits or leaves.
func attemptOf(t *cluster.Task) int {
	switch st := t.Status.V; {
	case st == nil:
		return 1
	case t.Phase().Ended() || t.Phase().Held() && t.Info.V.Evict != st.Attempt:
		return st.Attempt
	default:
		return st.Attempt + 1
	}
}
