package requests

import (
	"context"
	"maps"
	"slices"
	"time"

	"go.uber.org/zap"

	"github.com/escher-sched/escher/controlplane"
	"github.com/escher-sched/escher/controlplane/cluster"
	"github.com/escher-sched/escher/nodeagent/serve/tasksocket"
	"github.com/escher-sched/escher/types"
)

// Direct performs requests on the store: for servers and agents, and for programs that reach the store. Its
// methods are those of Client, so that a program works in a task and outside alike.
type Direct struct {
	Client *controlplane.Client
	// Self is the task that asks; its zero value is a program outside of tasks.
	Self tasksocket.Self
	// Own restricts resources to those on the node of the task that end with it.
	Own bool
	// Library submits jobs with policies; nil means that it cannot be done.
	Library *Library
	// Now is the clock.
	Now func() time.Time
	// Log logs lost watches; nil means no log.
	Log *zap.Logger
}

// Library submits jobs to which policies apply: see package library.
type Library struct {
	// Submit submits a job. Invalid: a policy is unknown, or its parameters are wrong.
	Submit func(ctx context.Context, c *controlplane.Client, job controlplane.Job, policies []types.Policy) (controlplane.Launched, error)
	// Launch submits tasks. They become a job, if all jobs of their namespace take part in a policy.
	Launch func(ctx context.Context, c *controlplane.Client, tasks ...controlplane.Submission) (controlplane.Launched, error)
}

// State reads the state of the cluster, with reads also the keys that it was read from.
func (d Direct) State(ctx context.Context, reads bool) (State, error) {
	state, err := cluster.ClusterState(ctx, d.Client)
	if err != nil {
		return State{}, err
	}
	out := State{State: *state}
	if reads {
		out.Reads = state.Reads()
	}
	return out, nil
}

// Set sets a resource. Invalid: it has no place, and no task asks.
func (d Direct) Set(ctx context.Context, s Set) (Committed, error) {
	x, err := d.resource(ctx, &s)
	if err != nil {
		return Committed{}, err
	}
	res, err := d.Client.SetResource(ctx, x.Name, x.Capacity, x.Where, x.Options)
	return Committed{Revision: res.Revision}, err
}

// resource converts a Set. Its defaults are the task's own node, and the task itself or its job.
func (d Direct) resource(ctx context.Context, s *Set) (controlplane.Resource, error) {
	switch {
	case d.Self.Task != "":
	case s.Where == nil:
		return controlplane.Resource{}, types.Errorf(types.Invalid, "where: the default is the node of the task, but this program runs outside of tasks: name the nodes")
	case s.Owner == "" && (s.Lifetime == types.OfTask || s.Lifetime == types.OfJob):
		return controlplane.Resource{}, types.Errorf(types.Invalid, "owner: the default is the %s of the program, but it runs outside of tasks: name the owner", s.Lifetime)
	}
	if d.Own {
		if err := s.own(d.Self); err != nil {
			return controlplane.Resource{}, err
		}
	}
	x, err := s.resource(d.Self)
	if err != nil {
		return x, err
	}
	x.Options.Own = d.Own
	if x.Options.Lifetime != types.OfJob || x.Options.Owner != "" {
		return x, nil
	}
	self, err := d.Client.Status(ctx, d.Self.Task)
	if err == nil && self.Task.Job == "" {
		err = types.Errorf(types.Invalid, "owner: this task is of no job: name one, or use lifetime task")
	}
	if err != nil {
		return x, err
	}
	x.Options.Owner = self.Task.Job
	return x, nil
}

// Launch launches tasks.
func (d Direct) Launch(ctx context.Context, l Launch) (Launched, error) {
	tasks, err := l.Submissions(d.Now())
	if err != nil {
		return Launched{}, err
	}
	var res controlplane.Launched
	switch {
	case l.Job == nil && d.Library == nil:
		res, err = d.Client.Launch(ctx, tasks...)
	case l.Job == nil:
		res, err = d.Library.Launch(ctx, d.Client, tasks...)
	case d.Library == nil && len(l.Job.Policies) == 0:
		res, err = d.Client.LaunchJob(ctx, l.Job.of(tasks))
	case d.Library == nil:
		err = types.Errorf(types.Precondition, "job.policies: this client knows none: submit the job by the HTTP API")
	default:
		res, err = d.Library.Submit(ctx, d.Client, l.Job.of(tasks), l.Job.stored())
	}
	return launchedOf(res), err
}

func launchedOf(l controlplane.Launched) Launched {
	return Launched{Tasks: l.Tasks, Job: l.Job, Revision: l.Revision}
}

// Tasks returns all tasks of the namespace.
func (d Direct) Tasks(ctx context.Context) (Tasks, error) {
	tasks, revision, err := d.Client.Tasks(ctx)
	if err != nil {
		return Tasks{}, err
	}
	out := Tasks{Revision: revision, Tasks: make([]Status, len(tasks))}
	for i, t := range tasks {
		out.Tasks[i] = taskOf(&t)
	}
	return out, nil
}

// Status returns the status of a task; id may be a unique prefix.
func (d Direct) Status(ctx context.Context, id string) (Status, error) {
	t, err := d.Client.Status(ctx, id)
	if err != nil {
		return Status{}, err
	}
	return taskOf(&t), nil
}

// Wait waits until all tasks are in a state: "ended", "healthy", "running" or "bound". After a
// timeout above 0, it returns the tasks in that state.
func (d Direct) Wait(ctx context.Context, until string, timeout time.Duration, ids ...string) (Waited, error) {
	phase, ok := untils()[until]
	if !ok {
		return Waited{}, types.Errorf(types.Invalid, "until: %q is unknown: use ended, healthy, running or bound", until)
	}
	if len(ids) == 0 {
		return Waited{}, types.Errorf(types.Invalid, "id: is missing: name the tasks to wait for")
	}
	waiting := ctx
	if timeout > 0 {
		var cancel context.CancelFunc
		waiting, cancel = context.WithTimeout(ctx, timeout)
		defer cancel()
	}
	found, err := d.Client.Wait(waiting, phase, ids...)
	late := err != nil && waiting.Err() != nil && ctx.Err() == nil
	if err != nil && !late {
		return Waited{}, err
	}
	out := Waited{Complete: err == nil, Tasks: make([]Status, 0, len(found))}
	for _, id := range slices.Sorted(maps.Keys(found)) {
		st := found[id]
		out.Tasks = append(out.Tasks, statusOf(id, "", &st))
	}
	return out, nil
}

// untils returns the states to wait for; the default is ended.
func untils() map[string]controlplane.Until {
	return map[string]controlplane.Until{
		"": controlplane.UntilEnded, "ended": controlplane.UntilEnded,
		"running": controlplane.UntilRunning, "bound": controlplane.UntilBound, "healthy": controlplane.UntilHealthy,
	}
}

// Stop ends a task for good.
func (d Direct) Stop(ctx context.Context, id string, s Stop) error {
	return d.Client.Stop(ctx, id, controlplane.StopOptions{Reason: s.Reason, Grace: time.Duration(s.Grace)})
}

// Evict ends an attempt of a task, which then waits for its next one.
func (d Direct) Evict(ctx context.Context, id string, attempt int) error {
	return d.Client.Evict(ctx, id, attempt)
}

// Reserve requests a reservation of bundles: all of them or none.
func (d Direct) Reserve(ctx context.Context, r Reserve) error {
	return d.Client.Reserve(ctx, r.ID, r.reservation())
}

// Unreserve ends a reservation.
func (d Direct) Unreserve(ctx context.Context, id string) error { return d.Client.Unreserve(ctx, id) }

// Commit makes several changes together.
func (d Direct) Commit(ctx context.Context, body Transaction) (Committed, error) {
	t := d.Client.Begin(body.If)
	for i := range body.Set {
		x, err := d.resource(ctx, &body.Set[i])
		if err != nil {
			return Committed{}, types.Errorf(types.Invalid, "set[%d]: %w", i, err)
		}
		t.SetResource(x.Name, x.Capacity, x.Where, x.Options)
	}
	var out Committed
	for i := range body.Launch {
		l := &body.Launch[i]
		tasks, err := l.Submissions(d.Now())
		if err != nil {
			return Committed{}, types.Errorf(types.Invalid, "launch[%d]: %w", i, err)
		}
		if l.Job != nil && len(l.Job.Policies) > 0 {
			return Committed{}, types.Errorf(types.Invalid, "launch[%d].job.policies: a transaction has none: launch the job by itself", i)
		}
		if l.Job != nil {
			out.Launched = append(out.Launched, launchedOf(t.LaunchJob(l.Job.of(tasks))))
		} else {
			out.Launched = append(out.Launched, Launched{Tasks: t.Launch(tasks...)})
		}
	}
	for i := range body.Reserve {
		t.Reserve(body.Reserve[i].ID, body.Reserve[i].reservation())
	}
	for _, id := range body.Unreserve {
		t.Unreserve(id)
	}
	res, err := t.Commit(ctx)
	out.Revision = res.Revision
	for i := range out.Launched {
		out.Launched[i].Revision = res.Revision
	}
	return out, err
}

// Watch calls handle with the current state, an event "synced", and then every change. It ends when
// ctx is done, or handle returns an error, which it returns.
func (d Direct) Watch(ctx context.Context, w Watch, handle func(Event) error) error {
	switch w.Of {
	case "resources":
		return d.Client.WatchResources(ctx, d.Log, func(u controlplane.ResourceUpdate) error { return resourceEvents(u, handle) })
	case "", "tasks":
		return d.Client.Watch(ctx, controlplane.WatchTasks{IDs: w.IDs, After: w.After, Log: d.Log}, func(u controlplane.StatusUpdate) error {
			return taskEvents(u, handle)
		})
	default:
		return types.Errorf(types.Invalid, "of: %q is unknown: use tasks or resources", w.Of)
	}
}

// Close does nothing: the store belongs to the caller.
func (Direct) Close() {}

// CheckIf refuses a condition on a key that the state does not show to a namespace: the answer would tell
// whether and when that key changed. Invalid: the error names the key.
func CheckIf(ns string, reads controlplane.ReadSet) error {
	for _, key := range slices.Sorted(maps.Keys(reads)) {
		if !cluster.Shown(ns, key) {
			return types.Errorf(types.Invalid, "if: %q is nothing that the state shows to namespace %s: give what its reads name, or a part of it", key, ns)
		}
	}
	return nil
}
