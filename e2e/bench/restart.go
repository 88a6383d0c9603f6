package bench

import (
	"context"
	"time"

	"github.com/escher-sched/escher/controlplane"
	"github.com/escher-sched/escher/e2e/bench/rig"
	"github.com/escher-sched/escher/types"
)

// runRestart measures how long a new scheduler takes to its first binding, in a cluster with many
// bound tasks.
func runRestart(ctx context.Context, cfg rig.Config) ([]rig.Row, error) {
	s, err := rig.Interleave(ctx, cfg, rig.Arm{Name: "restart", Measure: measureRestart})
	if err != nil {
		return nil, err
	}
	r := rig.NewRow(cfg, "restart", "s", s.Of("restart", firstBinding)).AddDetails(s, "restart", firstBinding).AddViolations(s.Violations("restart"))
	return []rig.Row{*r.Require(cfg.Must, rig.Target{AtMost: true, Must: 20, Aim: 5, Unit: " s"})}, nil
}

// firstBinding is the time from a scheduler's start to its first bind, in seconds.
const firstBinding = "first_binding_s"

func measureRestart(ctx context.Context, cfg rig.Config) (rig.Figures, error) {
	return rig.OnCluster(ctx, cfg, func(ctx context.Context, c *rig.Cluster, found rig.Figures) error {
		if _, err := loadBound(ctx, c, cfg.Nodes, cfg.Tasks); err != nil {
			return err
		}
		u, err := c.Window(ctx, func(ctx context.Context) (err error) {
			_, found[firstBinding], err = untilFirst(ctx, c)
			return err
		})
		found["scheduler_cpu_s"], found["etcd_cpu_s"] = u.CPU[rig.RoleScheduler].Seconds(), u.CPU[rig.RoleEtcd].Seconds()
		if err != nil {
			return err
		}
		return c.AddMemory(found)
	})
}

// untilFirst starts a scheduler in a cluster with one more waiting task. It returns the scheduler
// once that task is bound, and the time this took, in seconds.
func untilFirst(ctx context.Context, c *rig.Cluster) (*rig.Process, float64, error) {
	if err := putProbe(ctx, c, "probe"); err != nil {
		return nil, 0, err
	}
	watching, stop := context.WithCancel(ctx)
	defer stop()
	bound, err := c.Watch(watching, controlplane.Prefix(controlplane.Bindings), nil)
	if err != nil {
		return nil, 0, err
	}
	began := time.Now()
	p, err := c.StartScheduler(rig.RoleScheduler, false)
	if err != nil {
		return nil, 0, err
	}
	at, err := bound.Until(ctx, controlplane.Bindings, 1)
	return p, at.Sub(began).Seconds(), err
}

// putProbe submits a task with a small request.
func putProbe(ctx context.Context, c *rig.Cluster, id string) error {
	_, err := c.Put(ctx, controlplane.TaskKey(rig.Namespace, id), &types.Task{
		Name: "probe", Spec: rig.SpecDigest, Submitted: time.Now().UnixNano(), Requests: types.Requests{{Name: string(types.CPU), Amount: 1}},
	})
	return err
}
