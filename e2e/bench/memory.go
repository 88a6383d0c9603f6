package bench

import (
	"context"
	"fmt"
	"time"

	"github.com/escher-sched/escher/controlplane"
	"github.com/escher-sched/escher/types"
)

// runMemory measures the peak memory of a scheduler with many live tasks: bound in one row; in
// another waiting, each for a missing resource of its own.
func runMemory(ctx context.Context, cfg Config) ([]Row, error) {
	arms := []arm{
		{"memory-bound", memoryArm(func(ctx context.Context, c *cluster) error {
			_, err := c.loadBound(ctx, c.cfg.Nodes, c.cfg.Tasks)
			return err
		})},
		{"memory-waiting", memoryArm(func(ctx context.Context, c *cluster) error {
			h, err := newHollow(c.cfg)
			if err != nil {
				return err
			}
			if err := c.loadNodes(ctx, h); err != nil {
				return err
			}
			if err := c.loadTasks(ctx, h, waitForOwn); err != nil {
				return err
			}
			return c.putJob(ctx, ns, "bench", c.cfg.Tasks)
		})},
	}
	s, err := interleave(ctx, cfg, arms...)
	if err != nil {
		return nil, err
	}
	var rows []Row
	for _, a := range arms {
		r := newRow(cfg, a.name, "MiB", s.of(a.name, "scheduler_most_mib")).details(s, a.name).found(s.violations(a.name))
		rows = append(rows, *r.require(cfg.Must, target{atMost: true, must: 2048, aim: 1024, unit: " MiB"}))
	}
	return rows, nil
}

// waitForOwn makes task i request a resource of its own.
func waitForOwn(i int, t *types.Task) {
	t.Requests = t.Requests.Plus(types.Requests{{Name: fmt.Sprintf("own-%07d", i), Amount: 1000}})
}

// settled is how long a scheduler is left alone before its memory is read.
const settled = 2 * time.Second

func memoryArm(load func(context.Context, *cluster) error) func(context.Context, Config) (figures, error) {
	return func(ctx context.Context, cfg Config) (figures, error) {
		return onCluster(ctx, cfg, func(ctx context.Context, c *cluster, found figures) (err error) {
			if err := load(ctx, c); err != nil {
				return err
			}
			if _, found[firstBinding], err = c.untilFirst(ctx); err != nil {
				return err
			}
			if err := sleep(ctx, settled); err != nil {
				return err
			}
			// Waking it shows its memory when something happens.
			if err := c.probeAgain(ctx); err != nil {
				return err
			}
			return c.memory(found)
		})
	}
}

// probeAgain submits some more tasks, and waits until they are bound.
func (c *cluster) probeAgain(ctx context.Context) error {
	const n = 100
	watching, stop := context.WithCancel(ctx)
	defer stop()
	bound, err := c.watch(watching, controlplane.Prefix(controlplane.Bindings), nil)
	if err != nil {
		return err
	}
	for i := range n {
		if err := c.putProbe(ctx, fmt.Sprintf("probe-%d", i)); err != nil {
			return err
		}
	}
	_, err = bound.until(ctx, controlplane.Bindings, n)
	return err
}
