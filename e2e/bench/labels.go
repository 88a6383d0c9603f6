package bench

import (
	"context"
	"fmt"

	"golang.org/x/sync/errgroup"

	"github.com/escher-sched/escher/controlplane"
	"github.com/escher-sched/escher/types"
)

// labelsOnNode is the number of ephemeral resources of each node.
const labelsOnNode = types.MaxRequests

// runLabels measures the time to bind a task with requests for a hundred ephemeral resources, next
// to one with a single request. The former may need more compares than a stock etcd allows.
func runLabels(ctx context.Context, cfg Config) ([]Row, error) {
	cfg.Ops = max(cfg.Ops, ownOps)
	s, err := interleave(ctx, cfg, arm{"labels", measureLabels})
	if err != nil {
		return nil, err
	}
	hundred, one := s.of("labels", "hundred_p50_ms"), s.of("labels", "one_p50_ms")
	r := newRow(cfg, "labels", "ms", hundred).over("one label", hundred, one).details(s, "labels", "hundred_p50_ms", "one_p50_ms").found(s.violations("labels"))
	return []Row{*r.require(cfg.Must, target{figure: ratio, atMost: true, must: 1.1})}, nil
}

func measureLabels(ctx context.Context, cfg Config) (figures, error) {
	return onNodes(ctx, cfg, func(ctx context.Context, c *cluster, client *controlplane.Client, found figures) error {
		if err := c.loadLabels(ctx); err != nil {
			return err
		}
		if _, err := c.startScheduler(roleScheduler, false); err != nil {
			return err
		}
		watching, stop := context.WithCancel(ctx)
		g, watching := errgroup.WithContext(watching)
		bound := make(chan string, 1)
		g.Go(func() error { return watchBound(watching, client, bound) })
		g.Go(func() error {
			defer stop()
			<-bound // the current tasks
			u, err := c.window(watching, func(ctx context.Context) error { return labelPairs(ctx, client, bound, cfg, found) })
			if err != nil {
				return err
			}
			return c.add(found, u, 2*cfg.Tasks)
		})
		err := g.Wait()
		if watching.Err() != nil && ctx.Err() == nil && found["one_p50_ms"] > 0 {
			return nil
		}
		return err
	})
}

// labelPairs submits tasks of both kinds in turns.
func labelPairs(ctx context.Context, client *controlplane.Client, bound <-chan string, cfg Config, found figures) error {
	var one, hundred samplesOf
	for i := range cfg.Tasks {
		for n, of := range map[int]*samplesOf{1: &one, labelsOnNode: &hundred} {
			requests := labelled(i%cfg.Nodes, n)
			if err := of.time(func() error { return submitOne(ctx, client, bound, requests) }); err != nil {
				return err
			}
		}
	}
	found["one_p99_ms"], found["hundred_p99_ms"] = one.quantile(0.99), hundred.quantile(0.99)
	found["hundred_p50_ms"], found["one_p50_ms"] = hundred.quantile(0.5), one.quantile(0.5)
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
func (c *cluster) loadLabels(ctx context.Context) error {
	return loadAll(ctx, c.store, func(yield func(item) bool) {
		for node := range c.cfg.Nodes {
			name := nodeName(node)
			for i := range labelsOnNode {
				r := &types.Resource{Capacity: types.Inf, NodeSession: c.sessions[name]}
				if !yield(item{controlplane.ResourceKey(ns, label(node, i), name), r}) {
					return
				}
			}
		}
	}, nil)
}
