package bench

import (
	"context"
	"errors"
	"fmt"
	"time"

	containerd "github.com/containerd/containerd/v2/client"
	"golang.org/x/sync/errgroup"

	"github.com/escher-sched/escher/controlplane"
	"github.com/escher-sched/escher/e2e/bench/rig"
)

// rawInRound is the number of containers that the floor of one pair runs.
const rawInRound = 100

// runTasks measures how many tasks of "true" a cluster runs per second, from their submission until
// all have ended and no container is left. The floor is creating, starting, waiting for and
// deleting the same containers through a client of the same containerd, with the best number of
// workers from 1 to 16.
func runTasks(ctx context.Context, cfg rig.Config) ([]rig.Row, error) {
	var rounds []rig.Round
	err := rig.WithLive(ctx, cfg, func(ctx context.Context, l *rig.Live) error {
		like, err := l.StartTemplate(ctx)
		if err != nil {
			return err
		}
		workers, err := bestWorkers(ctx, l, cfg, like)
		if err != nil {
			return err
		}
		for i := range cfg.Rounds {
			var r rig.Round
			if r.Floor, err = rawRate(ctx, l, cfg, like, workers); err != nil {
				return err
			}
			if r.Value, err = escherRate(ctx, l, cfg); err != nil {
				return err
			}
			cfg.Say("pair %d of %d: containerd %.1f/s with %d workers, escher %.1f/s (%.2f)", i+1, cfg.Rounds, r.Floor, workers, r.Value, r.Value/r.Floor)
			rounds = append(rounds, r)
		}
		return l.End(ctx, like.Task)
	})
	if err != nil {
		return nil, err
	}
	row := rig.Summarize(cfg, "containerd", "tasks/s", rounds)
	return []rig.Row{*row.Require(cfg.Must, rig.Target{Figure: rig.Ratio, Must: 0.8})}, nil
}

// escherRate returns how many tasks per second Escher runs.
func escherRate(ctx context.Context, l *rig.Live, cfg rig.Config) (float64, error) {
	all := make([]controlplane.Submission, cfg.Tasks)
	for i := range all {
		all[i] = rig.TinyTask("true")
	}
	begin := time.Now()
	launched, err := l.Client.LaunchJob(ctx, controlplane.Job{Name: "true", Tasks: all})
	if err != nil {
		return 0, err
	}
	statuses, err := l.Client.Wait(ctx, controlplane.UntilEnded, launched.Tasks...)
	if err != nil {
		return 0, err
	}
	if err := onlyTemplate(ctx, l); err != nil {
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
func onlyTemplate(ctx context.Context, l *rig.Live) error {
	again := time.NewTicker(5 * time.Millisecond)
	defer again.Stop()
	for {
		all, err := l.Containerd.Containers(ctx)
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
func bestWorkers(ctx context.Context, l *rig.Live, cfg rig.Config, like rig.Template) (int, error) {
	best, most := 0, 0.0
	for _, workers := range []int{1, 2, 4, 8, 16} {
		rate, err := rawRate(ctx, l, cfg, like, workers)
		if err != nil {
			return 0, err
		}
		cfg.Say("containerd with %d workers: %.1f/s", workers, rate)
		if rate > most {
			best, most = workers, rate
		}
	}
	return best, nil
}

// rawRate returns how many containers per second containerd runs from beginning to end.
func rawRate(ctx context.Context, l *rig.Live, cfg rig.Config, like rig.Template, workers int) (float64, error) {
	g, ctx := errgroup.WithContext(ctx)
	g.SetLimit(workers)
	begin := time.Now()
	for i := range rawInRound {
		g.Go(func() error { return rawRun(ctx, l, cfg, like, fmt.Sprintf("raw-true-%d-%d", workers, i)) })
	}
	err := g.Wait()
	return rawInRound / time.Since(begin).Seconds(), err
}

// rawRun runs one container from beginning to end.
func rawRun(ctx context.Context, l *rig.Live, cfg rig.Config, like rig.Template, id string) error {
	c, made, err := rawCreate(ctx, l, cfg, like, id, "true")
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
