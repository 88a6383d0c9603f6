package show

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/escher-sched/escher/api/document"
	"github.com/escher-sched/escher/cmd/escher/internal/cli/render"
	"github.com/escher-sched/escher/cmd/escher/internal/table"
	"github.com/escher-sched/escher/controlplane"
	"github.com/escher-sched/escher/controlplane/why"
	"github.com/escher-sched/escher/types"
	"github.com/escher-sched/escher/types/issued"
)

// TaskRow is a row of a list of tasks.
type TaskRow struct {
	document.Task

	Age time.Duration `json:"-"`
	// left is the time until GoneBy.
	left time.Duration
	// stop ends it; nil means that it is not ending. spec is the digest of its spec.
	stop *types.Stop
	spec string
}

// Header returns the columns.
func (TaskRow) Header() []table.Column {
	return table.Columns("task", "phase", "node", "age", "exit", "(attempt)", "(restarts)", "(job)", "(user)", "(index)", "(ports)", "(requests)", "(labels)", "reason")
}

// Row returns the cells.
func (t TaskRow) Row() []string {
	return []string{
		t.ID, t.phase(), t.where(), render.Shortly(t.Age), t.exit(),
		strconv.Itoa(t.Attempt), strconv.Itoa(t.Restarts), t.Job, issued.Text(t.User), t.index(), types.PortsText(t.Ports), t.Needs(), types.LabelsText(types.LabelsOf(t.Labels)), t.reason(),
	}
}

// phase is the phase in words.
func (t TaskRow) phase() string {
	if t.Ending != "" {
		return "ending"
	}
	return render.PhaseText(t.Phase, t.Health)
}

// reason says why it is in its phase.
func (t TaskRow) reason() string {
	switch {
	case t.GoneBy != nil:
		return t.Ending + ", gone in " + why.InWords(t.left) + " at the latest"
	case t.Ending != "":
		return t.Ending
	}
	return t.Reason
}

// where is its node; empty for a task that waits, whose last node says nothing.
func (t TaskRow) where() string {
	if t.Phase == types.Pending {
		return ""
	}
	return t.Node
}

// waitsForRetry reports whether it waits until the time of its next attempt.
func (t TaskRow) waitsForRetry(now time.Time) bool { return t.Retry != nil && t.Retry.After(now) }

// exit is the exit code; empty before the end, or if the task never ran.
func (t TaskRow) exit() string {
	if !t.Phase.Ended() || t.Phase != types.Succeeded && t.Started == nil && t.ExitCode == 0 {
		return ""
	}
	return strconv.Itoa(t.ExitCode)
}

// index is the place of the task in its job; empty without a job.
func (t TaskRow) index() string {
	if t.Index == nil {
		return ""
	}
	return strconv.Itoa(*t.Index)
}

// sortTasks sorts tasks by their jobs, or ids without one, and those of a job by their index, the oldest
// of an index first.
func sortTasks(rows []TaskRow) {
	slices.SortStableFunc(rows, func(a, b TaskRow) int {
		index := 0
		if a.Index != nil && b.Index != nil {
			index = cmp.Compare(*a.Index, *b.Index)
		}
		return cmp.Or(strings.Compare(cmp.Or(a.Job, a.ID), cmp.Or(b.Job, b.ID)), index, cmp.Compare(b.Age, a.Age), strings.Compare(a.ID, b.ID))
	})
}

// NewTaskRow makes the row of a task.
func NewTaskRow(t controlplane.TaskState, now time.Time) TaskRow {
	return TaskRow{Task: document.TaskOf(t), stop: document.StopOf(t), spec: t.Task.Spec, Age: now.Sub(time.Unix(0, t.Task.Submitted))}
}

// Needs formats the requests of the task, alternatives included.
func (t TaskRow) Needs() string {
	const most = 2
	var ways []string
	for i, a := range t.Alternatives {
		if i == most {
			ways = append(ways, fmt.Sprintf("%d more", len(t.Alternatives)-most))
			break
		}
		ways = append(ways, render.RequestsText(a.Requests))
	}
	var parts []string
	for _, text := range []string{render.NeedsText(t.Requests, t.Devices), strings.Join(ways, " or ")} {
		if text != "" {
			parts = append(parts, text)
		}
	}
	return strings.Join(parts, "; ")
}
