package nodeagent

import (
	"fmt"
	"time"

	"github.com/escher-sched/escher/types"
)

// decide is Next without regard to what failed a moment ago.
func decide(d *Desired, s *Seen, now time.Time) Action {
	switch {
	case !d.Bound || d.Void:
		return unwanted(d, s)
	case s.Reported == types.ReportExited:
		return reported(s)
	case s.Failed != nil || s.Container == Exited:
		return reportExit(d, s, exitOf(d, s))
	}
	switch s.Container {
	case Unknown:
		if s.Looking {
			return wait("for the runtime to say what it has")
		}
		return Action{Do: Look, Reason: "the state of its container is not known"}
	case Absent, Created:
		return absent(d, s)
	case Starting:
		return starting(d, s, now)
	}
	return running(d, s, now)
}

// unwanted is for an attempt without a valid binding: it may run elsewhere, so
// there is no grace.
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

// reported is for an attempt whose end is stored.
func reported(s *Seen) Action {
	switch s.Container {
	case Absent:
		return wait("for its release: its end is reported")
	case Starting:
		return cancelStart(s, "its end is reported")
	}
	return Action{Do: Remove, Reason: "its end is reported"}
}

// absent is for an attempt that does not run and has not run, as far as is known.
func absent(d *Desired, s *Seen) Action {
	switch {
	case s.Ran || s.Reported == types.ReportRunning:
		return reportExit(d, s, gone(s))
	case d.Stop != nil:
		return reportExit(d, s, &types.Report{Stopped: true, Reason: "stopped before it started"})
	case d.fencing():
		return wait("for the session: it cannot be renewed at present")
	case d.Spec == nil:
		return Action{Do: Fetch, Reason: "what to run is not known yet"}
	}
	return Action{Do: Start, Reason: "it is bound here"}
}

// gone is the end of a process whose container somebody took away.
func gone(s *Seen) *types.Report {
	return &types.Report{Fenced: true, Reason: "its container is gone", Started: nanos(s.Started)}
}

func starting(d *Desired, s *Seen, now time.Time) Action {
	switch {
	case d.Stop != nil:
		return cancelStart(s, "it is to be stopped")
	case d.fencing():
		return cancelStart(s, "the session cannot be renewed")
	case s.Reported != "" || s.Sending != "" || s.Refused:
		return wait("for its start")
	case now.Before(s.Since.Add(quietStart)):
		return waitUntil(s.Since.Add(quietStart), "for its start")
	}
	return Action{Do: Send, Reason: "its start takes long", Report: reportStarting(d, s)}
}

// cancelStart gives up a start, once: what came of it is seen when it has ended.
func cancelStart(s *Seen, why string) Action {
	if s.Cancelled {
		return wait("for its start to be given up")
	}
	return Action{Do: CancelStart, Reason: why}
}

// troubled reports, once, what an attempt that does not get started suffers from.
func troubled(d *Desired, s *Seen, now time.Time) *Action {
	early := s.Since.IsZero() || now.Before(s.Since.Add(quietStart))
	started := s.Ran || s.Reported == types.ReportRunning || s.Reported == types.ReportExited
	if !d.Bound || d.Void || early || started || s.ReportedTrouble || s.Sending != "" || s.Refused {
		return nil
	}
	return &Action{Do: Send, Reason: "it does not start", Report: reportStarting(d, s)}
}

func reportStarting(d *Desired, s *Seen) *types.Report {
	return &types.Report{Phase: types.ReportStarting, Binding: d.Revision, Reason: s.Trouble}
}

func running(d *Desired, s *Seen, now time.Time) Action {
	if !s.Watched {
		return Action{Do: Adopt, Reason: "it runs"}
	}
	cause, reason := stopCause(d, s, now)
	switch {
	case cause != "" && s.Signalled.IsZero():
		return Action{Do: Signal, Cause: cause, Reason: reason}
	case cause != "":
		return ending(d, s, now)
	case s.Reported != types.ReportRunning && s.Sending != types.ReportRunning && !s.Refused:
		return Action{Do: Send, Reason: "it runs", Report: &types.Report{
			Phase: types.ReportRunning, Binding: d.Revision, Started: nanos(s.Started),
		}}
	case d.Spec == nil && !d.fencing() && !now.Before(s.RetryAt):
		return Action{Do: Fetch, Reason: "its grace is not known yet"}
	}
	until := s.RetryAt
	if d.Spec != nil {
		until = time.Time{}
	}
	if d.MaxRun > 0 {
		until = first(until, s.Started.Add(d.MaxRun))
	}
	return waitUntil(first(until, d.SignalBy), "for its end")
}

// stopCause says why the process is to end now, if it is. What was begun is not
// taken back.
func stopCause(d *Desired, s *Seen, now time.Time) (Cause, string) {
	switch {
	case s.Cause != "":
		return s.Cause, "it was being ended before"
	case d.fencing() && !now.Before(d.SignalBy):
		return Fenced, "the session could not be renewed"
	case d.Stop != nil:
		return Stopped, "stop: " + d.Stop.Reason
	case d.MaxRun > 0 && !now.Before(s.Started.Add(d.MaxRun)):
		return Overran, overran(d)
	}
	return "", ""
}

func overran(d *Desired) string { return fmt.Sprintf("ran longer than %s", d.MaxRun) }

// ending is for a process that was signalled.
func ending(d *Desired, s *Seen, now time.Time) Action {
	at := s.Signalled.Add(grace(d))
	if d.fencing() && d.KillBy.Before(at) {
		at = d.KillBy
	}
	if !s.Killed.IsZero() {
		at = s.Killed.Add(killAgain)
	}
	if now.Before(at) {
		return waitUntil(at, "for its end: it was signalled")
	}
	return Action{Do: Kill, Reason: fmt.Sprintf("it did not end within %s", now.Sub(s.Signalled).Round(time.Millisecond))}
}

// grace is the time between stop signal and kill.
func grace(d *Desired) time.Duration {
	switch {
	case d.Stop != nil && d.Stop.Grace > 0:
		return d.Stop.Grace
	case d.Spec != nil && d.Spec.Grace > 0:
		return d.Spec.Grace
	}
	return defaultGrace
}

// reportExit stores how the attempt ended, once.
func reportExit(d *Desired, s *Seen, r *types.Report) Action {
	switch {
	case s.Sending == types.ReportExited:
		return wait("for its report to be stored")
	case s.Refused:
		return wait("for its binding to go: its report was refused")
	}
	r.Phase, r.Binding = types.ReportExited, d.Revision
	return Action{Do: Send, Reason: "it has ended", Report: r}
}

// exitOf is the report of an end that the runtime knows.
func exitOf(d *Desired, s *Seen) *types.Report {
	exit := &s.Exit
	if s.Failed != nil {
		exit = s.Failed
	}
	r := &types.Report{
		ExitCode: exit.Code, Reason: exit.Reason,
		Stopped: s.Cause == Stopped, Fenced: s.Cause == Fenced,
		Started: nanos(s.Started), Ended: nanos(exit.At),
	}
	switch {
	case s.Cause == Overran:
		r.Reason = overran(d)
	case s.Cause == Fenced:
		r.Reason = "the node could not renew its session in time"
	case exit.OOMKilled && exit.Code != 0:
		r.Reason = "out of memory"
	}
	return r
}

// nanos is t as reports have it: 0 if it is not known.
func nanos(t time.Time) int64 {
	if t.IsZero() {
		return 0
	}
	return t.UnixNano()
}

func wait(reason string) Action { return Action{Do: Wait, Reason: reason} }

func waitUntil(t time.Time, reason string) Action {
	return Action{Do: Wait, Until: t, Reason: reason}
}

// first returns the earlier of two times; the zero time is never.
func first(a, b time.Time) time.Time {
	if a.IsZero() || !b.IsZero() && b.Before(a) {
		return b
	}
	return a
}
