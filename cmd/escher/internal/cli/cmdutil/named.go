package cmdutil

import (
	"context"
	"slices"
	"strings"

	"github.com/escher-sched/escher/api/library"
	"github.com/escher-sched/escher/controlplane"
	"github.com/escher-sched/escher/types"
)

// Named is an object that the command line names.
type Named struct {
	Kind controlplane.Kind
	ID   string
}

func (t Named) String() string {
	return map[controlplane.Kind]string{
		controlplane.Tasks: "task", controlplane.Jobs: "job", controlplane.Reservations: "reservation", controlplane.Nodes: "node",
	}[t.Kind] + " " + t.ID
}

// Find returns the only object of these kinds whose id is name or begins with it; of several, the
// one with exactly that name. If there is none, JOB.INDEX and JOB/INDEX name a task of a job, too.
// NotFound: there is none. Invalid: there are several, or name cannot
// be an id.
func Find(ctx context.Context, client *controlplane.Client, name string, kinds ...controlplane.Kind) (Named, error) {
	const most = 10
	var found []Named
	for _, kind := range kinds {
		// A name that cannot be an id could be a path to another key.
		if types.ValidateName("id", strings.TrimRight(name, "-_.")) != nil {
			break
		}
		ids, err := client.IDs(ctx, kind, name, most+1)
		if err != nil {
			return Named{}, err
		}
		for _, id := range ids {
			if id == name {
				return Named{Kind: kind, ID: id}, nil
			}
			found = append(found, Named{Kind: kind, ID: id})
		}
	}
	if len(found) > 1 {
		var err error
		if found, err = calledExactly(ctx, client, name, found, kinds); err != nil {
			return Named{}, err
		}
	}
	switch {
	case len(found) == 1:
		return found[0], nil
	case len(found) > 1:
		if job, ok, err := wholeJob(ctx, client, name, found); ok || err != nil {
			return job, err
		}
		texts := make([]string, 0, most)
		for _, t := range found[:min(most, len(found))] {
			texts = append(texts, t.String())
		}
		if len(found) > most {
			texts = append(texts, "…")
		}
		return Named{}, types.Errorf(types.Invalid, "%q is ambiguous: write more of the name of one of %s", name, strings.Join(texts, ", "))
	}
	if slices.Contains(kinds, controlplane.Tasks) {
		if task, ok, err := ofIndex(ctx, client, name); ok || err != nil {
			return task, err
		}
	}
	return Named{}, notFound(ctx, client, name, kinds)
}

// wholeJob returns the only job in found, if all tasks whose ids begin with name belong to it,
// which is usual. Reservations of its policies do not count.
func wholeJob(ctx context.Context, client *controlplane.Client, name string, found []Named) (Named, bool, error) {
	jobs := slices.DeleteFunc(slices.Clone(found), func(n Named) bool { return n.Kind == controlplane.Tasks || ofAJob(n, found) })
	if len(jobs) != 1 || jobs[0].Kind != controlplane.Jobs {
		return Named{}, false, nil
	}
	all, err := allOfJob(ctx, client, name, jobs[0].ID)
	return jobs[0], all, err
}

// ofAJob reports whether it is a reservation of a policy of one of the jobs: its name begins with
// that of the job.
func ofAJob(n Named, found []Named) bool {
	return n.Kind == controlplane.Reservations && slices.ContainsFunc(found, func(j Named) bool {
		return j.Kind == controlplane.Jobs && strings.HasPrefix(n.ID, j.ID+".")
	})
}

// allOfJob reports whether all tasks whose ids begin with name belong to a job. It stops at the
// first that does not.
func allOfJob(ctx context.Context, client *controlplane.Client, name, job string) (bool, error) {
	opts := controlplane.ListOptions{Prefix: controlplane.Prefix(controlplane.Tasks, client.Namespace()) + name, Limit: 1000}
	for {
		page, err := client.Store().List(ctx, opts)
		if err != nil {
			return false, err
		}
		for _, kv := range page.KVs {
			var t types.Task
			if types.Decode(kv.Value, &t) != nil || t.Job != job {
				return false, nil
			}
		}
		if !page.More {
			return true, nil
		}
		opts.Revision, opts.After = page.Revision, page.KVs[len(page.KVs)-1].Key
	}
}

// notFound returns the error for a name without an object of these kinds, with suggestions.
func notFound(ctx context.Context, client *controlplane.Client, name string, kinds []controlplane.Kind) error {
	if len(kinds) == 1 {
		_, err := client.ResolveKind(ctx, kinds[0], name)
		return err
	}
	var names, near []string
	for _, kind := range kinds {
		ids, err := client.Near(ctx, kind, name)
		if err != nil {
			return err
		}
		for _, id := range ids {
			near = append(near, Named{Kind: kind, ID: id}.String())
		}
		names = append(names, strings.TrimSpace(Named{Kind: kind}.String()))
	}
	remedy := "escher ps -a and escher jobs -a list tasks and jobs"
	if len(near) > 0 {
		remedy = "did you mean " + strings.Join(near, " or ") + "?"
	}
	return types.Errorf(types.NotFound, "there is no %s %q in namespace %s: %s", strings.Join(names, " or "), name, client.Namespace(), remedy)
}

// FindAll finds all names before the caller changes any object.
func FindAll(ctx context.Context, client *controlplane.Client, names []string, kinds ...controlplane.Kind) ([]Named, error) {
	out := make([]Named, 0, len(names))
	for _, name := range names {
		t, err := Find(ctx, client, name, kinds...)
		if err != nil {
			return nil, err
		}
		if !slices.Contains(out, t) {
			out = append(out, t)
		}
	}
	return out, nil
}

// TasksOf returns the tasks of targets, which are tasks or jobs, by id.
func TasksOf(ctx context.Context, client *controlplane.Client, targets []Named) ([]controlplane.TaskState, error) {
	tasks, jobs := Divided(targets)
	return library.TasksOf(ctx, client, tasks, jobs)
}

// Divided returns the ids of the tasks and of the jobs among targets.
func Divided(targets []Named) (tasks, jobs []string) {
	for _, t := range targets {
		if t.Kind == controlplane.Jobs {
			jobs = append(jobs, t.ID)
		} else {
			tasks = append(tasks, t.ID)
		}
	}
	return tasks, jobs
}

// OneTask returns the task that name names, by its id or name, or as the only task of a job. NotFound
// and Invalid: see Find; Invalid also if the job has several tasks.
func OneTask(ctx context.Context, client *controlplane.Client, name string) (controlplane.TaskState, error) {
	found, err := Find(ctx, client, name, controlplane.Tasks, controlplane.Jobs)
	if err != nil {
		return controlplane.TaskState{}, err
	}
	tasks, err := TasksOf(ctx, client, []Named{found})
	switch {
	case err != nil:
		return controlplane.TaskState{}, err
	case len(tasks) == 0:
		return controlplane.TaskState{}, types.Errorf(types.NotFound, "%s has no tasks any more: those that have ended are deleted after a while", found)
	case len(tasks) > 1:
		return controlplane.TaskState{}, types.Errorf(types.Invalid, "%q is a job of %d tasks: name one of them, such as %s: escher ps -a --job %s", name, len(tasks), tasks[0].ID, found.ID)
	}
	return tasks[0], nil
}

// IdsOf returns the ids of the named tasks or, outside of a task, of those of named jobs.
func IdsOf(ctx context.Context, tasks Tasks, names []string) ([]string, error) {
	direct, ok := tasks.(Direct)
	if !ok {
		return names, nil
	}
	all, err := FindAll(ctx, direct.Client, names, controlplane.Tasks, controlplane.Jobs)
	if err != nil {
		return nil, err
	}
	states, err := TasksOf(ctx, direct.Client, all)
	ids := make([]string, len(states))
	for i := range states {
		ids[i] = states[i].ID
	}
	return ids, err
}
