package requests

import (
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/escher-sched/escher/controlplane"
	"github.com/escher-sched/escher/nodeagent/serve/tasksocket"
	"github.com/escher-sched/escher/types"
)

// resource converts s. Its defaults are the task's own node and the task itself.
func (s *Set) resource(self tasksocket.Self) (controlplane.Resource, error) {
	if s.Name == "" {
		return controlplane.Resource{}, types.Errorf(types.Invalid, "name: is empty: name the resource")
	}
	capacity, err := types.ParseQuantity(s.Name, s.Capacity)
	if err != nil {
		return controlplane.Resource{}, types.Errorf(types.Invalid, "capacity: %w", err)
	}
	out := controlplane.Resource{Name: s.Name, Capacity: capacity, Where: controlplane.OnNode(self.Node), Options: controlplane.SetOptions{
		Declare: s.Declare, Lifetime: s.Lifetime, Owner: s.Owner, Future: s.Future,
	}}
	if s.Where != nil {
		if out.Where, err = s.Where.Location(); err != nil {
			return controlplane.Resource{}, err
		}
	}
	if s.Lifetime == types.OfTask && s.Owner == "" {
		out.Options.Owner = self.Task
	}
	return out, nil
}

// own restricts what a task with SocketSelf sets: on its own node, ending with it, and nothing that belongs
// to another task.
func (s *Set) own(self tasksocket.Self) error {
	if s.Where != nil && (len(s.Where.Nodes) != 1 || s.Where.Nodes[0] != self.Node || s.Where.Cluster || len(s.Where.Labels)+len(s.Where.Available) > 0) {
		return errOwn("where")
	}
	if s.Lifetime != types.Forever && s.Lifetime != types.OfTask || s.Owner != "" && s.Owner != self.Task {
		return errOwn("lifetime, owner")
	}
	s.Where = nil // its own node
	s.Lifetime, s.Owner = types.OfTask, self.Task
	return nil
}

func errOwn(field string) error {
	return types.Errorf(types.Denied, "%s: this task may set resources of its own alone: launch it with socket: namespace", field)
}

// Submissions converts the tasks for the client of the control plane. It validates only texts that
// become numbers. now is the time of the submission.
func (l *Launch) Submissions(now time.Time) ([]controlplane.Submission, error) {
	if len(l.Array) > 0 && len(l.Array) != len(l.Tasks) {
		return nil, types.Errorf(types.Invalid, "array: has %d places for %d tasks: give one for each task, or none", len(l.Array), len(l.Tasks))
	}
	var errs []error
	out := make([]controlplane.Submission, len(l.Tasks))
	for i := range l.Tasks {
		s, err := l.Tasks[i].Submission(now)
		if err != nil {
			errs = append(errs, fmt.Errorf("tasks[%d]: %w", i, err))
		}
		if len(l.Array) > 0 {
			s.Task.Index, s.Task.Count = l.Array[i].Index, l.Array[i].Count
		}
		out[i] = s
	}
	if err := errors.Join(errs...); err != nil {
		return nil, types.Errorf(types.Invalid, "launch: %w", err)
	}
	return out, nil
}

// of returns the job of tasks.
func (j *Job) of(tasks []controlplane.Submission) controlplane.Job {
	return controlplane.Job{ID: j.ID, Name: j.Name, Labels: types.LabelsOf(j.Labels), Tasks: tasks}
}

// PoliciesOf returns stored policies as the requests have them.
func PoliciesOf(stored []types.Policy) []Policy {
	var out []Policy
	for _, p := range stored {
		out = append(out, Policy{Name: p.Kind, With: json.RawMessage(p.With)})
	}
	return out
}

// stored returns the policies of the job as they are stored.
func (j *Job) stored() []types.Policy {
	out := make([]types.Policy, len(j.Policies))
	for i, p := range j.Policies {
		out[i] = types.Policy{Kind: p.Name, With: string(p.With)}
	}
	return out
}

func (r *Reserve) reservation() types.Reservation {
	out := types.Reservation{Bundles: r.Bundles, Priority: r.Priority, Session: r.Session, Accumulate: r.Accumulate, Job: r.Job, Lost: r.Lost}
	if lost, err := types.ParseLostBundles(string(r.Lost)); err == nil {
		out.Lost = lost // otherwise Reserve returns the error
	}
	return out
}

// statusOf returns the JSON form of a task's status.
func statusOf(id, name string, s *types.Status) Status {
	if s == nil {
		return Status{ID: id, Name: name, Phase: types.Pending}
	}
	return Status{
		ID: id, Name: name, Phase: s.Phase, Node: s.Node, Attempt: s.Attempt,
		Bound: timeOf(s.Bound), Started: timeOf(s.Started), Ended: timeOf(s.Ended),
		Failures: s.Failures, Retry: timeOf(s.Retry),
		ExitCode: s.ExitCode, Reason: s.Reason, Image: s.Image, Restarts: s.Restarts, Health: s.Health,
	}
}

// taskOf returns the JSON form of a task with its status.
func taskOf(t *controlplane.TaskState) Status {
	s := statusOf(t.ID, t.Task.Name, t.Status)
	s.Labels = types.LabelMap(t.Task.Labels)
	return s
}

func timeOf(nanos int64) *time.Time {
	if nanos == 0 {
		return nil
	}
	t := time.Unix(0, nanos).UTC()
	return &t
}
