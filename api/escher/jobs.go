package escher

import (
	"context"
	"errors"
	"reflect"
	"slices"
	"time"

	"github.com/escher-sched/escher/api/library"
	"github.com/escher-sched/escher/api/requests"
	"github.com/escher-sched/escher/controlplane"
	"github.com/escher-sched/escher/controlplane/manifest"
	"github.com/escher-sched/escher/esl"
	"github.com/escher-sched/escher/esl/builtin"
	"github.com/escher-sched/escher/types"
)

// Job is a set of tasks that belong together.
type Job struct {
	// ID is unique in its namespace, forever. Empty means an id made of Name.
	ID string
	// Name is a label, by which commands find the job.
	Name   string
	Labels map[string]string
	// Tasks are at least one; Copies makes several alike.
	Tasks []Task
}

// Copies returns n tasks alike.
func Copies(n int, t Task) []Task {
	out := make([]Task, n)
	for i := range out {
		out[i] = t
	}
	return out
}

// launch is the request to launch the job.
func (j Job) launch() requests.Launch {
	return requests.Launch{Job: &requests.Job{ID: j.ID, Name: j.Name, Labels: j.Labels}, Tasks: j.Tasks}
}

// Submit submits a job, all of it or nothing, to which policies apply, such as gang.Gang{}. Invalid:
// the error names each wrong field. Precondition: a task submits a job with a policy that Escher
// does not have.
func (c *Client) Submit(ctx context.Context, job Job, policies ...esl.Policy) (Launched, error) {
	if i := slices.Index(policies, nil); i >= 0 {
		return Launched{}, types.Errorf(types.Invalid, "policies[%d]: is nil: leave it out", i)
	}
	launch := job.launch()
	switch {
	case len(policies) == 0:
		return c.requests.Launch(ctx, launch)
	case c.jobs == nil:
		return c.submitInside(ctx, launch, policies)
	}
	tasks, err := launch.Submissions(clock())
	if err != nil {
		return Launched{}, err
	}
	l, err := library.Submit(ctx, c.jobs, controlplane.Job{ID: job.ID, Name: job.Name, Labels: types.LabelsOf(job.Labels), Tasks: tasks}, policies...)
	return Launched{Tasks: l.Tasks, Job: l.Job, Revision: l.Revision}, err
}

// submitInside submits a job with policies in a task. The agent applies the built-in ones; it cannot
// call the Apply of another.
func (c *Client) submitInside(ctx context.Context, launch requests.Launch, policies []esl.Policy) (Launched, error) {
	stored, err := esl.StoredForms(policies)
	if err != nil {
		return Launched{}, err
	}
	known := builtin.Kinds()
	for i, p := range stored {
		if made, err := known.Read(p); err != nil || reflect.TypeOf(made) != reflect.Indirect(reflect.ValueOf(policies[i])).Type() {
			return Launched{}, errInside("submit a job with policy " + p.Kind + ", whose Apply is in the program")
		}
	}
	launch.Job.Policies = requests.PoliciesOf(stored)
	return c.requests.Launch(ctx, launch)
}

// Run submits one task, without a job, and returns its id.
func (c *Client) Run(ctx context.Context, t Task) (id string, err error) {
	l, err := c.requests.Launch(ctx, requests.Launch{Tasks: []manifest.Task{t}})
	if err != nil {
		return "", err
	}
	return l.Tasks[0], nil
}

// Until is what Wait waits for. An ended task is past all of it.
type Until string

// What Wait waits for.
const (
	UntilBound   Until = "bound"
	UntilRunning Until = "running"
	UntilHealthy Until = "healthy"
	UntilEnded   Until = "ended"
)

// Wait waits until all tasks are bound, run or the like, and returns their statuses by their ids in
// full; Name and Labels are not set. It follows changes, and does not poll. It goes on after a lost
// connection. NotFound: one of them does not exist. Unavailable: ctx is done, or the cluster does
// not answer at the beginning.
func (c *Client) Wait(ctx context.Context, until Until, ids ...string) (map[string]Status, error) {
	lost := c.reconnects("wait")
	waited, err := c.requests.Wait(ctx, string(until), 0, ids...)
	for c.jobs == nil && errors.Is(err, types.Unavailable) && lost.pause(ctx, err) == nil {
		waited, err = c.requests.Wait(ctx, string(until), 0, ids...)
	}
	if err != nil {
		return nil, err
	}
	out := make(map[string]Status, len(waited.Tasks))
	for _, s := range waited.Tasks {
		out[s.ID] = s
	}
	return out, nil
}

// Status returns the status of a task; id may be a unique prefix.
func (c *Client) Status(ctx context.Context, id string) (Status, error) {
	return c.requests.Status(ctx, id)
}

// Tasks returns all tasks of the namespace, sorted by id.
func (c *Client) Tasks(ctx context.Context) ([]Status, error) {
	all, err := c.requests.Tasks(ctx)
	return all.Tasks, err
}

// StopOption is an option of Stop.
type StopOption func(*requests.Stop)

// Because gives a reason, which the status of the task shows.
func Because(reason string) StopOption { return func(s *requests.Stop) { s.Reason = reason } }

// Within is the time between the stop signal and the kill, instead of that of the task.
func Within(grace time.Duration) StopOption {
	return func(s *requests.Stop) { s.Grace = requests.Duration(grace) }
}

// Stop ends a task for good. It returns at once: Wait waits for its end.
func (c *Client) Stop(ctx context.Context, id string, opts ...StopOption) error {
	var s requests.Stop
	for _, opt := range opts {
		opt(&s)
	}
	return c.requests.Stop(ctx, id, s)
}

// Evict ends the current attempt of a task, which then waits for its next one.
func (c *Client) Evict(ctx context.Context, id string) error { return c.requests.Evict(ctx, id, 0) }
