package tasksocket

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/escher-sched/escher/controlplane"
	"github.com/escher-sched/escher/controlplane/cluster"
	"github.com/escher-sched/escher/types"
)

// set is Set as the client of the control plane has it.
type set struct {
	name     string
	capacity types.Quantity
	where    controlplane.Where
	opts     controlplane.SetOptions
}

// set fills in what a task leaves out: its own node, and itself.
func (s *Set) set(self Self) (set, error) {
	if s.Name == "" {
		return set{}, types.Errorf(types.Invalid, "name: is empty: name the resource")
	}
	capacity, err := types.ParseQuantity(s.Name, s.Capacity)
	if err != nil {
		return set{}, types.Errorf(types.Invalid, "capacity: %w", err)
	}
	out := set{s.Name, capacity, controlplane.OnNode(self.Node), controlplane.SetOptions{
		Declare: s.Declare, Lifetime: s.Lifetime, Owner: s.Owner, Future: s.Future,
	}}
	if s.Where != nil {
		if out.where, err = s.Where.where(); err != nil {
			return set{}, err
		}
	}
	if s.Lifetime == types.OfTask && s.Owner == "" {
		out.opts.Owner = self.Task
	}
	return out, nil
}

func (w *Where) where() (controlplane.Where, error) {
	if w.Cluster {
		if len(w.Nodes)+len(w.Labels)+len(w.Available) > 0 {
			return controlplane.Where{}, types.Errorf(types.Invalid, "where.cluster: is set together with nodes, labels or available: give one of them")
		}
		return controlplane.InCluster(), nil
	}
	sel := types.Selector{Nodes: w.Nodes, Available: w.Available}
	for _, name := range slices.Sorted(maps.Keys(w.Labels)) {
		sel.Labels = append(sel.Labels, types.Label{Name: name, Value: w.Labels[name]})
	}
	return cluster.Where(sel), nil
}

// Submissions returns the tasks as the client of the control plane has them. It
// checks nothing but what is text here and a number there.
func (l *Launch) Submissions() ([]controlplane.Submission, error) {
	var errs []error
	out := make([]controlplane.Submission, len(l.Tasks))
	for i := range l.Tasks {
		s, err := l.Tasks[i].submission()
		if err != nil {
			errs = append(errs, fmt.Errorf("tasks[%d]: %w", i, err))
		}
		out[i] = s
	}
	if err := errors.Join(errs...); err != nil {
		return nil, types.Errorf(types.Invalid, "launch: %w", err)
	}
	return out, nil
}

func (t *Task) submission() (controlplane.Submission, error) {
	task := types.Task{
		Name: t.Name, Requests: t.Requests, Priority: t.Priority, Scheduler: t.Scheduler,
		OnLoss: t.OnLoss, MaxRun: time.Duration(t.MaxRun), Session: t.Session,
	}
	for _, a := range t.Alternatives {
		task.Alternatives = append(task.Alternatives, types.Alternative{Requests: a.Requests, After: time.Duration(a.After)})
	}
	var errs []error
	for i, p := range t.Provides {
		amount, err := types.ParseQuantity(p.Name, p.Amount)
		if err != nil {
			errs = append(errs, fmt.Errorf("provides[%d].amount: %w", i, err))
		}
		task.Provides = append(task.Provides, types.Provide{Name: p.Name, Amount: amount, When: p.When})
	}
	return controlplane.Submission{ID: t.ID, Task: task, Spec: &types.Spec{
		Image: t.Spec.Image, Command: t.Spec.Command, Env: t.Spec.Env, Dir: t.Spec.Dir, User: t.Spec.User,
		Grace: time.Duration(t.Spec.Grace),
	}}, errors.Join(errs...)
}

func (r *Reserve) reservation() types.Reservation {
	return types.Reservation{Bundles: r.Bundles, Priority: r.Priority, Session: r.Session, Accumulate: r.Accumulate}
}

// statusOf is a task's status as JSON has it.
func statusOf(id, name string, s *types.Status) Status {
	if s == nil {
		return Status{ID: id, Name: name, Phase: types.Pending}
	}
	return Status{
		ID: id, Name: name, Phase: s.Phase, Node: s.Node, Attempt: s.Attempt,
		Bound: timeOf(s.Bound), Started: timeOf(s.Started), Ended: timeOf(s.Ended),
		ExitCode: s.ExitCode, Reason: s.Reason,
	}
}

func timeOf(nanos int64) *time.Time {
	if nanos == 0 {
		return nil
	}
	t := time.Unix(0, nanos).UTC()
	return &t
}
