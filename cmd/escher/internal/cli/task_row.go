package cli

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/escher-sched/escher/cmd/escher/internal/table"
	"github.com/escher-sched/escher/controlplane"
	"github.com/escher-sched/escher/types"
)

// taskRow is a task as it is printed.
type taskRow struct {
	ID           string                `json:"id"`
	Name         string                `json:"name,omitempty"`
	Job          string                `json:"job,omitempty"`
	Phase        types.Phase           `json:"phase"`
	Health       types.Health          `json:"health,omitempty"`
	Node         string                `json:"node,omitempty"`
	Attempt      int                   `json:"attempt,omitempty"`
	ExitCode     int                   `json:"exitCode"`
	Reason       string                `json:"reason,omitempty"`
	Restarts     int                   `json:"restarts,omitempty"`
	Failures     int                   `json:"failures,omitempty"`
	Image        string                `json:"image,omitempty"`
	Requests     types.Requests        `json:"requests"`
	Alternatives []types.Alternative   `json:"alternatives,omitempty"`
	Devices      []types.DeviceRequest `json:"devices,omitempty"`
	Priority     int                   `json:"priority,omitempty"`
	Submitted    *time.Time            `json:"submitted,omitempty"`
	Bound        *time.Time            `json:"bound,omitempty"`
	Started      *time.Time            `json:"started,omitempty"`
	Ended        *time.Time            `json:"ended,omitempty"`
	Retry        *time.Time            `json:"retry,omitempty"`
	Deadline     *time.Time            `json:"deadline,omitempty"`

	age time.Duration
}

// Header returns the columns.
func (taskRow) Header() []table.Column {
	return table.Columns("task", "phase", "node", "age", "exit", "(attempt)", "(restarts)", "(job)", "(requests)", "reason")
}

// Row returns what stands in them.
func (t taskRow) Row() []string {
	return []string{
		t.ID, phaseText(t.Phase, t.Health), t.Node, shortly(t.age), t.exit(),
		strconv.Itoa(t.Attempt), strconv.Itoa(t.Restarts), t.Job, t.needs(), t.Reason,
	}
}

// exit is the exit code with which it has ended; empty if it has not, or never ran.
func (t taskRow) exit() string {
	if !t.Phase.Ended() || t.Phase != types.Succeeded && t.Started == nil && t.ExitCode == 0 {
		return ""
	}
	return strconv.Itoa(t.ExitCode)
}

// newTaskRow makes the row of a task.
func newTaskRow(t controlplane.TaskState, now time.Time) taskRow {
	row := taskRow{
		ID: t.ID, Name: t.Task.Name, Job: t.Task.Job, Phase: t.Phase(),
		Requests: t.Task.Requests, Alternatives: t.Task.Alternatives, Devices: t.Task.Devices, Priority: t.Task.Priority,
		Submitted: moment(t.Task.Submitted), Deadline: moment(t.Task.Deadline), age: now.Sub(time.Unix(0, t.Task.Submitted)),
	}
	if s := t.Status; s != nil {
		row.Node, row.Attempt, row.ExitCode, row.Reason = s.Node, s.Attempt, s.ExitCode, s.Reason
		row.Restarts, row.Image, row.Health = s.Restarts, s.Image, s.Health
		row.Failures, row.Retry = s.Failures, moment(s.Retry)
		row.Bound, row.Started, row.Ended = moment(s.Bound), moment(s.Started), moment(s.Ended)
	}
	return row
}

// needs says what the task requests, alternatives included.
func (t taskRow) needs() string {
	const most = 2
	var ways []string
	for i, a := range t.Alternatives {
		if i == most {
			ways = append(ways, fmt.Sprintf("%d more", len(t.Alternatives)-most))
			break
		}
		ways = append(ways, requestsText(a.Requests))
	}
	var parts []string
	for _, text := range []string{needsText(t.Requests, t.Devices), strings.Join(ways, " or ")} {
		if text != "" {
			parts = append(parts, text)
		}
	}
	return strings.Join(parts, "; ")
}

// moment is a time in nanoseconds as people read it, nil if there is none.
func moment(nanos int64) *time.Time {
	if nanos == 0 {
		return nil
	}
	t := time.Unix(0, nanos).UTC()
	return &t
}

// shortly formats a duration with its largest units only.
func shortly(d time.Duration) string {
	switch {
	case d < 0:
		return "0s"
	case d < 2*time.Minute:
		return strconv.Itoa(int(d.Seconds())) + "s"
	case d < 2*time.Hour:
		return strconv.Itoa(int(d.Minutes())) + "m"
	case d < 48*time.Hour:
		return strconv.Itoa(int(d.Hours())) + "h"
	}
	return strconv.Itoa(int(d.Hours()/24)) + "d"
}

// requestsText formats a vector as flags give it.
func requestsText(requests types.Requests) string {
	text := ""
	for i, r := range requests {
		if i > 0 {
			text += ","
		}
		text += r.Name + "=" + r.Amount.Format(types.ResourceID(r.Name))
	}
	return text
}
