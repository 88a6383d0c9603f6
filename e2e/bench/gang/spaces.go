package gang

import (
	"context"

	"github.com/escher-sched/escher/controlplane"
	"github.com/escher-sched/escher/controlplane/ids"
	"github.com/escher-sched/escher/e2e/bench/rig"
	"github.com/escher-sched/escher/esl"
	"github.com/escher-sched/escher/esl/gang"
	"github.com/escher-sched/escher/examples/framespace/gangs"
	"github.com/escher-sched/escher/types"
)

// The ways to submit a gang, by the paper's names.
const (
	appSpace   = "app"
	libSpace   = "lib"
	frameSpace = "frame"
)

// space is a way to submit a gang.
type space struct {
	name string
	// role is the scheduler that it needs.
	role string
	// lines is the number of nonblank lines of its implementation: the program examples/gang, the
	// policy esl/gang*.go, or the scheduler examples/framespace/gangs. below is the number of lines,
	// without comments, under it that little else needs: locking, wholeness and fitting of tasks in
	// esl.
	lines, below int
	submit       func(context.Context, *esl.Client, []controlplane.Submission) error
}

// spaces are all ways.
func spaces() []space {
	return []space{
		{name: appSpace, role: rig.RoleScheduler, lines: appLines, submit: submitBare},
		{name: libSpace, role: rig.RoleScheduler, lines: libLines, below: libBelow, submit: submitByLibrary},
		{name: frameSpace, role: rig.RoleFramespace, lines: frameLines, submit: submitBuiltIn},
	}
}

// The line counts of the three; a test counts them.
const (
	appLines   = 59
	libLines   = 260
	frameLines = 355
	libBelow   = 735
)

// submitBare reserves the requests of the members, and makes the members draw on that.
func submitBare(ctx context.Context, c *esl.Client, tasks []controlplane.Submission) error {
	id := ids.New("gang")
	var r types.Reservation
	for i := range tasks {
		asked := tasks[i].Task.Requests
		r.Bundles = append(r.Bundles, types.Bundle{Requests: asked})
		tasks[i].Task.Requests = rig.DrawnOn(asked, id)
	}
	t := c.Begin().Reserve(id, r)
	t.Launch(tasks...)
	_, err := t.Commit(ctx)
	return err
}

// submitByLibrary submits a job with the policy.
func submitByLibrary(ctx context.Context, c *esl.Client, tasks []controlplane.Submission) error {
	_, err := c.Submit(ctx, controlplane.Job{Name: "gang", Tasks: tasks}, gang.Gang{})
	return err
}

// submitBuiltIn submits a job whose tasks name the scheduler of gangs, and which it knows by its
// name.
func submitBuiltIn(ctx context.Context, c *esl.Client, tasks []controlplane.Submission) error {
	for i := range tasks {
		tasks[i].Task.Scheduler = gangs.Name
	}
	_, err := c.LaunchJob(ctx, controlplane.Job{Name: "gang", Tasks: tasks})
	return err
}
