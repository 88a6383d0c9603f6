package bench

import (
	"context"
	"fmt"
	"time"

	"github.com/escher-sched/escher/controlplane"
	"github.com/escher-sched/escher/e2e/bench/rig"
	"github.com/escher-sched/escher/types"
)

// runMemory measures the peak memory of a scheduler with many live tasks: bound in one row; in
// another waiting, each for a missing resource of its own.
func runMemory(ctx context.Context, cfg rig.Config) ([]rig.Row, error) {
	arms := []rig.Arm{
		{Name: "memory-bound", Measure: memoryArm(func(ctx context.Context, c *rig.Cluster) error {
			_, err := loadBound(ctx, c, c.Config.Nodes, c.Config.Tasks)
			return err
		})},
		{Name: "memory-waiting", Measure: memoryArm(func(ctx context.Context, c *rig.Cluster) error {
			h, err := rig.NewHollow(c.Config)
			if err != nil {
				return err
			}
			if err := c.LoadNodes(ctx, h); err != nil {
				return err
			}
			if err := c.LoadTasks(ctx, h, waitForOwn); err != nil {
				return err
			}
			return putJob(ctx, c, rig.Namespace, "bench", c.Config.Tasks)
		})},
	}
	s, err := rig.Interleave(ctx, cfg, arms...)
	if err != nil {
		return nil, err
	}
	var rows []rig.Row
	for _, a := range arms {
		r := rig.NewRow(cfg, a.Name, "MiB", s.Of(a.Name, "scheduler_most_mib")).AddDetails(s, a.Name).AddViolations(s.Violations(a.Name))
		rows = append(rows, *r.Require(cfg.Must, rig.Target{AtMost: true, Must: 2048, Aim: 1024, Unit: " MiB"}))
	}
	return rows, nil
}

// waitForOwn makes task i request a resource of its own.
func waitForOwn(i int, t *types.Task) {
	t.Requests = t.Requests.Plus(types.Requests{{Name: fmt.Sprintf("own-%07d", i), Amount: 1000}})
}

// settled is how long a scheduler is left alone before its memory is read.
const settled = 2 * time.Second

func memoryArm(load func(context.Context, *rig.Cluster) error) func(context.Context, rig.Config) (rig.Figures, error) {
	return func(ctx context.Context, cfg rig.Config) (rig.Figures, error) {
		return rig.OnCluster(ctx, cfg, func(ctx context.Context, c *rig.Cluster, found rig.Figures) (err error) {
			if err := load(ctx, c); err != nil {
				return err
			}
			if _, found[firstBinding], err = untilFirst(ctx, c); err != nil {
				return err
			}
			if err := rig.Sleep(ctx, settled); err != nil {
				return err
			}
			// Waking it shows its memory when something happens.
			if err := probeAgain(ctx, c); err != nil {
				return err
			}
			return c.AddMemory(found)
		})
	}
}

// probeAgain submits some more tasks, and waits until they are bound.
func probeAgain(ctx context.Context, c *rig.Cluster) error {
	const n = 100
	watching, stop := context.WithCancel(ctx)
	defer stop()
	bound, err := c.Watch(watching, controlplane.Prefix(controlplane.Bindings), nil)
	if err != nil {
		return err
	}
	for i := range n {
		if err := putProbe(ctx, c, fmt.Sprintf("probe-%d", i)); err != nil {
			return err
		}
	}
	_, err = bound.Until(ctx, controlplane.Bindings, n)
	return err
}
