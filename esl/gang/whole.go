package gang

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"github.com/escher-sched/escher/controlplane/cluster"
	"github.com/escher-sched/escher/esl"
	"github.com/escher-sched/escher/esl/taskset"
	"github.com/escher-sched/escher/types"
)

// within is how long a part of a gang may run while another part waits. All are normally bound at
// one revision, and a member behind catches up at once.
const within = 10 * time.Second

// keepWhole ends the other members when one has ended without success. Unless alone, it makes all
// run again when one has to, and removes their reservation, so that no member begins before all
// can. A member behind an attempt that has begun moves on to that attempt. RequeueAfter is when all
// members must have a node.
func keepWhole(s *esl.State, members []*cluster.Task, alone bool, id string) esl.Plan {
	r := s.Reservation(id)
	last, over := 0, ""
	for _, t := range members {
		last = max(last, taskset.AttemptOf(t))
	}
	for _, t := range members {
		switch ph := t.Phase(); {
		case ph == types.Failed:
			over = fmt.Sprintf("member %s failed: %s", t.ID.ID, cmp.Or(t.Status.V.Reason, fmt.Sprintf("exit code %d", t.Status.V.ExitCode)))
		case ph == types.Cancelled || !ph.Ended() && t.Info.V.Stop != nil:
			over = cmp.Or(over, fmt.Sprintf("member %s was stopped", t.ID.ID))
		case ph == types.Succeeded && taskset.AttemptOf(t) < last && !alone:
			over = cmp.Or(over, fmt.Sprintf("it was to run again, and member %s has succeeded", t.ID.ID))
		}
	}
	switch {
	case over != "":
		return taskset.StopAll(members, over)
	case alone:
		return esl.Plan{}
	}
	broken, due := torn(s, members, last, r)
	plan := esl.Plan{RequeueAfter: due, Reason: fmt.Sprintf("all members are to be at attempt %d", last)}
	if broken && taskset.Locked(r) {
		plan.Unreserve = []string{id}
	}
	for _, t := range members {
		if taskset.Staying(t) && (broken || taskset.AttemptOf(t) < last) && len(plan.Evict) < taskset.AtOnce {
			plan.Evict = append(plan.Evict, esl.Evict{Task: t.ID.ID, Attempt: taskset.AttemptOf(t)})
		}
	}
	return plan
}

// torn reports whether members must all begin again; last is the newest attempt. Either a member is
// leaving or has left the reservation, or waits for a lost node, before that attempt has begun. Or
// the attempt has begun for some, and another waits past due or without a reservation.
func torn(s *esl.State, members []*cluster.Task, last int, r *cluster.Reservation) (broken bool, due time.Time) {
	begun, left, waits := false, false, false
	since := int64(0)
	for _, t := range members {
		switch ph := t.Phase(); {
		case taskset.Staying(t) && taskset.AttemptOf(t) == last:
			begun, since = true, max(since, t.Status.V.Bound)
		case ph.Held():
			left = left || !taskset.Staying(t)
		case !ph.Ended():
			waits = true
			if t.Status.V != nil {
				left, since = left || taskset.Locked(r) && t.Status.Mod > r.Info.Create, max(since, t.Status.V.Ended)
			}
		}
	}
	switch {
	case !begun:
		return left || waits && onLostNode(s, r), due
	case !waits:
		return false, due
	case !taskset.Locked(r):
		return true, due
	}
	due = time.Unix(0, since).Add(within)
	return !due.After(s.Now), due
}

// onLostNode reports whether a granted reservation has a part on a node that takes no tasks.
func onLostNode(s *esl.State, r *cluster.Reservation) bool {
	return taskset.Locked(r) && taskset.Granted(r) && slices.ContainsFunc(r.Grant.V.Nodes, func(at types.GrantNode) bool {
		n := s.View.Nodes[at.Node]
		return n == nil || !n.Eligible()
	})
}

// gathered reports whether no member has a node, or waits at now for its next attempt to be
// allowed; until is when that wait ends.
func gathered(members []*cluster.Task, now time.Time) (all bool, until time.Time) {
	retry := now.UnixNano()
	for _, t := range members {
		switch t.Phase() {
		case types.Bound, types.Running:
			return false, time.Time{}
		case types.Pending:
			if t.Status.V != nil {
				retry = max(retry, t.Status.V.Retry)
			}
		}
	}
	return retry == now.UnixNano(), time.Unix(0, retry)
}

// nextStart says when members without a reservation will run again.
func nextStart(members []*cluster.Task, now time.Time) string {
	held, last := 0, (*cluster.Task)(nil)
	for _, t := range members {
		switch {
		case t.Phase().Held():
			held++
		case t.Phase() == types.Pending && t.Status.V != nil && (last == nil || t.Status.V.Retry > last.Status.V.Retry):
			last = t
		}
	}
	switch {
	case held > 0:
		return fmt.Sprintf("all run again when none of them has a node any more; %d have", held)
	case last != nil && last.Status.V.Retry > now.UnixNano():
		return fmt.Sprintf("all run again when member %s may, in %s", last.ID.ID, time.Unix(0, last.Status.V.Retry).Sub(now).Round(time.Second))
	}
	return "all run again, and are about to wait for a place"
}

// noneStarts reports whether no member will start again. The gang is whole: once one member has
// ended, the running ones end too or are stopped; unless each is alone.
func noneStarts(members []*cluster.Task, alone bool) bool {
	ended := false
	for _, t := range members {
		ended = ended || t.Phase().Ended()
	}
	for _, t := range members {
		if !t.Phase().Ended() && t.Info.V.Stop == nil && (alone || !ended || !t.Phase().Held()) {
			return false
		}
	}
	return true
}
