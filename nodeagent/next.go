package nodeagent

import (
	"time"

	"github.com/escher-sched/escher/types"
)

// Desired is the desired state of one attempt.
type Desired struct {
	// Bound reports whether its binding exists. The other fields are set only then.
	Bound bool
	// Revision is the CreateRevision of the binding.
	Revision int64
	// Void reports whether the session of its binding is over: the task may already run elsewhere.
	Void bool
	// Stop is that of the binding.
	Stop *types.Stop
	// MaxRun limits its running time, restarts included; 0 means no limit.
	MaxRun time.Duration
	// Deadline is the wall-clock time by which it must have ended; zero means none.
	Deadline time.Time
	// Memory is its memory limit; 0 means none.
	Memory types.Quantity
	// Spec is what to run; nil until it is read.
	Spec *types.Spec
	// StopLost reports whether it fails for good when it ends because the session is lost.
	StopLost bool
	// SignalBy and KillBy are set while the session cannot be renewed and the attempt must not
	// outlive it: the latest times for its signal and its kill.
	SignalBy, KillBy time.Time
}

// limit returns when an attempt that began at that time must end; zero means never.
func (d *Desired) limit(began time.Time) time.Time {
	if d.MaxRun > 0 && !began.IsZero() {
		return first(d.Deadline, began.Add(d.MaxRun))
	}
	return d.Deadline
}

// fencing reports whether the attempt must end because the session cannot be renewed.
func (d *Desired) fencing() bool { return !d.KillBy.IsZero() }

// Seen is the observed state of one attempt.
type Seen struct {
	Container ContainerState
	// Restart is the number of restarts before this container.
	Restart int
	// Image is the image by digest, once it is known.
	Image string
	// Since is when the agent learned of it, Started when the process of this container started.
	Since, Started time.Time
	// Ran reports whether a process ran since the last restart was stored.
	Ran bool
	// Exit is how its process ended.
	Exit Exit
	// Failed is why it can never run; nil if it may.
	Failed *Exit
	// Watched reports whether a goroutine waits for the end of its process; Looking, whether the
	// runtime is being listed; Cancelled, whether its start is being canceled.
	Watched, Looking, Cancelled bool

	// ServeAt is when to try again to serve the task socket of an adopted process; zero if it is
	// served.
	ServeAt time.Time

	// Health is the result of the checks, and Probing reports whether they are being made. HealthAt
	// is when this agent last stored a change of Health.
	Health   Health
	Probing  bool
	HealthAt time.Time
	// Warned is the time of the warning.
	Warned time.Time

	// Cause is why the agent ends it; Signalled and Killed are the times of the signals.
	Cause             Cause
	Signalled, Killed time.Time

	// Reported is the stored report, empty if there is none, and ReportedAt the time this agent
	// stored it. Sending is the report on its way; nil if there is none.
	Reported   types.Report
	ReportedAt time.Time
	Sending    *types.Report
	// Refused reports whether a report was refused because the binding is gone.
	Refused bool

	// Trouble is the last failure, empty after a success. No action is retried before RetryAt.
	Trouble string
	RetryAt time.Time
}

// sending reports whether a report of that phase is on its way.
func (s *Seen) sending(phase types.ReportPhase) bool {
	return s.Sending != nil && s.Sending.Phase == phase
}

// began returns when the first process of the attempt started; zero if none did.
func (s *Seen) began() time.Time {
	if s.Reported.Started != 0 {
		return time.Unix(0, s.Reported.Started)
	}
	return s.Started
}

// ContainerState is the state of a container, as far as it is known.
type ContainerState int

// The states of a container.
const (
	// Unknown: the agent must ask the runtime.
	Unknown ContainerState = iota
	// Absent: there is no container.
	Absent
	// Starting: the runtime is starting it.
	Starting
	// Created: the container exists, and its process never started.
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
	// Stopped: the binding requests it.
	Stopped Cause = "stopped"
	// Overran: it ran longer than its limit.
	Overran Cause = "overran"
	// Expired: its deadline passed.
	Expired Cause = "deadline"
	// Fenced: the session of the node could not be renewed.
	Fenced Cause = "fenced"
	// Unhealthy: it failed a check that ends it. It may run again.
	Unhealthy Cause = "unhealthy"
)

// Verb is the kind of an agent's next action for an attempt.
type Verb int

// The verbs.
const (
	// Wait for a change, or until Action.Until if that is set.
	Wait Verb = iota
	// Look lists the containers of the runtime.
	Look
	// Fetch reads the spec.
	Fetch
	// Start makes the container and starts its process.
	Start
	// CancelStart cancels a start that is under way.
	CancelStart
	// Adopt waits for the end of a running process.
	Adopt
	// Serve serves the task socket of a running process.
	Serve
	// Probe starts the checks of a process.
	Probe
	// Warn sends the process the warning that its spec requests.
	Warn
	// Signal sends the process its stop signal, for Action.Cause.
	Signal
	// Kill kills the process.
	Kill
	// Send stores Action.Report.
	Send
	// Remove deletes the container, and kills what runs in it.
	Remove
	// Forget drops an attempt of which nothing is left.
	Forget
)

// Action is the next action for an attempt, and its reason.
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
	// killAgain is the time after which a kill without effect is repeated.
	killAgain = 5 * time.Second
)

// Next decides what to do next for one attempt. It is the whole logic of the agent, without I/O and
// without a clock. The agent calls it again after each action and each change.
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

// retried reports whether the action waits for RetryAt after a failure.
func (a Action) retried() bool {
	switch a.Do {
	case Wait, Send, CancelStart, Forget:
		return false
	}
	return true
}
