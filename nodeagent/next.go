package nodeagent

import (
	"fmt"
	"time"

	"github.com/escher-sched/escher/types"
)

// Desired is what is wanted of one attempt.
type Desired struct {
	// Bound tells that its binding exists; what follows is set only then.
	Bound bool
	// Revision is the CreateRevision of the binding.
	Revision int64
	// Void tells that the session it was bound in is over: the task may run
	// elsewhere already.
	Void bool
	// Stop is the binding's.
	Stop *types.Stop
	// MaxRun is how long it may run; 0 is for ever.
	MaxRun time.Duration
	// Spec is what to run, nil until it was fetched.
	Spec *types.Spec
	// SignalBy and KillBy are set while the session cannot be renewed and the
	// attempt must not outlive it: when it is to be signalled, and killed, at
	// the latest.
	SignalBy, KillBy time.Time
}

// fencing reports whether the attempt has to end for want of a session.
func (d *Desired) fencing() bool { return !d.KillBy.IsZero() }

// Seen is what is known of one attempt.
type Seen struct {
	Container ContainerState
	// Since is when its start was begun, Started when its process was started.
	Since, Started time.Time
	// Ran tells that its process was seen to run.
	Ran bool
	// Exit is how its process ended.
	Exit Exit
	// Failed says why it can never run, nil if it may.
	Failed *Exit
	// Watched tells that somebody waits for the end of its process; Looking,
	// that the runtime is being asked what it has; Cancelled, that its start is
	// being given up.
	Watched, Looking, Cancelled bool

	// Cause is why the agent ends it; Signalled and Killed are when it was
	// told.
	Cause             Cause
	Signalled, Killed time.Time

	// Reported is the phase of the report that is stored, Sending of one that
	// is on its way. ReportedTrouble tells that the stored one named a trouble.
	Reported, Sending types.ReportPhase
	ReportedTrouble   bool
	// Refused tells that a report was refused, as the binding is gone.
	Refused bool

	// Trouble is what went wrong last, empty once something went well; nothing
	// is tried again before RetryAt.
	Trouble string
	RetryAt time.Time
}

// ContainerState is how far a container is, as far as it is known.
type ContainerState int

// The states of a container.
const (
	// Unknown: the runtime has to be asked.
	Unknown ContainerState = iota
	// Absent: there is none.
	Absent
	// Starting: the runtime is at it.
	Starting
	// Created: it is there, and its process was never started.
	Created
	// Running: its process runs.
	Running
	// Exited: its process has ended.
	Exited
)

// Cause is why an agent ends a process.
type Cause string

// The causes.
const (
	// Stopped: the binding says so.
	Stopped Cause = "stopped"
	// Overran: it ran longer than it may.
	Overran Cause = "overran"
	// Fenced: the session of the node could not be renewed.
	Fenced Cause = "fenced"
)

// Verb is what an agent does next for an attempt.
type Verb int

// The verbs.
const (
	// Wait for a change, or until Action.Until if that is set.
	Wait Verb = iota
	// Look asks the runtime what it has.
	Look
	// Fetch reads the spec.
	Fetch
	// Start makes the container and starts its process.
	Start
	// CancelStart gives up a start that is under way.
	CancelStart
	// Adopt waits for the end of a process that runs.
	Adopt
	// Signal asks the process to end, for Action.Cause.
	Signal
	// Kill ends the process.
	Kill
	// Send stores Action.Report.
	Send
	// Remove deletes the container, killing what runs in it.
	Remove
	// Forget drops the attempt: there is nothing left of it.
	Forget
)

// Action is the next step for an attempt, and why.
type Action struct {
	Do     Verb
	Reason string
	// Until is set with Wait.
	Until time.Time
	// Cause is set with Signal.
	Cause Cause
	// Report is set with Send.
	Report *types.Report
}

const (
	// defaultGrace is the time between stop signal and kill if nobody says.
	defaultGrace = 10 * time.Second
	// quietStart is how long a start may take before it is reported.
	quietStart = time.Second
	// killAgain is when a kill that had no effect is repeated.
	killAgain = 5 * time.Second
)

// Next says what to do next for one attempt: the whole logic of the agent, without
// I/O and without a clock. After it was done, or something changed, it is asked
// again.
func Next(d Desired, s Seen, now time.Time) Action {
	act := decide(&d, &s, now)
	if now.Before(s.RetryAt) && act.retried() {
		if report := troubled(&d, &s, now); report != nil {
			return *report
		}
		return waitUntil(s.RetryAt, "to try again: "+s.Trouble)
	}
	return act
}

// retried reports whether the action is one that is not done again at once after
// it failed.
func (a Action) retried() bool {
	switch a.Do {
	case Wait, Send, CancelStart, Forget:
		return false
	}
	return true
}

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
