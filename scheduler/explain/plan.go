package explain

import (
	"fmt"
	"time"

	"github.com/escher-sched/escher/controlplane"
	"github.com/escher-sched/escher/controlplane/cluster"
	"github.com/escher-sched/escher/controlplane/why"
	"github.com/escher-sched/escher/scheduler"
	"github.com/escher-sched/escher/scheduler/draft"
	"github.com/escher-sched/escher/scheduler/queue"
	"github.com/escher-sched/escher/types"
)

// Placement is where a task would be placed, or why it would wait.
type Placement struct {
	// Task is its id: the submitted one, otherwise a stand-in.
	Task string `json:"task"`
	// Node is where it would run; empty if it would wait.
	Node string `json:"node,omitempty"`
	// Alternative is the index of the alternative it would take.
	Alternative int `json:"alternative,omitempty"`
	// Why says what it would wait for; nil if it would be placed. Tasks with the same request share
	// it: its id is that of the first.
	Why *why.Explanation `json:"why,omitempty"`
}

// Plan predicts the placement of tasks submitted to namespace ns now: where each would be placed,
// next to the running tasks and after the waiting ones, or why it would wait. The placements are in
// the order of subs. Plan runs Schedule on a copy of the view and changes nothing. Later events may
// invalidate the result.
//
// Invalid: a task cannot be accepted. AlreadyExists: an id was used. Precondition: admission is
// closed at present.
func Plan(v *cluster.View, subs []controlplane.Submission, ns string, now time.Time) ([]Placement, error) {
	ids, with, err := withSubmitted(v, subs, ns, now)
	if err != nil {
		return nil, err
	}
	_, d := scheduler.Simulate(with, scheduler.Config{}, now)
	bound := make(map[cluster.ID]draft.Bind, len(d.Binds))
	for _, b := range d.Binds {
		bound[b.Task] = b
	}
	return placed(explainerIn(with, d, now), ids, ns, bound)
}

// Impossible is Plan without placing anything: it only says which of the tasks can never run on the
// present nodes. The placements of all others are empty.
func Impossible(v *cluster.View, subs []controlplane.Submission, ns string, now time.Time) ([]Placement, error) {
	ids, with, err := withSubmitted(v, subs, ns, now)
	if err != nil {
		return nil, err
	}
	out, err := placed(newExplainer(with, now), ids, ns, nil)
	for i := range out {
		if out[i].Why != nil && !out[i].Why.Infeasible {
			out[i].Why = nil
		}
	}
	return out, err
}

// placed returns the placements of planned tasks, some of which are bound.
func placed(e *explainer, ids []cluster.ID, ns string, bound map[cluster.ID]draft.Bind) ([]Placement, error) {
	e.planned = make(map[cluster.ID]bool, len(ids))
	for _, id := range ids {
		e.planned[id] = true
	}
	// All tasks of a shape wait for the same.
	byShape := make(map[string]*why.Explanation)
	out := make([]Placement, len(ids))
	for i, id := range ids {
		out[i].Task = id.ID
		if b, ok := bound[id]; ok {
			out[i].Node, out[i].Alternative = b.Node, b.Alternative
			continue
		}
		shape := queue.TaskText(ns, e.v.Task(id).Info.V)
		if byShape[shape] == nil {
			x, err := e.task(id)
			if err != nil {
				return nil, err
			}
			byShape[shape] = &x
		}
		out[i].Why = byShape[shape]
	}
	return out, nil
}

// withSubmitted returns the view with tasks added, and their ids.
func withSubmitted(v *cluster.View, subs []controlplane.Submission, ns string, now time.Time) ([]cluster.ID, *cluster.View, error) {
	if a := v.Admission.V; a != nil {
		return nil, nil, types.Errorf(types.Precondition, "plan: nothing new is admitted: %s: try again later", a.Reason)
	}
	with := v.Copy()
	ids := make([]cluster.ID, len(subs))
	for i := range subs {
		task := subs[i].Task
		if err := task.Validate(); err != nil {
			return nil, nil, types.Errorf(types.Invalid, "plan: tasks[%d]: %w", i, err)
		}
		id := cluster.ID{Namespace: ns, ID: subs[i].ID}
		for n := i + 1; id.ID == "" || subs[i].ID == "" && with.Task(id) != nil; n += len(subs) {
			id.ID = fmt.Sprintf("%s-%d", standIn(task.Name), n)
		}
		if with.Task(id) != nil {
			return nil, nil, types.Errorf(types.AlreadyExists, "plan: tasks[%d]: id %s was used: ids are never used again, choose another", i, id.ID)
		}
		// They wait in the given order, after the tasks that wait already, and without a job to
		// complete.
		task.Job, task.Submitted = "", now.UnixNano()-int64(len(subs)-i)
		with.AddHypothetical(&cluster.Task{ID: id, Info: cluster.Cell[cluster.TaskValue]{V: cluster.NewTask(&task)}})
		ids[i] = id
	}
	return ids, with, nil
}

// standIn is the base of the id for a task without one.
func standIn(name string) string {
	if name == "" {
		return "task"
	}
	return name
}
