package bench

import (
	"context"
	"fmt"
	"time"

	"github.com/escher-sched/escher/controlplane"
	"github.com/escher-sched/escher/e2e/bench/rig"
	"github.com/escher-sched/escher/types"
)

const (
	// unrelatedResources is the number of resources that no task requests.
	unrelatedResources = 100_000
	// unrelatedJobs is the number of jobs per median in a round: one is too short.
	unrelatedJobs = 5
)

// runUnrelated measures the time to bind a job while there are very many ephemeral resources that
// it does not request, next to the same without them.
func runUnrelated(ctx context.Context, cfg rig.Config) ([]rig.Row, error) {
	s, err := rig.Interleave(ctx, cfg, rig.Arm{Name: "unrelated", Measure: unrelatedArm(unrelatedResources)}, rig.Arm{Name: "none", Measure: unrelatedArm(0)})
	if err != nil {
		return nil, err
	}
	many, none := s.Of("unrelated", makespan), s.Of("none", makespan)
	r := rig.NewRow(cfg, "unrelated", "s", many).Over("none of them", many, none).AddDetails(s, "unrelated", makespan)
	r.AddDetail("none_scheduler_cpu_us", s.Of("none", "scheduler_cpu_us")).AddViolations(s.Violations("unrelated", "none"))
	return []rig.Row{*r.Require(cfg.Must, rig.Target{Figure: rig.Ratio, AtMost: true, Must: 1.05})}, nil
}

// makespan is the time from a job becoming visible until all of it is bound, in seconds.
const makespan = "makespan_s"

func unrelatedArm(resources int) func(context.Context, rig.Config) (rig.Figures, error) {
	return func(ctx context.Context, cfg rig.Config) (rig.Figures, error) {
		all := cfg
		all.Tasks *= unrelatedJobs
		// Jobs come one after the other, so tasks that are hard to place also come last: hence
		// twice the capacity.
		h, err := newSparse(all, 2)
		if err != nil {
			return nil, err
		}
		return rig.OnCluster(ctx, cfg, func(ctx context.Context, c *rig.Cluster, found rig.Figures) error {
			if err := c.LoadNodes(ctx, h); err != nil {
				return err
			}
			if err := loadUnrelated(ctx, c, resources); err != nil {
				return err
			}
			if err := c.LoadTasks(ctx, h, func(i int, t *types.Task) { t.Job = unrelatedJob(i % unrelatedJobs) }); err != nil {
				return err
			}
			if _, err := c.StartScheduler(rig.RoleScheduler, false); err != nil {
				return err
			}
			return runJobs(ctx, c, found)
		})
	}
}

func unrelatedJob(i int) string { return fmt.Sprintf("bench-%d", i) }

// runJobs makes one job after the other visible, and adds their durations.
func runJobs(ctx context.Context, c *rig.Cluster, found rig.Figures) error {
	watching, stop := context.WithCancel(ctx)
	defer stop()
	bound, err := c.Watch(watching, controlplane.Prefix(controlplane.Bindings), nil)
	if err != nil {
		return err
	}
	var took []float64
	u, err := c.Window(ctx, func(ctx context.Context) error {
		for i := range unrelatedJobs {
			began := time.Now()
			if err := putJob(ctx, c, rig.Namespace, unrelatedJob(i), c.Config.Tasks); err != nil {
				return err
			}
			last, err := bound.Until(ctx, controlplane.Bindings, (i+1)*c.Config.Tasks)
			if err != nil {
				return err
			}
			took = append(took, last.Sub(began).Seconds())
		}
		return nil
	})
	if err != nil {
		return err
	}
	found[makespan] = rig.Median(took)
	return c.AddUsage(found, u, unrelatedJobs*c.Config.Tasks)
}

// loadUnrelated makes resources without requests, on all nodes alike.
func loadUnrelated(ctx context.Context, c *rig.Cluster, n int) error {
	return rig.LoadAll(ctx, c.Store, func(yield func(rig.Item) bool) {
		for i := range n {
			node := rig.NodeName(i % c.Config.Nodes)
			r := &types.Resource{Capacity: 1000, NodeSession: c.Sessions[node]}
			if !yield(rig.Item{Key: controlplane.ResourceKey(rig.Namespace, fmt.Sprintf("unrelated-%d", i), node), Value: r}) {
				return
			}
		}
	}, nil)
}
