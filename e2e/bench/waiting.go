package bench

import (
	"context"
	"fmt"

	"golang.org/x/sync/errgroup"

	"github.com/escher-sched/escher/controlplane"
	"github.com/escher-sched/escher/types"
)

// waitersPerTask is the number of waiting tasks per bound task.
const waitersPerTask = 10

// waiters is the job of the tasks that wait for missing resources.
const waiters = "waiters"

// runWaiting measures binding while ten times as many tasks wait, each for a missing ephemeral
// resource of its own.
func runWaiting(ctx context.Context, cfg Config) ([]Row, error) {
	s, err := interleave(ctx, cfg, binding{name: "bind"}.arm(), binding{
		name: "waiting", prepare: func(ctx context.Context, c *cluster, h *hollow) error {
			return c.putWaiters(ctx, waitersPerTask*len(h.tasks))
		},
	}.arm())
	if err != nil {
		return nil, err
	}
	row := bindRow(cfg, s, "waiting", "bind").require(cfg.Must, target{figure: ratio, must: 0.9, aim: 1})
	return []Row{*row}, nil
}

// putWaiters makes n visible tasks that wait.
func (c *cluster) putWaiters(ctx context.Context, n int) error {
	err := loadAll(ctx, c.store, func(yield func(item) bool) {
		for i := range n {
			id := fmt.Sprintf("waiter-%07d", i)
			t := &types.Task{
				Name: waiters, Job: waiters, Spec: specDigest, Submitted: int64(i + 1),
				Requests: types.NewRequests(map[string]types.Quantity{string(types.CPU): 100, "no-" + id: 1}),
			}
			if !yield(item{controlplane.TaskKey(ns, id), t}) {
				return
			}
		}
	}, nil)
	if err != nil {
		return err
	}
	return c.putJob(ctx, ns, waiters, n)
}

// runWake measures how fast tasks are bound that each wait for an ephemeral resource of their own,
// among ten times as many, once these resources are set one by one: from the first call to the last
// binding. "wake" sets them many per transaction, "wake-calls" with one call each.
func runWake(ctx context.Context, cfg Config) ([]Row, error) {
	wake := binding{draw: assigned, edit: askOwn, prepare: func(ctx context.Context, c *cluster, h *hollow) error {
		if err := c.putWaiters(ctx, (waitersPerTask-1)*len(h.tasks)); err != nil {
			return err
		}
		return putJobs(ctx, c, h)
	}}
	many, single := wake, wake
	many.name, many.begin = "wake", setOwn
	single.name, single.begin = "wake-calls", callOwn
	s, err := interleave(ctx, cfg, binding{name: "bind", draw: assigned}.arm(), many.arm(), single.arm())
	if err != nil {
		return nil, err
	}
	return []Row{
		*bindRow(cfg, s, "wake", "bind").require(cfg.Must, target{figure: ratio, must: 0.8}),
		*bindRow(cfg, s, "wake-calls", "bind").require(0),
	}, nil
}

// ownName is the ephemeral resource of one task.
func ownName(task int) string { return fmt.Sprintf("own-%07d", task) }

// askOwn makes a task request its own resource.
func askOwn(_ *hollow, i int, t *types.Task) {
	t.Requests = t.Requests.Plus(types.NewRequests(map[string]types.Quantity{ownName(i): 1}))
}

// setAtOnce is the number of resources set by one transaction, which also compares the names.
const setAtOnce = 32

// setOwn sets the resources of all tasks, each on the node the task fits on, several per
// transaction.
func setOwn(ctx context.Context, c *cluster, h *hollow) error {
	return eachCaller(ctx, c, (len(h.tasks)+setAtOnce-1)/setAtOnce, loadInFlight, func(ctx context.Context, client *controlplane.Client, n int) error {
		t := client.Begin()
		for i := n * setAtOnce; i < min((n+1)*setAtOnce, len(h.tasks)); i++ {
			t.SetResource(ownName(i), 1, controlplane.OnNode(nodeName(h.at[i])), controlplane.SetOptions{})
		}
		_, err := t.Commit(ctx)
		return err
	})
}

// callOwn sets them with one call each.
func callOwn(ctx context.Context, c *cluster, h *hollow) error {
	return eachCaller(ctx, c, len(h.tasks), rawInFlight, func(ctx context.Context, client *controlplane.Client, i int) error {
		_, err := client.SetResource(ctx, ownName(i), 1, controlplane.OnNode(nodeName(h.at[i])), controlplane.SetOptions{})
		return err
	})
}

// eachCaller makes n calls, atOnce of them in parallel.
func eachCaller(ctx context.Context, c *cluster, n, atOnce int, call func(context.Context, *controlplane.Client, int) error) error {
	client, err := controlplane.New(c.store, ns)
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
