package bench

import (
	"context"
	"errors"
	"fmt"
	"time"

	containerd "github.com/containerd/containerd/v2/client"
	"golang.org/x/sync/errgroup"

	"github.com/escher-sched/escher/controlplane"
)

// rawInRound is the number of containers that the floor of one pair runs.
const rawInRound = 100

// runTasks measures how many tasks of "true" a cluster runs per second, from their submission until
// all have ended and no container is left. The floor is creating, starting, waiting for and
// deleting the same containers through a client of the same containerd, with the best number of
// workers from 1 to 16.
func runTasks(ctx context.Context, cfg Config) ([]Row, error) {
	var rounds []round
	err := withLive(ctx, cfg, func(ctx context.Context, l *live) error {
		like, err := l.template(ctx)
		if err != nil {
			return err
		}
		workers, err := l.bestWorkers(ctx, cfg, like)
		if err != nil {
			return err
		}
		for i := range cfg.Rounds {
			var r round
			if r.floor, err = l.rawRate(ctx, cfg, like, workers); err != nil {
				return err
			}
			if r.value, err = l.rate(ctx, cfg); err != nil {
				return err
			}
			cfg.progress.say("pair %d of %d: containerd %.1f/s with %d workers, escher %.1f/s (%.2f)", i+1, cfg.Rounds, r.floor, workers, r.value, r.value/r.floor)
			rounds = append(rounds, r)
		}
		return l.end(ctx, like.task)
	})
	if err != nil {
		return nil, err
	}
	row := summary(cfg, "containerd", "tasks/s", rounds)
	return []Row{*row.require(cfg.Must, target{figure: ratio, must: 0.8})}, nil
}

// rate returns how many tasks per second Escher runs.
func (l *live) rate(ctx context.Context, cfg Config) (float64, error) {
	all := make([]controlplane.Submission, cfg.Tasks)
	for i := range all {
		all[i] = task("true")
	}
	begin := time.Now()
	launched, err := l.client.LaunchJob(ctx, controlplane.Job{Name: "true", Tasks: all})
	if err != nil {
		return 0, err
	}
	statuses, err := l.client.Wait(ctx, controlplane.UntilEnded, launched.Tasks...)
	if err != nil {
		return 0, err
	}
	if err := l.onlyTemplate(ctx); err != nil {
		return 0, err
	}
	took := time.Since(begin)
	for id, s := range statuses {
		if s.ExitCode != 0 || s.Reason != "" {
			return 0, fmt.Errorf("task %s %s with exit code %d: %s", id, s.Phase, s.ExitCode, s.Reason)
		}
	}
	return float64(cfg.Tasks) / took.Seconds(), nil
}

// onlyTemplate waits until no other container is left.
func (l *live) onlyTemplate(ctx context.Context) error {
	again := time.NewTicker(5 * time.Millisecond)
	defer again.Stop()
	for {
		all, err := l.raw.Containers(ctx)
		if err != nil || len(all) <= 1 {
			return err
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-again.C:
		}
	}
}

// bestWorkers returns the number of workers with which containerd is fastest.
func (l *live) bestWorkers(ctx context.Context, cfg Config, like template) (int, error) {
	best, most := 0, 0.0
	for _, workers := range []int{1, 2, 4, 8, 16} {
		rate, err := l.rawRate(ctx, cfg, like, workers)
		if err != nil {
			return 0, err
		}
		cfg.progress.say("containerd with %d workers: %.1f/s", workers, rate)
		if rate > most {
			best, most = workers, rate
		}
	}
	return best, nil
}

// rawRate returns how many containers per second containerd runs from beginning to end.
func (l *live) rawRate(ctx context.Context, cfg Config, like template, workers int) (float64, error) {
	g, ctx := errgroup.WithContext(ctx)
	g.SetLimit(workers)
	begin := time.Now()
	for i := range rawInRound {
		g.Go(func() error { return l.rawRun(ctx, cfg, like, fmt.Sprintf("raw-true-%d-%d", workers, i)) })
	}
	err := g.Wait()
	return rawInRound / time.Since(begin).Seconds(), err
}

// rawRun runs one container from beginning to end.
func (l *live) rawRun(ctx context.Context, cfg Config, like template, id string) error {
	c, made, err := l.rawCreate(ctx, cfg, like, id, "true")
	if err != nil {
		return err
	}
	exits, err := made.Wait(ctx)
	if err != nil {
		return err
	}
	if err := made.Start(ctx); err != nil {
		return err
	}
	exit := <-exits
	_, err = made.Delete(ctx)
	return errors.Join(exit.Error(), err, c.Delete(ctx, containerd.WithSnapshotCleanup))
}
