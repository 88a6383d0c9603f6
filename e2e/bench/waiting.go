package bench

import (
	"context"
	"fmt"

	"golang.org/x/sync/errgroup"

	"github.com/escher-sched/escher/controlplane"
	"github.com/escher-sched/escher/e2e/bench/rig"
	"github.com/escher-sched/escher/types"
)

// waitersPerTask is the number of waiting tasks per bound task.
const waitersPerTask = 10

// waiters is the job of the tasks that wait for missing resources.
const waiters = "waiters"

// runWaiting measures binding while ten times as many tasks wait, each for a missing ephemeral
// resource of its own.
func runWaiting(ctx context.Context, cfg rig.Config) ([]rig.Row, error) {
	s, err := rig.Interleave(ctx, cfg, binding{name: "bind"}.arm(), binding{
		name: "waiting", prepare: func(ctx context.Context, c *rig.Cluster, h *rig.Hollow) error {
			return putWaiters(ctx, c, waitersPerTask*len(h.Tasks))
		},
	}.arm())
	if err != nil {
		return nil, err
	}
	row := bindRow(cfg, s, "waiting", "bind").Require(cfg.Must, rig.Target{Figure: rig.Ratio, Must: 0.9, Aim: 1})
	return []rig.Row{*row}, nil
}

// putWaiters makes n visible tasks that wait.
func putWaiters(ctx context.Context, c *rig.Cluster, n int) error {
	err := rig.LoadAll(ctx, c.Store, func(yield func(rig.Item) bool) {
		for i := range n {
			id := fmt.Sprintf("waiter-%07d", i)
			t := &types.Task{
				Name: waiters, Job: waiters, Spec: rig.SpecDigest, Submitted: int64(i + 1),
				Requests: types.NewRequests(map[string]types.Quantity{string(types.CPU): 100, "no-" + id: 1}),
			}
			if !yield(rig.Item{Key: controlplane.TaskKey(rig.Namespace, id), Value: t}) {
				return
			}
		}
	}, nil)
	if err != nil {
		return err
	}
	return putJob(ctx, c, rig.Namespace, waiters, n)
}

// runWake measures how fast tasks are bound that each wait for an ephemeral resource of their own,
// among ten times as many, once these resources are set one by one: from the first call to the last
// binding. "wake" sets them many per transaction, "wake-calls" with one call each.
func runWake(ctx context.Context, cfg rig.Config) ([]rig.Row, error) {
	wake := binding{draw: assigned, edit: askOwn, prepare: func(ctx context.Context, c *rig.Cluster, h *rig.Hollow) error {
		if err := putWaiters(ctx, c, (waitersPerTask-1)*len(h.Tasks)); err != nil {
			return err
		}
		return putJobs(ctx, c, h)
	}}
	many, single := wake, wake
	many.name, many.begin = "wake", setOwn
	single.name, single.begin = "wake-calls", callOwn
	s, err := rig.Interleave(ctx, cfg, binding{name: "bind", draw: assigned}.arm(), many.arm(), single.arm())
	if err != nil {
		return nil, err
	}
	return []rig.Row{
		*bindRow(cfg, s, "wake", "bind").Require(cfg.Must, rig.Target{Figure: rig.Ratio, Must: 0.8}),
		*bindRow(cfg, s, "wake-calls", "bind").Require(0),
	}, nil
}

// ownName is the ephemeral resource of one task.
func ownName(task int) string { return fmt.Sprintf("own-%07d", task) }

// askOwn makes a task request its own resource.
func askOwn(_ *rig.Hollow, i int, t *types.Task) {
	t.Requests = t.Requests.Plus(types.NewRequests(map[string]types.Quantity{ownName(i): 1}))
}

// setAtOnce is the number of resources set by one transaction, which also compares the names.
const setAtOnce = 32

// setOwn sets the resources of all tasks, each on the node the task fits on, several per
// transaction.
func setOwn(ctx context.Context, c *rig.Cluster, h *rig.Hollow) error {
	return eachCaller(ctx, c, (len(h.Tasks)+setAtOnce-1)/setAtOnce, rig.LoadInFlight, func(ctx context.Context, client *controlplane.Client, n int) error {
		t := client.Begin()
		for i := n * setAtOnce; i < min((n+1)*setAtOnce, len(h.Tasks)); i++ {
			t.SetResource(ownName(i), 1, controlplane.OnNode(rig.NodeName(h.At[i])), controlplane.SetOptions{})
		}
		_, err := t.Commit(ctx)
		return err
	})
}

// callOwn sets them with one call each.
func callOwn(ctx context.Context, c *rig.Cluster, h *rig.Hollow) error {
	return eachCaller(ctx, c, len(h.Tasks), rawInFlight, func(ctx context.Context, client *controlplane.Client, i int) error {
		_, err := client.SetResource(ctx, ownName(i), 1, controlplane.OnNode(rig.NodeName(h.At[i])), controlplane.SetOptions{})
		return err
	})
}

// eachCaller makes n calls, atOnce of them in parallel.
func eachCaller(ctx context.Context, c *rig.Cluster, n, atOnce int, call func(context.Context, *controlplane.Client, int) error) error {
	client, err := controlplane.New(c.Store, rig.Namespace)
	if err != nil {
		return err
	}
	g, ctx := errgroup.WithContext(ctx)
	for first := range atOnce {
		g.Go(func() error {
			for i := first; i < n; i += atOnce {
				if err := call(ctx, client, i); err != nil {
					return err
				}
			}
			return nil
		})
	}
	return g.Wait()
}
