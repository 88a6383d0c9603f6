package turn

import (
	"cmp"
	"slices"
	"strings"
	"time"

	"github.com/escher-sched/escher/controlplane/cluster"
	"github.com/escher-sched/escher/controlplane/history"
	"github.com/escher-sched/escher/esl"
	"github.com/escher-sched/escher/esl/taskset"
	"github.com/escher-sched/escher/types"
)

// The engine of this package: what waits of a job is raised by a level, and the level changes seldom,
// because each change is a write.

// raise returns the plan that raises the waiting tasks and reservations of a job. level returns how far
// one is raised now, and in how long that will be more; 0 means never.
func raise(s *esl.State, reason string, level func(w taskset.Wish) (by int, next time.Duration)) esl.Plan {
	plan := esl.Plan{Reason: reason, Idle: "nothing waits"}
	for _, w := range waiting(s) {
		plan.Idle = "what waits has its place in the order"
		by, next := level(w)
		if next > 0 {
			plan.RequeueAfter = taskset.Earliest(plan.RequeueAfter, s.Now.Add(next))
		}
		if by != w.Raised && len(plan.Raise) < taskset.AtOnce {
			plan.Raise = append(plan.Raise, esl.Raise{ID: w.ID, Reservation: w.Reservation, By: by})
		}
	}
	return plan
}

// waiting returns what waits of the job, and is behind nothing that has not ended.
func waiting(s *esl.State) []taskset.Wish {
	out := taskset.WaitingTasks(s)
	for _, w := range taskset.WaitingReservations(s) {
		closed, since := behindAny(s, w.Ways)
		if closed {
			continue
		}
		if at := time.Unix(0, since); at.After(w.Since) {
			w.Since = at
		}
		out = append(out, w)
	}
	return out
}

// behindAny is taskset.Behind for all bundles of a reservation.
func behindAny(s *esl.State, ways [][]types.Bundle) (closed bool, since int64) {
	for _, b := range slices.Concat(ways...) {
		shut, at := taskset.Behind(s, b.Requests)
		closed, since = closed || shut, max(since, at)
	}
	return closed, since
}

// tasksOf returns the tasks that wait as one: a task, or with a reservation all waiting tasks of the job.
func tasksOf(s *esl.State, w taskset.Wish) []*cluster.Task {
	if !w.Reservation {
		return []*cluster.Task{s.View.Task(cluster.ID{Namespace: s.Namespace, ID: w.ID})}
	}
	return slices.DeleteFunc(slices.Clone(s.Members()), func(t *cluster.Task) bool { return !taskset.IsWaiting(t) })
}

// longestRun returns how long the longest of what waits may run, or of tasks without a limit usually runs; 0
// if one of the tasks has neither.
func longestRun(s *esl.State, w taskset.Wish) (longest time.Duration) {
	for _, t := range tasksOf(s, w) {
		length := cmp.Or(t.Info.V.MaxRun, usualRun(s, t))
		if length == 0 {
			return 0
		}
		longest = max(longest, length)
	}
	return longest
}

// usualRun returns the median of the past runs of a task; 0 if there are none.
func usualRun(s *esl.State, t *cluster.Task) time.Duration {
	if h := s.History(t); h != nil {
		return time.Duration(history.Quantile(h.Length, 0.5)) * time.Millisecond
	}
	return 0
}

// The highest levels: that of the smallest part, and that of the longest wait.
const (
	mostHalved = 20
	mostAged   = 1000
)

// halvings returns how many times a whole can be halved until it is a part.
func halvings(whole, part time.Duration) (times int) {
	for times < mostHalved && whole>>(times+1) >= part {
		times++
	}
	return times
}

// aged returns by how much a wait raises, by one per every up to limit, and in how long it will be more;
// 0 means never.
func aged(wait, every time.Duration, limit int) (by int, next time.Duration) {
	wait = max(wait, 0)
	if wait/every >= time.Duration(limit) {
		return limit, 0
	}
	return int(wait / every), every - wait%every
}

// waits returns what a task waits as, itself or with its reservation; ok is false if that is not raised.
func waits(s *esl.State, task string) (w taskset.Wish, ok bool) {
	t, ok := taskset.Waits(s, task)
	if !ok || t.Phase() != types.Pending {
		return w, false
	}
	for _, w := range waiting(s) {
		mine := w.ID == task
		if w.Reservation {
			mine = slices.ContainsFunc(t.Info.V.Requests, func(x types.Request) bool { return strings.HasSuffix(x.Name, "@"+w.ID) })
		}
		if mine && w.Raised != 0 {
			return w, true
		}
	}
	return w, false
}
