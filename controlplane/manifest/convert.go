package manifest

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/escher-sched/escher/controlplane"
	"github.com/escher-sched/escher/types"
)

// Submission converts the task to the client's form, submitted at that time. It only checks texts
// that become numbers; Launch checks the rest.
func (t *Task) Submission(submitted time.Time) (controlplane.Submission, error) {
	spec, errSpec := t.Spec.spec()
	onDisconnect, errDisconnect := types.ParseOnDisconnect(string(t.OnDisconnect))
	task := types.Task{
		Name: t.Name, Requests: spec.WithImplied(t.Requests), Priority: t.Priority, Scheduler: t.Scheduler,
		OnDisconnect: onDisconnect, MaxRun: time.Duration(t.MaxRun), Session: t.Session, Accumulate: t.Accumulate, Retries: t.Retries,
		Devices: deviceRequests(t.Devices), Labels: types.LabelsOf(t.Labels),
	}
	for _, a := range t.Alternatives {
		task.Alternatives = append(task.Alternatives, types.Alternative{Requests: a.Requests, After: time.Duration(a.After)})
	}
	errs := []error{errDisconnect, under("spec.", errSpec)}
	for i, p := range t.Provides {
		amount, err := types.ParseQuantity(p.Name, string(p.Amount))
		if err != nil {
			errs = append(errs, fmt.Errorf("provides[%d].amount: %w", i, err))
		}
		task.Provides = append(task.Provides, types.Provide{Name: p.Name, Amount: amount, When: p.When})
	}
	deadline, err := t.Deadline.At(submitted)
	if err != nil {
		errs = append(errs, fmt.Errorf("deadline: %w", err))
	}
	task.Deadline = deadline
	return controlplane.Submission{ID: t.ID, Task: task, Spec: spec}, errors.Join(errs...)
}

func (s *Spec) spec() (*types.Spec, error) {
	entrypoint, command, err := s.program()
	out := &types.Spec{
		Image: s.Image, Env: s.Env, Dir: s.Dir, User: s.User,
		Grace: time.Duration(s.Grace), StopSignal: s.StopSignal, Peers: s.Peers, Stdin: s.Stdin, TTY: s.TTY,
	}
	if peers, err := types.ParsePeers(string(s.Peers)); err == nil {
		out.Peers = peers // otherwise Validate reports it
	}
	out.SetCommand(entrypoint, command)
	if r := s.Restart; r != nil {
		out.Restart = &types.Restart{When: r.When, Limit: r.Limit, Delay: time.Duration(r.Delay), MaxDelay: time.Duration(r.MaxDelay)}
	}
	for _, m := range s.Mounts {
		out.Mounts = append(out.Mounts, types.Mount(m))
	}
	for _, p := range s.Ports {
		out.Ports = append(out.Ports, types.TaskPort(p))
	}
	s.isolate(out)
	s.memory(out)
	s.health(out)
	s.workdir(out)
	return out, err
}

// FromSubmission is the inverse of Task.Submission.
func FromSubmission(s controlplane.Submission) Task {
	t := Task{
		ID: s.ID, Name: s.Task.Name, Requests: s.Task.Requests, Priority: s.Task.Priority,
		Scheduler: s.Task.Scheduler, OnDisconnect: s.Task.OnDisconnect, MaxRun: types.Duration(s.Task.MaxRun), Session: s.Task.Session, Accumulate: s.Task.Accumulate, Retries: s.Task.Retries,
		Devices: fromDeviceRequests(s.Task.Devices), Labels: types.LabelMap(s.Task.Labels),
	}
	if s.Task.Deadline != 0 {
		t.Deadline = Deadline(time.Unix(0, s.Task.Deadline).UTC().Format(time.RFC3339Nano))
	}
	if s.Spec != nil {
		t.Spec = fromSpec(s.Spec)
	}
	for _, a := range s.Task.Alternatives {
		t.Alternatives = append(t.Alternatives, Alternative{Requests: a.Requests, After: types.Duration(a.After)})
	}
	for _, p := range s.Task.Provides {
		t.Provides = append(t.Provides, Provide{Name: p.Name, Amount: types.Amount(p.Amount.Format(types.ResourceID(p.Name))), When: p.When})
	}
	return t
}

func fromSpec(s *types.Spec) Spec {
	out := Spec{
		Image: s.Image, Entrypoint: s.Entrypoint, Command: s.Command, Env: s.Env, Dir: s.Dir, User: s.User,
		Grace: types.Duration(s.Grace), StopSignal: s.StopSignal, Peers: s.Peers, Stdin: s.Stdin, TTY: s.TTY,
	}
	if r := s.Restart; r != nil {
		out.Restart = &Restart{When: r.When, Limit: r.Limit, Delay: types.Duration(r.Delay), MaxDelay: types.Duration(r.MaxDelay)}
	}
	for _, m := range s.Mounts {
		out.Mounts = append(out.Mounts, Mount(m))
	}
	for _, p := range s.Ports {
		out.Ports = append(out.Ports, Port(p))
	}
	out.fromIsolation(s)
	out.fromMemory(s)
	out.fromHealth(s)
	out.fromWorkdir(s)
	return out
}

// Submissions returns the tasks of the job, submitted at that time, with the labels of the job.
func (j *Job) Submissions(submitted time.Time) ([]controlplane.Submission, error) {
	if err := j.validate(); err != nil {
		return nil, err
	}
	labels := types.LabelsOf(j.Labels)
	if j.Template == nil {
		return j.listed(submitted, labels)
	}
	t := *j.Template
	if t.Name == "" {
		t.Name = j.Name
	}
	s, err := t.Submission(submitted)
	if err != nil {
		return nil, fmt.Errorf("template.%w", err)
	}
	s.Task.Labels = types.MergeLabels(labels, s.Task.Labels)
	if j.Array != nil {
		return j.Array.Submissions(s)
	}
	return slices.Repeat([]controlplane.Submission{s}, max(j.Count, 1)), nil
}

func (j *Job) listed(submitted time.Time, labels []types.Label) ([]controlplane.Submission, error) {
	var errs []error
	out := make([]controlplane.Submission, len(j.Tasks))
	for i := range j.Tasks {
		s, err := j.Tasks[i].Submission(submitted)
		if err != nil {
			errs = append(errs, fmt.Errorf("tasks[%d].%w", i, err))
		}
		s.Task.Labels = types.MergeLabels(labels, s.Task.Labels)
		out[i] = s
	}
	return out, errors.Join(errs...)
}

// validate checks the number of tasks.
func (j *Job) validate() error {
	switch {
	case (j.Template == nil) == (len(j.Tasks) == 0):
		return types.Errorf(types.Invalid, "template: give either a template and a count, or a list of tasks")
	case j.Template == nil && j.Count != 0:
		return types.Errorf(types.Invalid, "count: belongs to a template, but tasks are listed: leave it out")
	case j.Array != nil && (j.Template == nil || j.Count != 0):
		return types.Errorf(types.Invalid, "array: belongs to a template, without a count: leave the others out")
	case j.Count < 0 || j.Count > MaxTasks:
		return types.Errorf(types.Invalid, "count: %d is out of range: give 1 to %d, and submit more in several jobs", j.Count, MaxTasks)
	case len(j.Tasks) > MaxTasks:
		return types.Errorf(types.Invalid, "tasks: %d is too many: give at most %d, and submit more in several jobs", len(j.Tasks), MaxTasks)
	case j.Template != nil && (j.Count > 1 || j.Array != nil) && j.Template.ID != "":
		return types.Errorf(types.Invalid, "template.id: several tasks cannot have one id: leave it out")
	}
	if j.Array != nil && j.Update != nil {
		return types.Errorf(types.Invalid, "update: belongs to a job with a count, and an array only gets further indices: leave one of them out")
	}
	return errors.Join(j.Array.validate(), j.Update.validate())
}

// Location converts the location to the client's form.
func (w *Where) Location() (controlplane.Where, error) {
	if w.Cluster {
		if len(w.Nodes)+len(w.Labels)+len(w.Available) > 0 {
			return controlplane.Where{}, types.Errorf(types.Invalid, "where.cluster: is set together with nodes, labels or available: give one of them")
		}
		return controlplane.InCluster(), nil
	}
	if err := w.Available.Validate("where.available"); err != nil {
		return controlplane.Where{}, err
	}
	return NodesOf(types.Selector{Nodes: w.Nodes, Labels: types.LabelsOf(w.Labels), Available: w.Available}), nil
}

// Resource converts the resource to the client's form.
func (r *Resource) Resource() (controlplane.Resource, error) {
	capacity, err := types.ParseQuantity(r.Name, string(r.Capacity))
	if err != nil {
		return controlplane.Resource{}, types.Errorf(types.Invalid, "capacity: %w", err)
	}
	if r.Where == nil {
		return controlplane.Resource{}, types.Errorf(types.Invalid, "where: is missing: write {} for every node, or nodes, labels, available or cluster")
	}
	where, err := r.Where.Location()
	return controlplane.Resource{Name: r.Name, Capacity: capacity, Where: where, Options: controlplane.SetOptions{
		Declare: r.Declare, Lifetime: r.Lifetime, Owner: r.Owner, Future: r.Future,
	}}, err
}

// Reservation converts the reservation to the client's form.
func (r *Reservation) Reservation() types.Reservation {
	out := types.Reservation{Priority: r.Priority, Session: r.Session, Accumulate: r.Accumulate, Lost: r.Lost}
	if lost, err := types.ParseLostBundles(string(r.Lost)); err == nil {
		out.Lost = lost // otherwise Validate reports it
	}
	for _, b := range r.Bundles {
		out.Bundles = append(out.Bundles, b.Bundle())
	}
	return out
}
