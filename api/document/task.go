package document

import (
	"cmp"
	"time"

	"github.com/escher-sched/escher/controlplane"
	"github.com/escher-sched/escher/types"
)

// Task is a task with its status.
type Task struct {
	ID   string `json:"id"`
	Name string `json:"name,omitempty"`
	Job  string `json:"job,omitempty"`
	// Index is the place of a task in its job.
	Index  *int              `json:"index,omitempty"`
	Labels map[string]string `json:"labels,omitempty"`
	// User is the submitter, as a server has authenticated it.
	User  string      `json:"user,omitempty"`
	Phase types.Phase `json:"phase"`
	// Ending says why a task is being stopped or evicted. GoneBy is when it is killed at the latest,
	// if its node says so.
	Ending string     `json:"ending,omitempty"`
	GoneBy *time.Time `json:"goneBy,omitempty"`
	// Node and the fields below are of the current or last attempt.
	Health   types.Health `json:"health,omitempty"`
	Node     string       `json:"node,omitempty"`
	Attempt  int          `json:"attempt,omitempty"`
	ExitCode int          `json:"exitCode"`
	Reason   string       `json:"reason,omitempty"`
	// Restarts is the number of restarts of this attempt's process, Failures that of failed attempts.
	Restarts int `json:"restarts,omitempty"`
	Failures int `json:"failures,omitempty"`
	// Ports are those of a task that has a node, by name.
	Ports map[string]int `json:"ports,omitempty"`
	// Image is the image by digest.
	Image        string                `json:"image,omitempty"`
	Requests     types.Requests        `json:"requests"`
	Alternatives []types.Alternative   `json:"alternatives,omitempty"`
	Devices      []types.DeviceRequest `json:"devices,omitempty"`
	Priority     int                   `json:"priority,omitempty"`
	Submitted    *time.Time            `json:"submitted,omitempty"`
	Bound        *time.Time            `json:"bound,omitempty"`
	Started      *time.Time            `json:"started,omitempty"`
	Ended        *time.Time            `json:"ended,omitempty"`
	// Retry is when a task that waits after a failure may be bound again.
	Retry    *time.Time `json:"retry,omitempty"`
	Deadline *time.Time `json:"deadline,omitempty"`
}

// TaskOf returns the document of a task, without GoneBy and Ports, which its node and its spec tell.
func TaskOf(t controlplane.TaskState) Task {
	out := Task{
		ID: t.ID, Name: t.Task.Name, Job: t.Task.Job, Labels: types.LabelMap(t.Task.Labels), User: t.Task.User, Phase: t.Phase(),
		Requests: t.Task.Requests, Alternatives: t.Task.Alternatives, Devices: t.Task.Devices, Priority: t.Task.Priority,
		Submitted: Moment(t.Task.Submitted), Deadline: Moment(t.Task.Deadline),
	}
	if stop := StopOf(t); stop != nil {
		out.Ending = cmp.Or(stop.Reason, "it was stopped")
	}
	if t.Task.Count > 0 {
		out.Index = &t.Task.Index
	}
	if s := t.Status; s != nil {
		out.Node, out.Attempt, out.ExitCode, out.Reason = s.Node, s.Attempt, s.ExitCode, s.Reason
		out.Restarts, out.Image, out.Health = s.Restarts, s.Image, s.Health
		out.Failures, out.Retry = s.Failures, Moment(s.Retry)
		out.Bound, out.Started, out.Ended = Moment(s.Bound), Moment(s.Started), Moment(s.Ended)
	}
	return out
}

// StopOf returns the order by which a task is being stopped or evicted; nil if it is not.
func StopOf(t controlplane.TaskState) *types.Stop {
	stop := t.Task.Stop
	if t.Phase().Held() {
		stop = t.Task.Leaving(t.Attempt())
	}
	if t.Phase().Ended() {
		return nil
	}
	return stop
}

// Moment returns a time in Unix nanoseconds in UTC; nil for 0.
func Moment(nanos int64) *time.Time {
	if nanos == 0 {
		return nil
	}
	t := time.Unix(0, nanos).UTC()
	return &t
}
