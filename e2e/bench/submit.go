package bench

import (
	"context"
	"fmt"
	"slices"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/escher-sched/escher/controlplane"
	"github.com/escher-sched/escher/e2e/bench/rig"
	"github.com/escher-sched/escher/types"
)

// runSubmit measures the time from the submission of a task until its submitter has seen it bound,
// in an idle cluster. The floor is one put of etcd, of the size of a task, by the same client.
func runSubmit(ctx context.Context, cfg rig.Config) ([]rig.Row, error) {
	var rounds []rig.Round
	found, err := rig.OnCluster(ctx, cfg, func(ctx context.Context, c *rig.Cluster, _ rig.Figures) error {
		empty := cfg
		empty.Tasks = 0
		h, err := rig.NewHollow(empty)
		if err != nil {
			return err
		}
		if err := c.LoadNodes(ctx, h); err != nil {
			return err
		}
		if _, err := c.StartScheduler(rig.RoleScheduler, false); err != nil {
			return err
		}
		rounds, err = submitPairs(ctx, c.Store, cfg)
		return err
	})
	if err != nil {
		return nil, err
	}
	row := rig.Summarize(cfg, "put", "ms", rounds).AddViolations([]float64{found[rig.Violations]})
	return []rig.Row{*row.Require(cfg.Must, rig.Target{Figure: rig.Ratio, AtMost: true, Must: 5})}, nil
}

// submitPairs measures the pairs, after one that warms up.
func submitPairs(ctx context.Context, store controlplane.Store, cfg rig.Config) ([]rig.Round, error) {
	client, err := controlplane.New(store, rig.Namespace)
	if err != nil {
		return nil, err
	}
	bound := make(chan string, 1)
	g, ctx := errgroup.WithContext(ctx)
	g.Go(func() error { return watchBound(ctx, client, bound) })
	<-bound // the current tasks
	var rounds []rig.Round
	for i := range cfg.Rounds + 1 {
		var r rig.Round
		puts, err := times(putsInPair, func(n int) error {
			c := controlplane.NewChange(controlplane.NewBatch())
			c.Put(fmt.Sprintf("%sput/%d/%d", rig.FloorRoot, i, n), &types.Task{Name: "bench", Job: "bench", Spec: rig.SpecDigest, Submitted: int64(n + 1)})
			_, err := store.Commit(ctx, c.Txn())
			return err
		})
		if err != nil {
			return nil, err
		}
		r.Commits, err = times(cfg.Tasks, func(int) error { return submitOne(ctx, client, bound, nil) })
		if err != nil {
			return nil, err
		}
		r.Floor, r.Value = rig.Quantile(puts, 0.5), rig.Quantile(r.Commits, 0.5)
		if i > 0 {
			cfg.Say("pair %d of %d: put %.2f ms, submit to bound %.2f ms (%.2f)", i, cfg.Rounds, r.Floor, r.Value, r.Value/r.Floor)
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
