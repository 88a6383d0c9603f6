package bench

import (
	"context"
	"fmt"
	"time"

	"github.com/escher-sched/escher/controlplane"
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
func runUnrelated(ctx context.Context, cfg Config) ([]Row, error) {
	s, err := interleave(ctx, cfg, arm{"unrelated", unrelatedArm(unrelatedResources)}, arm{"none", unrelatedArm(0)})
	if err != nil {
		return nil, err
	}
	many, none := s.of("unrelated", makespan), s.of("none", makespan)
	r := newRow(cfg, "unrelated", "s", many).over("none of them", many, none).details(s, "unrelated", makespan)
	r.detail("none_scheduler_cpu_us", s.of("none", "scheduler_cpu_us")).found(s.violations("unrelated", "none"))
	return []Row{*r.require(cfg.Must, target{figure: ratio, atMost: true, must: 1.05})}, nil
}

// makespan is the time from a job becoming visible until all of it is bound, in seconds.
const makespan = "makespan_s"

func unrelatedArm(resources int) func(context.Context, Config) (figures, error) {
	return func(ctx context.Context, cfg Config) (figures, error) {
		all := cfg
		all.Tasks *= unrelatedJobs
		// Jobs come one after the other, so tasks that are hard to place also come last: hence
		// twice the capacity.
		h, err := newSparse(all, 2)
		if err != nil {
			return nil, err
		}
		return onCluster(ctx, cfg, func(ctx context.Context, c *cluster, found figures) error {
			if err := c.loadNodes(ctx, h); err != nil {
				return err
			}
			if err := c.loadUnrelated(ctx, resources); err != nil {
				return err
			}
			if err := c.loadTasks(ctx, h, func(i int, t *types.Task) { t.Job = unrelatedJob(i % unrelatedJobs) }); err != nil {
				return err
			}
			if _, err := c.startScheduler(roleScheduler, false); err != nil {
				return err
			}
			return c.jobs(ctx, found)
		})
	}
}

func unrelatedJob(i int) string { return fmt.Sprintf("bench-%d", i) }

// jobs makes one job after the other visible, and adds their durations.
func (c *cluster) jobs(ctx context.Context, found figures) error {
	watching, stop := context.WithCancel(ctx)
	defer stop()
	bound, err := c.watch(watching, controlplane.Prefix(controlplane.Bindings), nil)
	if err != nil {
		return err
	}
	var took []float64
	u, err := c.window(ctx, func(ctx context.Context) error {
		for i := range unrelatedJobs {
			began := time.Now()
			if err := c.putJob(ctx, ns, unrelatedJob(i), c.cfg.Tasks); err != nil {
				return err
			}
			last, err := bound.until(ctx, controlplane.Bindings, (i+1)*c.cfg.Tasks)
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
	found[makespan] = median(took)
	return c.add(found, u, unrelatedJobs*c.cfg.Tasks)
}

// loadUnrelated makes resources without requests, on all nodes alike.
func (c *cluster) loadUnrelated(ctx context.Context, n int) error {
	return loadAll(ctx, c.store, func(yield func(item) bool) {
		for i := range n {
			node := nodeName(i % c.cfg.Nodes)
			r := &types.Resource{Capacity: 1000, NodeSession: c.sessions[node]}
			if !yield(item{controlplane.ResourceKey(ns, fmt.Sprintf("unrelated-%d", i), node), r}) {
				return
			}
		}
	}, nil)
}
