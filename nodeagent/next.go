package nodeagent

import (
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
	// MaxRun is how long it may run, restarts included; 0 is for ever.
	MaxRun time.Duration
	// Deadline is when it has to have ended, by the wall clock; zero is never.
	Deadline time.Time
	// Memory is its limit; 0 is none.
	Memory types.Quantity
	// Spec is what to run, nil until it was fetched.
	Spec *types.Spec
	// StopLost tells that it fails for good when it is ended for want of a session.
	StopLost bool
	// SignalBy and KillBy are set while the session cannot be renewed and the
	// attempt must not outlive it: when it is to be signalled, and killed, at
	// the latest.
	SignalBy, KillBy time.Time
}

// limit is when an attempt that began then has to end, zero is never.
func (d *Desired) limit(began time.Time) time.Time {
	if d.MaxRun > 0 && !began.IsZero() {
		return first(d.Deadline, began.Add(d.MaxRun))
	}
	return d.Deadline
}

// fencing reports whether the attempt has to end for want of a session.
func (d *Desired) fencing() bool { return !d.KillBy.IsZero() }

// Seen is what is known of one attempt.
type Seen struct {
	Container ContainerState
	// Restart is how often the attempt had been run before this container.
	Restart int
	// Image is the image by digest, once it is known.
	Image string
	// Since is when the agent learnt of it, Started when the process of this
	// container was started.
	Since, Started time.Time
	// Ran tells that a process was seen to run since the last restart was stored.
	Ran bool
	// Exit is how its process ended.
	Exit Exit
	// Failed says why it can never run, nil if it may.
	Failed *Exit
	// Watched tells that somebody waits for the end of its process; Looking,
	// that the runtime is being asked what it has; Cancelled, that its start is
	// being given up.
	Watched, Looking, Cancelled bool

	// ServeAt is when to try again to serve the task socket of a process that was
	// adopted without one, zero if it is served.
	ServeAt time.Time

	// Health is what the checks of its process say, and Probing that they are made;
	// HealthAt is when this agent stored a change of it last.
	Health   Health
	Probing  bool
	HealthAt time.Time
	// Warned is when the process got its warning.
	Warned time.Time

	// Cause is why the agent ends it; Signalled and Killed are when it was
	// told.
	Cause             Cause
	Signalled, Killed time.Time

	// Reported is the report that is stored, empty if there is none, and
	// ReportedAt when this agent stored it; Sending is the one on its way, if any.
	Reported   types.Report
	ReportedAt time.Time
	Sending    *types.Report
	// Refused tells that a report was refused, as the binding is gone.
	Refused bool

	// Trouble is what went wrong last, empty once something went well; nothing
	// is tried again before RetryAt.
	Trouble string
	RetryAt time.Time
}

// sending reports whether a report of that phase is on its way.
func (s *Seen) sending(phase types.ReportPhase) bool {
	return s.Sending != nil && s.Sending.Phase == phase
}

// began is when the first process of the attempt was started, zero if none was.
func (s *Seen) began() time.Time {
	if s.Reported.Started != 0 {
		return time.Unix(0, s.Reported.Started)
	}
	return s.Started
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
	// Expired: its deadline passed.
	Expired Cause = "deadline"
	// Fenced: the session of the node could not be renewed.
	Fenced Cause = "fenced"
	// Unhealthy: it failed a check after which it is to be ended, and maybe run again.
	Unhealthy Cause = "unhealthy"
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
	// Serve serves the task socket of a process that runs.
	Serve
	// Probe begins to make the checks of a process.
	Probe
	// Warn sends the process the warning that it asks for.
	Warn
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
	// quietStart is how long a start may take before it is reported.
	quietStart = time.Second
	// troubleGap is the least time between two reports of trouble.
	troubleGap = 30 * time.Second
	// serveGap is the time between two attempts to serve a task socket.
	serveGap = 2 * time.Second
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
		return waitUntil(now, "to try again: "+s.Trouble, s.RetryAt, d.limit(s.began()))
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
