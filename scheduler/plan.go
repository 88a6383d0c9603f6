package scheduler

import (
	"fmt"
	"time"

	"github.com/escher-sched/escher/controlplane"
	"github.com/escher-sched/escher/controlplane/cluster"
	"github.com/escher-sched/escher/types"
)

// Placement is where a task would be placed, or why it would wait.
type Placement struct {
	// Task is its id: the one it was submitted with, else one that stands for it.
	Task string `json:"task"`
	// Node is where it would run; empty if it would wait.
	Node string `json:"node,omitempty"`
	// Alternative is the index of the alternative it would take.
	Alternative int `json:"alternative,omitempty"`
	// Why says what it would wait for; nil if it would be placed. Tasks that ask
	// for the same share it: its id is that of the first.
	Why *Explanation `json:"why,omitempty"`
}

// Plan says what would become of tasks that were submitted to namespace ns now:
// where each would be placed, beside what runs and after what waits already, and
// why it would wait. The placements are in the order of subs. It is Schedule, on a
// copy of the view: nothing is changed, and what is told is true until something
// else happens.
//
// Invalid: a task cannot be accepted. AlreadyExists: an id was used. Precondition:
// nothing new is admitted at present.
func Plan(v *cluster.View, subs []controlplane.Submission, ns string, now time.Time) ([]Placement, error) {
	ids, with, err := withSubmitted(v, subs, ns, now)
	if err != nil {
		return nil, err
	}
	_, d := schedule(with, Config{}, now)
	bound := make(map[cluster.ID]Bind, len(d.Binds))
	for _, b := range d.Binds {
		bound[b.Task] = b
	}
	e := explainerIn(with, d, now)
	e.planned = make(map[cluster.ID]bool, len(ids))
	for _, id := range ids {
		e.planned[id] = true
	}
	// What all of one shape wait for is the same.
	byShape := make(map[string]*Explanation)
	out := make([]Placement, len(subs))
	for i, id := range ids {
		out[i].Task = id.ID
		if b, ok := bound[id]; ok {
			out[i].Node, out[i].Alternative = b.Node, b.Alternative
			continue
		}
		shape := taskShape(ns, with.Task(id).Info.V)
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
		// They wait in the order given, after what waits already, and their job is
		// complete.
		task.Job, task.Submitted = "", now.UnixNano()-int64(len(subs)-i)
		with.Suppose(&cluster.Task{ID: id, Info: cluster.Cell[cluster.TaskValue]{V: cluster.NewTask(&task)}})
		ids[i] = id
	}
	return ids, with, nil
}

// standIn is what a task is called that has no id.
func standIn(name string) string {
	if name == "" {
		return "task"
	}
	return name
}
