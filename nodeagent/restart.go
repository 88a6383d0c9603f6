package nodeagent

import (
	"fmt"
	"time"

	"github.com/escher-sched/escher/types"
)

// A restart in place has three steps, each of which is seen by an agent that begins
// anew after it: the report says how often the process was to be run again, the
// container of the last time is removed, and one that carries the new number is
// started. A report of an attempt that runs has Ended set from the first step until
// it is stored that the process runs again.

// restartPending reports whether it is stored that the process is to be run again,
// and not that it was.
func restartPending(s *Seen) bool {
	return s.Reported.Phase == types.ReportRunning && s.Reported.Ended != 0
}

// behind reports whether the container is that of a process which is to be run again: it
// is to be removed.
func behind(s *Seen) bool { return restartPending(s) && s.Restart < s.Reported.Restarts }

// forgetRun forgets the process of a container that was removed to be run again.
func forgetRun(s *Seen) { s.Ran, s.Exit, s.Started = false, Exit{}, time.Time{} }

// restartAt is when a process is run again whose restart is pending.
func restartAt(s *Seen) time.Time {
	return time.Unix(0, s.Reported.Ended).Add(s.Reported.Delay)
}

// restarts reports whether a process that has ended is to be run again by its spec,
// if nothing else is in the way: it ended by itself, or for its health, and not too
// often.
func restarts(d *Desired, s *Seen) bool {
	if s.Cause != "" && s.Cause != Unhealthy || d.Spec == nil || d.Spec.Restart == nil {
		return false
	}
	if s.Cause == "" && s.Exit.Lost && d.StopLost {
		return false // It is to run at most once where its end is not known.
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

// restart is the report with which a process that has ended is run again, nil if it
// is not to be.
func restart(d *Desired, s *Seen, now time.Time) *types.Report {
	if cause, _ := stopCause(d, s, now); cause != "" && cause != Unhealthy || !restarts(d, s) {
		return nil
	}
	policy := d.Spec.Restart
	ended := s.Exit.At
	if ended.IsZero() || ended.After(now) {
		ended = now // The wall clock was set back: nobody waits for it.
	}
	delay := policy.Next(s.Reported.Delay, s.Exit.At.Sub(s.Started))
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
