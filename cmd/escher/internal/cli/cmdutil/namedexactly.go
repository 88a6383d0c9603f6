package cmdutil

import (
	"cmp"
	"context"
	"slices"
	"strings"

	"github.com/escher-sched/escher/controlplane"
	"github.com/escher-sched/escher/types"
)

// calledExactly returns the jobs with exactly that name, and the tasks without a job: those that
// have not ended or, if every one has, the one submitted last. It returns all of found if none has
// that name.
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
	return LivingOrLast(ctx, client, exact)
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

// LivingOrLast returns those that have not ended, but without those that were told to end if there are
// others; or else the one submitted last. A job ends with the last of its tasks.
func LivingOrLast(ctx context.Context, client *controlplane.Client, all []Named) ([]Named, error) {
	tasks, _, err := client.Tasks(ctx)
	if err != nil {
		return nil, err
	}
	const ending, stays = 1, 2
	lives, submitted := make(map[Named]int), make(map[Named]int64)
	for _, t := range tasks {
		stage := 0
		switch {
		case t.Phase().Ended():
		case t.Task.Stop != nil:
			stage = ending
		default:
			stage = stays
		}
		for _, n := range []Named{{Kind: controlplane.Tasks, ID: t.ID}, {Kind: controlplane.Jobs, ID: t.Task.Job}} {
			lives[n] = max(lives[n], stage)
			submitted[n] = max(submitted[n], t.Task.Submitted)
		}
	}
	for _, stage := range []int{stays, ending} {
		if live := slices.DeleteFunc(slices.Clone(all), func(n Named) bool { return lives[n] < stage }); len(live) > 0 {
			return live, nil
		}
	}
	last := slices.MaxFunc(all, func(a, b Named) int { return cmp.Compare(submitted[a], submitted[b]) })
	return []Named{last}, nil
}
