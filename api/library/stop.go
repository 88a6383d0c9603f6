package library

import (
	"context"
	"errors"
	"slices"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/escher-sched/escher/controlplane"
	"github.com/escher-sched/escher/esl/apply"
	"github.com/escher-sched/escher/types"
)

// stopsAtOnce is the most tasks to stop at a time.
const stopsAtOnce = 16

// TasksOf returns tasks, and those of jobs, by their whole ids.
func TasksOf(ctx context.Context, client *controlplane.Client, tasks, jobs []string) ([]controlplane.TaskState, error) {
	var out []controlplane.TaskState
	for _, id := range tasks {
		s, err := client.Status(ctx, id)
		if err != nil {
			return nil, err
		}
		out = append(out, s)
	}
	if len(jobs) == 0 {
		return out, nil
	}
	all, _, err := client.Tasks(ctx)
	for _, t := range all {
		if slices.Contains(jobs, t.Task.Job) {
			out = append(out, t)
		}
	}
	return out, err
}

// Stop stops those tasks, and tasks of jobs, that have not ended, and returns their ids. It first ends
// the updates of the jobs: an update would launch further tasks.
func Stop(ctx context.Context, client *controlplane.Client, tasks, jobs []string, opts controlplane.StopOptions) ([]string, error) {
	for _, id := range jobs {
		if err := apply.EndUpdate(ctx, client, id); err != nil {
			return nil, err
		}
	}
	all, err := TasksOf(ctx, client, tasks, jobs)
	if err != nil {
		return nil, err
	}
	var ids []string
	graces := make(map[string]time.Duration)
	g, gctx := errgroup.WithContext(ctx)
	g.SetLimit(stopsAtOnce)
	for _, t := range all {
		if t.Phase().Ended() {
			continue
		}
		ids = append(ids, t.ID)
		one := opts
		if one.Grace == 0 {
			if one.Grace, err = graceOf(ctx, client, t.Task.Spec, graces); err != nil {
				return nil, errors.Join(err, g.Wait())
			}
		}
		g.Go(func() error {
			err := client.Stop(gctx, t.ID, one)
			if types.Is(err, types.NotFound) {
				return nil
			}
			return err
		})
	}
	return ids, g.Wait()
}

// graceOf returns the grace of a spec; known caches those of specs.
func graceOf(ctx context.Context, client *controlplane.Client, digest string, known map[string]time.Duration) (time.Duration, error) {
	if grace, ok := known[digest]; ok {
		return grace, nil
	}
	spec, err := client.Spec(ctx, digest)
	if err != nil && !types.Is(err, types.NotFound) {
		return 0, err
	}
	known[digest] = controlplane.GraceOf(spec)
	return known[digest], nil
}
