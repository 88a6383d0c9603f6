package nodeagent

import (
	"fmt"
	"time"

	"github.com/escher-sched/escher/types"
	"github.com/escher-sched/escher/types/backoff"
)

// A restart in place has three steps, each visible to a restarted agent: the agent stores a report
// with the new number of restarts, it removes the old container, and it starts a container with the
// new number. From the first step until the agent stores that the process runs again, the report of
// the running attempt has Ended set.

// restartPending reports whether a restart of the process is stored, but not yet that it runs
// again.
func restartPending(s *Seen) bool {
	return s.Reported.Phase == types.ReportRunning && s.Reported.Ended != 0
}

// behind reports whether the container is that of the process before a pending restart: the agent
// must remove it.
func behind(s *Seen) bool { return restartPending(s) && s.Restart < s.Reported.Restarts }

// forgetRun resets the process of a container that was removed for a restart.
func forgetRun(s *Seen) { s.Ran, s.Exit, s.Started = false, Exit{}, time.Time{} }

// restartAt returns when to run the process of a pending restart.
func restartAt(s *Seen) time.Time {
	return time.Unix(0, s.Reported.Ended).Add(s.Reported.Delay)
}

// restarts reports whether the restart policy of its spec lets an ended process run again: it ended
// by itself or because of its health, and is below the limit of restarts.
func restarts(d *Desired, s *Seen) bool {
	if s.Cause != "" && s.Cause != Unhealthy || d.Spec == nil || d.Spec.Restart == nil {
		return false
	}
	if s.Cause == "" && s.Exit.Lost && d.StopLost {
		return false // Its end is unknown, and it must run at most once.
	}
	policy := d.Spec.Restart
	if policy.Limit > 0 && s.Restart >= policy.Limit {
		return false
	}
	switch policy.When {
	case types.RestartAlways:
		return true
	case types.RestartOnFailure:
		return s.Exit.Code != 0 || s.Exit.Reason != "" || s.Cause == Unhealthy
	}
	return false
}

// restart returns the report that restarts an ended process; nil if it does not restart.
func restart(d *Desired, s *Seen, now time.Time) *types.Report {
	if cause, _ := stopCause(d, s, now); cause != "" && cause != Unhealthy || !restarts(d, s) {
		return nil
	}
	policy := d.Spec.Restart
	ended := s.Exit.At
	if ended.IsZero() || ended.After(now) {
		ended = now // The wall clock was set back: do not wait for it.
	}
	delay := backoff.Next(policy, s.Reported.Delay, s.Exit.At.Sub(s.Started))
	which := fmt.Sprintf("restart %d", s.Restart+1)
	if policy.Limit > 0 {
		which = fmt.Sprintf("%d of %d", s.Restart+1, policy.Limit)
	}
	var health types.Health
	if hasChecks(d) {
		health = types.HealthStarting
	}
	return &types.Report{
		Phase: types.ReportRunning, Binding: d.Revision, Image: s.Image, Health: health,
		Started: nanos(s.began()), Ended: nanos(ended), ExitCode: s.Exit.Code,
		Reason:   fmt.Sprintf("%s: restarts in %s (%s)", endText(d, s), delay, which),
		Restarts: s.Restart + 1, Delay: delay,
	}
}
