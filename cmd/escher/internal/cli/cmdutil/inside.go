package cmdutil

import (
	"context"
	"time"

	"github.com/escher-sched/escher/api/requests"
	"github.com/escher-sched/escher/cmd/escher/internal/cli/render"
	"github.com/escher-sched/escher/controlplane"
	"github.com/escher-sched/escher/controlplane/cluster"
	"github.com/escher-sched/escher/controlplane/manifest"
	"github.com/escher-sched/escher/esl"
	"github.com/escher-sched/escher/types"
	"github.com/escher-sched/escher/types/labels"
)

// requesting makes changes by requests to the HTTP API of a server, or to the socket of a task.
type requesting struct{ to *requests.Client }

// inside is a client of the socket of the task in which the command runs.
type inside struct{ requesting }

// Set sets a resource, on the task's own node without a place.
func (i requesting) Set(ctx context.Context, s SetRequest) (controlplane.SetResult, error) {
	set := requests.Set{
		Name: s.Name, Capacity: s.Capacity.Format(types.ResourceID(s.Name)),
		Declare: s.Opts.Declare, Lifetime: s.Opts.Lifetime, Owner: s.Opts.Owner, Future: s.Opts.Future,
	}
	if !s.Here {
		where := &requests.Where{Nodes: s.Sel.Nodes, Available: s.Sel.Available, Cluster: s.Cluster, Labels: types.LabelMap(s.Sel.Labels)}
		set.Where = where
	}
	res, err := i.to.Set(ctx, set)
	return controlplane.SetResult{Revision: res.Revision, Parts: 1}, err
}

// State reads the state of the cluster.
func (i requesting) State(ctx context.Context) (*cluster.State, error) {
	state, err := i.to.State(ctx, false)
	return &state.State, err
}

// Launch submits tasks.
func (i requesting) Launch(ctx context.Context, tasks ...controlplane.Submission) (controlplane.Launched, error) {
	return i.launch(ctx, nil, tasks)
}

// LaunchJob submits a job, to which policies may apply: the agent knows the built-in ones.
func (i requesting) LaunchJob(ctx context.Context, job controlplane.Job, policies ...esl.Policy) (controlplane.Launched, error) {
	stored, err := esl.StoredForms(policies)
	if err != nil {
		return controlplane.Launched{}, err
	}
	out := requests.Job{ID: job.ID, Name: job.Name, Labels: types.LabelMap(job.Labels), Policies: requests.PoliciesOf(stored)}
	return i.launch(ctx, &out, job.Tasks)
}

func (i requesting) launch(ctx context.Context, job *requests.Job, tasks []controlplane.Submission) (controlplane.Launched, error) {
	l := requests.Launch{Job: job}
	for _, s := range tasks {
		l.Tasks = append(l.Tasks, manifest.FromSubmission(s))
		if s.Task.Count > 0 {
			l.Array = append(l.Array, requests.Place{Index: s.Task.Index, Count: s.Task.Count})
		}
	}
	res, err := i.to.Launch(ctx, l)
	return controlplane.Launched{Tasks: res.Tasks, Job: res.Job, Revision: res.Revision}, err
}

// Wait waits for tasks.
func (i inside) Wait(ctx context.Context, until controlplane.Until, ids ...string) (map[string]types.Status, error) {
	waited, err := i.to.Wait(ctx, render.UntilText(until), 0, ids...)
	if err != nil {
		return nil, err
	}
	statuses := make(map[string]types.Status)
	for _, s := range waited.Tasks {
		statuses[s.ID] = types.Status{
			Phase: s.Phase, Node: s.Node, Attempt: s.Attempt, ExitCode: s.ExitCode, Reason: s.Reason, Image: s.Image, Restarts: s.Restarts, Health: s.Health,
			Failures: s.Failures, Retry: nanos(s.Retry),
			Bound: nanos(s.Bound), Started: nanos(s.Started), Ended: nanos(s.Ended),
		}
	}
	return statuses, nil
}

func nanos(t *time.Time) int64 {
	if t == nil {
		return 0
	}
	return t.UnixNano()
}

// Selected returns the ids of tasks by their labels.
func (i inside) Selected(ctx context.Context, by labels.Selector, live bool) ([]string, error) {
	all, err := i.to.Tasks(ctx)
	var ids []string
	for _, t := range all.Tasks {
		if by.Matches(types.LabelsOf(t.Labels)) && !(live && t.Phase.Ended()) {
			ids = append(ids, t.ID)
		}
	}
	return ids, err
}

// Stop ends a task for good.
func (i requesting) Stop(ctx context.Context, id string, opts controlplane.StopOptions) error {
	return i.to.Stop(ctx, id, requests.Stop{Reason: opts.Reason, Grace: requests.Duration(opts.Grace)})
}
