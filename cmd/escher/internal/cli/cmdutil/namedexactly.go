package cmdutil

import (
	"context"
	"slices"
	"strings"

	"github.com/escher-sched/escher/controlplane"
	"github.com/escher-sched/escher/types"
)

// calledExactly returns the jobs with exactly that name, and the tasks without a job: those that
// have not ended, or all if every one has. It returns all of found if none has that name.
func calledExactly(ctx context.Context, client *controlplane.Client, name string, found []Named, kinds []controlplane.Kind) ([]Named, error) {
	var exact []Named
	for _, kind := range kinds {
		if kind != controlplane.Jobs && kind != controlplane.Tasks {
			continue
		}
		ids, err := IdsCalled(ctx, client, kind, name)
		if err != nil {
			return nil, err
		}
		for _, id := range ids {
			exact = append(exact, Named{Kind: kind, ID: id})
		}
	}
	switch len(exact) {
	case 0:
		return found, nil
	case 1:
		return exact, nil
	}
	live, err := notEnded(ctx, client, exact)
	if len(live) == 0 {
		live = exact
	}
	return live, err
}

// IdsCalled returns the ids of the jobs, or of the tasks without a job, with a name: generated ids
// begin with it.
func IdsCalled(ctx context.Context, client *controlplane.Client, kind controlplane.Kind, name string) ([]string, error) {
	prefix := controlplane.Prefix(kind, client.Namespace())
	all, _, err := controlplane.ListAll(ctx, client.Store(), controlplane.ListOptions{Prefix: prefix + name})
	var ids []string
	for _, kv := range all {
		var j types.Job
		var t types.Task
		switch id := strings.TrimPrefix(kv.Key, prefix); {
		case kind == controlplane.Jobs && types.Decode(kv.Value, &j) == nil && j.Name == name:
			ids = append(ids, id)
		case kind == controlplane.Tasks && types.Decode(kv.Value, &t) == nil && t.Name == name && t.Job == "":
			ids = append(ids, id)
		}
	}
	return ids, err
}

// notEnded returns those that have not ended: of jobs, those with a task that has not.
func notEnded(ctx context.Context, client *controlplane.Client, all []Named) ([]Named, error) {
	tasks, _, err := client.Tasks(ctx)
	live := make(map[Named]bool)
	for _, t := range tasks {
		if !t.Phase().Ended() {
			live[Named{Kind: controlplane.Tasks, ID: t.ID}] = true
			live[Named{Kind: controlplane.Jobs, ID: t.Task.Job}] = true
		}
	}
	return slices.DeleteFunc(slices.Clone(all), func(n Named) bool { return !live[n] }), err
}
