package bench

import (
	"context"
	"fmt"
	"slices"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/escher-sched/escher/controlplane"
	"github.com/escher-sched/escher/types"
)

// runSubmit measures the time from the submission of a task until its submitter has seen it bound,
// in an idle cluster. The floor is one put of etcd, of the size of a task, by the same client.
func runSubmit(ctx context.Context, cfg Config) ([]Row, error) {
	var rounds []round
	found, err := onCluster(ctx, cfg, func(ctx context.Context, c *cluster, _ figures) error {
		empty := cfg
		empty.Tasks = 0
		h, err := newHollow(empty)
		if err != nil {
			return err
		}
		if err := c.loadNodes(ctx, h); err != nil {
			return err
		}
		if _, err := c.startScheduler(roleScheduler, false); err != nil {
			return err
		}
		rounds, err = submitPairs(ctx, c.store, cfg)
		return err
	})
	if err != nil {
		return nil, err
	}
	row := summary(cfg, "put", "ms", rounds).found([]float64{found[violations]})
	return []Row{*row.require(cfg.Must, target{figure: ratio, atMost: true, must: 5})}, nil
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
	<-bound // the current tasks
	var rounds []round
	for i := range cfg.Rounds + 1 {
		var r round
		puts, err := times(putsInPair, func(n int) error {
			c := controlplane.NewChange(controlplane.NewBatch())
			c.Put(fmt.Sprintf("%sput/%d/%d", floorRoot, i, n), &types.Task{Name: "bench", Job: "bench", Spec: specDigest, Submitted: int64(n + 1)})
			_, err := store.Commit(ctx, c.Txn())
			return err
		})
		if err != nil {
			return nil, err
		}
		r.commits, err = times(cfg.Tasks, func(int) error { return submitOne(ctx, client, bound, nil) })
		if err != nil {
			return nil, err
		}
		r.floor, r.value = quantile(puts, 0.5), quantile(r.commits, 0.5)
		if i > 0 {
			cfg.progress.say("pair %d of %d: put %.2f ms, submit to bound %.2f ms (%.2f)", i, cfg.Rounds, r.floor, r.value, r.value/r.floor)
			rounds = append(rounds, r)
		}
	}
	return rounds, nil
}

// watchBound sends the ids of bound tasks, after an empty one when it begins.
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
func submitOne(ctx context.Context, client *controlplane.Client, bound <-chan string, requests types.Requests) error {
	launched, err := client.Launch(ctx, controlplane.Submission{
		Task: types.Task{Name: "bench", Requests: requests}, Spec: &types.Spec{Image: "escher.local/bench:latest"},
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

// times calls do n times, and returns the durations, sorted.
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
