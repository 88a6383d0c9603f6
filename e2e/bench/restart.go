package bench

import (
	"context"
	"time"

	"github.com/escher-sched/escher/controlplane"
	"github.com/escher-sched/escher/types"
)

// runRestart measures how long a new scheduler takes to its first binding, in a cluster with many
// bound tasks.
func runRestart(ctx context.Context, cfg Config) ([]Row, error) {
	s, err := interleave(ctx, cfg, arm{"restart", measureRestart})
	if err != nil {
		return nil, err
	}
	r := newRow(cfg, "restart", "s", s.of("restart", firstBinding)).details(s, "restart", firstBinding).found(s.violations("restart"))
	return []Row{*r.require(cfg.Must, target{atMost: true, must: 20, aim: 5, unit: " s"})}, nil
}

// firstBinding is the time from a scheduler's start to its first bind, in seconds.
const firstBinding = "first_binding_s"

func measureRestart(ctx context.Context, cfg Config) (figures, error) {
	return onCluster(ctx, cfg, func(ctx context.Context, c *cluster, found figures) error {
		if _, err := c.loadBound(ctx, cfg.Nodes, cfg.Tasks); err != nil {
			return err
		}
		u, err := c.window(ctx, func(ctx context.Context) (err error) {
			_, found[firstBinding], err = c.untilFirst(ctx)
			return err
		})
		found["scheduler_cpu_s"], found["etcd_cpu_s"] = u.cpu[roleScheduler].Seconds(), u.cpu[roleEtcd].Seconds()
		if err != nil {
			return err
		}
		return c.memory(found)
	})
}

// untilFirst starts a scheduler in a cluster with one more waiting task. It returns the scheduler
// once that task is bound, and the time this took, in seconds.
func (c *cluster) untilFirst(ctx context.Context) (*process, float64, error) {
	if err := c.putProbe(ctx, "probe"); err != nil {
		return nil, 0, err
	}
	watching, stop := context.WithCancel(ctx)
	defer stop()
	bound, err := c.watch(watching, controlplane.Prefix(controlplane.Bindings), nil)
	if err != nil {
		return nil, 0, err
	}
	began := time.Now()
	p, err := c.startScheduler(roleScheduler, false)
	if err != nil {
		return nil, 0, err
	}
	at, err := bound.until(ctx, controlplane.Bindings, 1)
	return p, at.Sub(began).Seconds(), err
}

// putProbe submits a task with a small request.
func (c *cluster) putProbe(ctx context.Context, id string) error {
	_, err := c.put(ctx, controlplane.TaskKey(ns, id), &types.Task{
		Name: "probe", Spec: specDigest, Submitted: time.Now().UnixNano(), Requests: types.Requests{{Name: string(types.CPU), Amount: 1}},
	})
	return err
}

// memory adds the resident memory of each process, and its peak, in MiB.
func (c *cluster) memory(found figures) error {
	for _, p := range c.processes {
		now, most, err := p.memory()
		if err != nil {
			return err
		}
		found[p.name+"_mib"], found[p.name+"_most_mib"] = float64(now)/(1<<20), float64(most)/(1<<20)
	}
	return nil
}
