package bench

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/escher-sched/escher/controlplane"
	"github.com/escher-sched/escher/controlplane/etcdstore"
	"github.com/escher-sched/escher/scheduler"
	"github.com/escher-sched/escher/types"
)

// putsInPair is how many puts the floor of one pair is the median of.
const putsInPair = 100

// runSubmit measures how long a task takes from being submitted until its submitter
// has seen it bound, in a cluster that is idle. The floor is one put of etcd, of the
// size of a task, by the same client.
func runSubmit(ctx context.Context, cfg Config) (Row, error) {
	var rounds []round
	err := withDirectory(cfg, func(dir string) error {
		return withEtcd(ctx, cfg, dir, func(ctx context.Context, store *etcdstore.Store) error {
			empty := cfg
			empty.Tasks = 0
			if err := load(ctx, store, empty); err != nil {
				return err
			}
			running, stop := context.WithCancel(ctx)
			defer stop()
			g, running := errgroup.WithContext(running)
			g.Go(func() error {
				return scheduler.Run(running, store, scheduler.Config{Name: "bench"}, cfg.Log)
			})
			g.Go(func() (err error) {
				defer stop()
				rounds, err = submitPairs(running, store, cfg)
				return err
			})
			if err := g.Wait(); err != nil && !errors.Is(err, context.Canceled) {
				return err
			}
			return nil
		})
	})
	if err != nil {
		return Row{}, err
	}
	row := summary(cfg, "ms", rounds)
	row.Must, row.OK = fmt.Sprintf("<= %.1fx", cfg.Must), row.Ratio <= cfg.Must
	return row, nil
}

// submitPairs measures the pairs, after one that warms up.
func submitPairs(ctx context.Context, store controlplane.Store, cfg Config) ([]round, error) {
	client, err := controlplane.New(store, ns)
	if err != nil {
		return nil, err
	}
	bound := make(chan string, 1)
	g, ctx := errgroup.WithContext(ctx)
	g.Go(func() error { return watchBound(ctx, client, bound) })
	<-bound // what there is
	var rounds []round
	for i := range cfg.Rounds + 1 {
		var r round
		puts, err := times(putsInPair, func(n int) error {
			c := controlplane.NewChange(controlplane.NewBatch())
			c.Put(fmt.Sprintf("%sput/%d/%d", floorRoot, i, n), hollowTask(n))
			_, err := store.Commit(ctx, c.Txn())
			return err
		})
		if err != nil {
			return nil, err
		}
		r.commits, err = times(cfg.Tasks, func(int) error { return submitOne(ctx, client, bound) })
		if err != nil {
			return nil, err
		}
		r.floor, r.value = quantile(puts, 0.5), quantile(r.commits, 0.5)
		if i > 0 {
			fmt.Fprintf(cfg.Progress, "pair %d of %d: put %.2f ms, submit to bound %.2f ms (%.2f)\n", i, cfg.Rounds, r.floor, r.value, r.value/r.floor)
			rounds = append(rounds, r)
		}
	}
	return rounds, nil
}

// watchBound sends the ids of tasks that are bound, after an empty one when it begins.
func watchBound(ctx context.Context, client *controlplane.Client, bound chan<- string) error {
	return client.Watch(ctx, controlplane.WatchTasks{}, func(u controlplane.StatusUpdate) error {
		ids := []string{""}
		if !u.Synced {
			ids = nil
		}
		for _, c := range u.Changes {
			ids = append(ids, c.ID)
		}
		for _, id := range ids {
			select {
			case bound <- id:
			case <-ctx.Done():
				return ctx.Err()
			}
		}
		return nil
	})
}

// submitOne submits a task and waits until it is seen to be bound.
func submitOne(ctx context.Context, client *controlplane.Client, bound <-chan string) error {
	launched, err := client.Launch(ctx, controlplane.Submission{
		Task: types.Task{Name: "bench"}, Spec: &types.Spec{Image: "escher.local/bench:latest"},
	})
	if err != nil {
		return err
	}
	select {
	case id := <-bound:
		if id != launched.Tasks[0] {
			return types.Errorf(types.Internal, "bench: task %s was bound, and %s submitted", id, launched.Tasks[0])
		}
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// times does something so many times, and returns how long each took, sorted.
func times(n int, do func(i int) error) ([]time.Duration, error) {
	all := make([]time.Duration, 0, n)
	for i := range n {
		start := time.Now()
		if err := do(i); err != nil {
			return nil, err
		}
		all = append(all, time.Since(start))
	}
	slices.Sort(all)
	return all, nil
}
