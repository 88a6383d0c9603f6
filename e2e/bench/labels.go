package bench

import (
	"context"
	"fmt"

	"golang.org/x/sync/errgroup"

	"github.com/escher-sched/escher/controlplane"
	"github.com/escher-sched/escher/e2e/bench/rig"
	"github.com/escher-sched/escher/types"
)

// labelsOnNode is the number of ephemeral resources of each node.
const labelsOnNode = types.MaxRequests

// runLabels measures the time to bind a task with requests for a hundred ephemeral resources, next
// to one with a single request. The former may need more compares than a stock etcd allows.
func runLabels(ctx context.Context, cfg rig.Config) ([]rig.Row, error) {
	cfg.Ops = max(cfg.Ops, rig.OwnOps)
	s, err := rig.Interleave(ctx, cfg, rig.Arm{Name: "labels", Measure: measureLabels})
	if err != nil {
		return nil, err
	}
	hundred, one := s.Of("labels", "hundred_p50_ms"), s.Of("labels", "one_p50_ms")
	r := rig.NewRow(cfg, "labels", "ms", hundred).Over("one label", hundred, one).AddDetails(s, "labels", "hundred_p50_ms", "one_p50_ms").AddViolations(s.Violations("labels"))
	return []rig.Row{*r.Require(cfg.Must, rig.Target{Figure: rig.Ratio, AtMost: true, Must: 1.1})}, nil
}

func measureLabels(ctx context.Context, cfg rig.Config) (rig.Figures, error) {
	return onNodes(ctx, cfg, func(ctx context.Context, c *rig.Cluster, client *controlplane.Client, found rig.Figures) error {
		if err := loadLabels(ctx, c); err != nil {
			return err
		}
		if _, err := c.StartScheduler(rig.RoleScheduler, false); err != nil {
			return err
		}
		watching, stop := context.WithCancel(ctx)
		g, watching := errgroup.WithContext(watching)
		bound := make(chan string, 1)
		g.Go(func() error { return watchBound(watching, client, bound) })
		g.Go(func() error {
			defer stop()
			<-bound // the current tasks
			u, err := c.Window(watching, func(ctx context.Context) error { return labelPairs(ctx, client, bound, cfg, found) })
			if err != nil {
				return err
			}
			return c.AddUsage(found, u, 2*cfg.Tasks)
		})
		err := g.Wait()
		if watching.Err() != nil && ctx.Err() == nil && found["one_p50_ms"] > 0 {
			return nil
		}
		return err
	})
}

// labelPairs submits tasks of both kinds in turns.
func labelPairs(ctx context.Context, client *controlplane.Client, bound <-chan string, cfg rig.Config, found rig.Figures) error {
	var one, hundred rig.Durations
	for i := range cfg.Tasks {
		for n, of := range map[int]*rig.Durations{1: &one, labelsOnNode: &hundred} {
			requests := labelled(i%cfg.Nodes, n)
			if err := of.Time(func() error { return submitOne(ctx, client, bound, requests) }); err != nil {
				return err
			}
		}
	}
	found["one_p99_ms"], found["hundred_p99_ms"] = one.Quantile(0.99), hundred.Quantile(0.99)
	found["hundred_p50_ms"], found["one_p50_ms"] = hundred.Quantile(0.5), one.Quantile(0.5)
	return nil
}

// labelled is n of the resources of a node.
func labelled(node, n int) types.Requests {
	all := make(map[string]types.Quantity, n)
	for i := range n {
		all[label(node, i)] = 1
	}
	return types.NewRequests(all)
}

func label(node, i int) string { return fmt.Sprintf("label-%d-%d", node, i) }

// loadLabels makes the resources, each on its node.
func loadLabels(ctx context.Context, c *rig.Cluster) error {
	return rig.LoadAll(ctx, c.Store, func(yield func(rig.Item) bool) {
		for node := range c.Config.Nodes {
			name := rig.NodeName(node)
			for i := range labelsOnNode {
				r := &types.Resource{Capacity: types.Inf, NodeSession: c.Sessions[name]}
				if !yield(rig.Item{Key: controlplane.ResourceKey(rig.Namespace, label(node, i), name), Value: r}) {
					return
				}
			}
		}
	}, nil)
}
