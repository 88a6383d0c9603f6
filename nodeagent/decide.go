package nodeagent

import (
	"fmt"
	"strings"
	"time"

	"github.com/escher-sched/escher/controlplane"
	usage "github.com/escher-sched/escher/controlplane/history"
	"github.com/escher-sched/escher/types"
	"github.com/escher-sched/escher/types/words"
)

// decide is Next without the pause after a failure.
func decide(d *Desired, s *Seen, now time.Time) Action {
	switch {
	case !d.Bound || d.Void:
		return unwanted(d, s)
	case s.Reported.Phase == types.ReportExited:
		return reported(s)
	case s.Failed != nil:
		return reportExit(d, s, exitOf(d, s, s.Failed))
	}
	switch s.Container {
	case Unknown:
		if s.Looking {
			return wait("for the runtime to say what it has")
		}
		return Action{Do: Look, Reason: "the state of its container is not known"}
	case Absent, Created:
		return absent(d, s, now)
	case Starting:
		return starting(d, s, now)
	case Exited:
		return exited(d, s, now)
	}
	return running(d, s, now)
}

// unwanted decides for an attempt without a valid binding. It may run elsewhere already, so it gets
// no grace.
func unwanted(d *Desired, s *Seen) Action {
	why := "it is not bound here"
	if d.Void {
		why = "the session it was bound in is over"
	}
	switch {
	case s.Container == Starting:
		return cancelStart(s, why)
	case s.Container != Absent:
		return Action{Do: Remove, Reason: why}
	case d.Bound:
		return wait("for its release: " + why)
	}
	return Action{Do: Forget, Reason: why}
}

// reported decides for an attempt whose end is stored.
func reported(s *Seen) Action {
	switch s.Container {
	case Absent:
		return wait("for its release: its end is reported")
	case Starting:
		return cancelStart(s, "its end is reported")
	}
	return Action{Do: Remove, Reason: "its end is reported"}
}

// absent decides for an attempt that does not run and, as far as is known, has not run since its
// start or last restart.
func absent(d *Desired, s *Seen, now time.Time) Action {
	pending := restartPending(s)
	if s.Ran || s.Reported.Phase == types.ReportRunning && !pending {
		return reportExit(d, s, gone(d, s))
	}
	cause, _ := stopCause(d, s, now)
	switch {
	case cause != "" && cause != Fenced && cause != Unhealthy:
		return reportExit(d, s, notRun(d, s, cause))
	case d.fencing():
		return wait("for the session: it cannot be renewed at present")
	case d.Spec == nil:
		return Action{Do: Fetch, Reason: "what to run is not known yet"}
	case pending && now.Before(restartAt(s)):
		return waitUntil(now, "for its restart", restartAt(s), d.limit(s.began()))
	}
	return Action{Do: Start, Reason: "it is bound here"}
}

// notRun returns the end of an attempt that ends while it has no process. It keeps how the last
// process ended, if there was one.
func notRun(d *Desired, s *Seen, cause Cause) *types.Report {
	r := &types.Report{
		Stopped: cause == Stopped, Started: s.Reported.Started, Ended: s.Reported.Ended, ExitCode: s.Reported.ExitCode,
	}
	before := " before it started"
	if restartPending(s) {
		before = " while it waited for its restart"
	}
	switch cause {
	case Stopped:
		r.Reason = "stopped" + before
	case Overran:
		r.Reason = overran(d)
	case Expired:
		r.Reason, r.Cause = deadlinePassed+before, types.CauseDeadline
	}
	return r
}

// gone returns the end of a process whose container something else removed.
func gone(d *Desired, s *Seen) *types.Report {
	return &types.Report{Fenced: !d.StopLost, Reason: "its container is gone", Started: nanos(s.began())}
}

func starting(d *Desired, s *Seen, now time.Time) Action {
	cause, reason := stopCause(d, s, now)
	quiet := s.Since.Add(quietStart)
	switch {
	case cause != "":
		return cancelStart(s, reason)
	case d.fencing():
		return cancelStart(s, "the session cannot be renewed")
	case s.Reported.Phase != "" || s.Sending != nil || s.Refused:
		return waitUntil(now, "for its start", d.limit(s.began()))
	case now.Before(quiet):
		return waitUntil(now, "for its start", quiet, d.limit(s.began()))
	}
	return Action{Do: Send, Reason: "its start takes long", Report: reportStarting(d, s)}
}

// cancelStart cancels a start, once. The result shows when the start has ended.
func cancelStart(s *Seen, why string) Action {
	if s.Cancelled {
		return wait("for its start to be given up")
	}
	return Action{Do: CancelStart, Reason: why}
}

// troubled returns the report of why an attempt does not start: the first trouble after quietStart,
// later ones every troubleGap at most; nil means no report.
func troubled(d *Desired, s *Seen, now time.Time) *Action {
	early := s.Since.IsZero() || now.Before(s.Since.Add(quietStart))
	started := s.Ran || s.Reported.Phase == types.ReportExited || s.Reported.Phase == types.ReportRunning && !restartPending(s)
	if !d.Bound || d.Void || early || started || s.Trouble == "" || s.Sending != nil || s.Refused {
		return nil
	}
	if s.Reported.Reason == s.Trouble || s.Reported.Reason != "" && now.Before(s.ReportedAt.Add(troubleGap)) {
		return nil
	}
	return &Action{Do: Send, Reason: "it does not start", Report: reportStarting(d, s)}
}

// reportStarting returns a report of what prevents the start or restart of a process.
func reportStarting(d *Desired, s *Seen) *types.Report {
	r := &types.Report{Phase: types.ReportStarting, Binding: d.Revision, Image: s.Image}
	if restartPending(s) {
		again := s.Reported
		r = &again
	}
	r.Reason = s.Trouble
	return r
}

func running(d *Desired, s *Seen, now time.Time) Action {
	if s.Restart < s.Reported.Restarts {
		return Action{Do: Remove, Reason: "its end is reported, and it is to be run again"}
	}
	if !s.Watched {
		return Action{Do: Adopt, Reason: "it runs"}
	}
	cause, reason := stopCause(d, s, now)
	switch {
	case cause != "" && (s.Signalled.IsZero() || s.Cause == Unhealthy && cause != Unhealthy):
		return Action{Do: Signal, Cause: cause, Reason: reason}
	case cause != "":
		return ending(d, s, now)
	case d.Spec == nil && !d.fencing() && !now.Before(s.RetryAt):
		return Action{Do: Fetch, Reason: "its grace and its checks are not known yet"}
	case d.Spec != nil && untold(s):
		// Wait for its checks: a report without a health counts as healthy.
		return Action{Do: Send, Reason: "it runs", Report: runs(d, s)}
	}
	return attended(d, s, now)
}

// attended decides for a running process whose report says that it runs.
func attended(d *Desired, s *Seen, now time.Time) Action {
	warning := warnNow(d, s, now)
	unwell, from := untoldHealth(d, s)
	switch {
	case warning != "":
		return Action{Do: Warn, Reason: warning}
	case !s.ServeAt.IsZero() && !now.Before(s.ServeAt):
		return Action{Do: Serve, Reason: "its task socket could not be served before"}
	case hasChecks(d) && !s.Probing:
		return Action{Do: Probe, Reason: "it has checks"}
	case unwell && !now.Before(from):
		return Action{Do: Send, Reason: "its health is another", Report: runs(d, s)}
	}
	until := s.RetryAt
	if d.Spec != nil {
		until = time.Time{}
	}
	stop, _ := stopAt(d, s)
	return waitUntil(now, "for its end", until, d.limit(s.began()), d.SignalBy, warnAt(d, s), stop, from, s.ServeAt)
}

// untold reports whether the agent must report that the process runs: for the first time, after a
// restart, or with the digest of its image.
func untold(s *Seen) bool {
	told := &s.Reported
	if s.Sending != nil {
		told = s.Sending
	}
	runs := told.Phase == types.ReportRunning && told.Ended == 0 && told.Restarts >= s.Restart
	return !s.Refused && (!runs || told.Image == "" && s.Image != "")
}

// stopCause returns why the process must end now; "" if it need not. A later cause replaces
// Unhealthy only.
func stopCause(d *Desired, s *Seen, now time.Time) (Cause, string) {
	switch {
	case s.Cause != "" && s.Cause != Unhealthy:
		return s.Cause, "it was being ended before"
	case d.fencing() && !now.Before(d.SignalBy):
		return Fenced, "the session could not be renewed"
	case d.Stop != nil && !stopHeld(d, s, now):
		return Stopped, "stop: " + d.Stop.Reason
	case !d.Deadline.IsZero() && !now.Before(d.Deadline):
		return Expired, deadlinePassed
	case d.MaxRun > 0 && !s.began().IsZero() && !now.Before(s.began().Add(d.MaxRun)):
		return Overran, overran(d)
	case s.Cause == Unhealthy || s.Health.Ends:
		return Unhealthy, unhealthyText(s)
	}
	return "", ""
}

// deadlinePassed is the reason of an attempt that ends at its deadline.
const deadlinePassed = "its deadline passed"

func overran(d *Desired) string { return fmt.Sprintf("ran longer than %s", d.MaxRun) }

// ending decides for a process that got its stop signal.
func ending(d *Desired, s *Seen, now time.Time) Action {
	at := s.Signalled.Add(grace(d))
	if d.fencing() && d.KillBy.Before(at) {
		at = d.KillBy
	}
	if !s.Killed.IsZero() {
		at = s.Killed.Add(killAgain)
	}
	if now.Before(at) {
		return waitUntil(now, "for its end: it was signalled", at)
	}
	return Action{Do: Kill, Reason: fmt.Sprintf("it did not end within %s", now.Sub(s.Signalled).Round(time.Millisecond))}
}

// grace returns the time between stop signal and kill.
func grace(d *Desired) time.Duration {
	if d.Stop != nil && d.Stop.Grace > 0 {
		return d.Stop.Grace
	}
	return controlplane.GraceOf(d.Spec)
}

// exited decides for an attempt whose process has ended: restart it, or report its end.
func exited(d *Desired, s *Seen, now time.Time) Action {
	switch {
	case s.Restart < s.Reported.Restarts:
		return Action{Do: Remove, Reason: "it is to be run again"}
	case (s.Cause == "" || s.Cause == Unhealthy) && d.Spec == nil:
		return Action{Do: Fetch, Reason: "whether it is to be run again is not known yet"}
	}
	if r := restart(d, s, now); r != nil {
		return send(s, r, "it has ended, and is to be run again")
	}
	return reportExit(d, s, exitOf(d, s, &s.Exit))
}

// reportExit stores how the attempt ended, once.
func reportExit(d *Desired, s *Seen, r *types.Report) Action {
	r.Phase, r.Binding = types.ReportExited, d.Revision
	r.Image, r.Restarts = s.Image, max(s.Restart, s.Reported.Restarts)
	return send(s, r, "it has ended")
}

// send stores a report of an end, once.
func send(s *Seen, r *types.Report, reason string) Action {
	switch {
	case s.sending(types.ReportExited) || s.Sending != nil && s.Sending.Phase == r.Phase && s.Sending.Restarts == r.Restarts && s.Sending.Ended != 0:
		return wait("for its report to be stored")
	case s.Refused:
		return wait("for its binding to go: its report was refused")
	}
	return Action{Do: Send, Reason: reason, Report: r}
}

// exitOf returns the report of a known end.
func exitOf(d *Desired, s *Seen, exit *Exit) *types.Report {
	r := &types.Report{
		ExitCode: exit.Code, Reason: exitReason(d, exit), Used: usage.Used(exit.CPU, exit.At.Sub(s.began()), exit.Memory),
		// A process that ended by itself counts by its exit code, unless the stop alone kept it
		// from a restart, or it was warned of the stop.
		Stopped: s.Cause == Stopped || s.Failed == nil && d.Stop != nil && (restarts(d, s) || !s.Warned.IsZero()),
		// The process has ended for certain, so another attempt is safe.
		Fenced:  (s.Cause == Fenced || s.Cause == "" && exit.Lost) && !d.StopLost,
		Started: nanos(s.began()), Ended: nanos(exit.At),
	}
	if exit.OOMKilled && exit.Code != 0 {
		r.Cause = types.CauseMemory
	}
	switch {
	case s.Cause == Overran:
		r.Reason, r.Cause = overran(d), ""
	case s.Cause == Expired:
		r.Reason, r.Cause = deadlinePassed, types.CauseDeadline
	case s.Cause == Fenced:
		r.Reason, r.Cause = "the node could not renew its session in time", types.CauseFenced
	case s.Cause == Unhealthy:
		r.Reason, r.Cause = unhealthyText(s), ""
	}
	if s.Failed == nil && s.Restart > 0 && (s.Cause == "" && exit.Code != 0 || s.Cause == Unhealthy) {
		r.Reason = strings.TrimPrefix(fmt.Sprintf("%s, after %s", r.Reason, words.Count(s.Restart, "restart")), ", ")
	}
	return r
}

// exitReason returns why a process ended, where its exit code does not tell.
func exitReason(d *Desired, exit *Exit) string {
	switch {
	case exit.OOMKilled && exit.Code != 0 && d.Memory > 0 && d.Memory != types.Inf:
		return "out of memory: its limit is " + d.Memory.Format(types.Memory)
	case exit.OOMKilled && exit.Code != 0:
		return "out of memory: it had no limit, and the node had no more"
	}
	return exit.Reason
}

// endText returns how the process ended, for people.
func endText(d *Desired, s *Seen) string {
	if s.Cause == Unhealthy {
		return unhealthyText(s)
	}
	return exitText(d, &s.Exit)
}

// exitText returns how a process ended, for people.
func exitText(d *Desired, exit *Exit) string {
	if reason := exitReason(d, exit); reason != "" {
		return reason
	}
	return fmt.Sprintf("exit code %d", exit.Code)
}

// nanos returns t as reports store it: 0 if unknown.
func nanos(t time.Time) int64 {
	if t.IsZero() {
		return 0
	}
	return t.UnixNano()
}

func wait(reason string) Action { return Action{Do: Wait, Reason: reason} }

// waitUntil waits until the first of the moments that are in the future, if there is one.
func waitUntil(now time.Time, reason string, moments ...time.Time) Action {
	act := wait(reason)
	for _, at := range moments {
		if at.After(now) {
			act.Until = first(act.Until, at)
		}
	}
	return act
}

// first returns the earlier of two times; the zero time means never.
func first(a, b time.Time) time.Time {
	if a.IsZero() || !b.IsZero() && b.Before(a) {
		return b
	}
	return a
}
