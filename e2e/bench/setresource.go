package bench

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/escher-sched/escher/controlplane"
	"github.com/escher-sched/escher/types"
)

// manyResources is the number of resources set in one call.
const manyResources = 1000

// runSetResource measures the time to set an ephemeral resource: one on a node, next to one put of
// etcd, and a thousand in one call. The latter needs an etcd that allows such large transactions.
func runSetResource(ctx context.Context, cfg Config) ([]Row, error) {
	one, err := interleave(ctx, cfg, arm{"setresource", measureSetResource})
	if err != nil {
		return nil, err
	}
	r := newRow(cfg, "setresource", "ms", one.of("setresource", "set_p50_ms")).over("put", one.of("setresource", "set_p50_ms"), one.of("setresource", "put_p50_ms"))
	r.details(one, "setresource", "set_p50_ms", "put_p50_ms").found(one.violations("setresource"))
	rows := []Row{*r.require(cfg.Must, target{figure: ratio, atMost: true, must: 1.3})}

	large := cfg
	large.Ops = max(cfg.Ops, ownOps)
	many, err := interleave(ctx, large, arm{"setresource-1000", measureSetMany})
	if err != nil {
		return rows, err
	}
	r = newRow(large, "setresource-1000", "ms each", many.of("setresource-1000", "each_ms")).details(many, "setresource-1000", "each_ms").found(many.violations("setresource-1000"))
	return append(rows, *r.require(0, target{atMost: true, must: 0.05, unit: " ms"})), nil
}

// measureSetResource sets one resource after the other, and puts a key of the same size after each.
func measureSetResource(ctx context.Context, cfg Config) (figures, error) {
	return onNodes(ctx, cfg, func(ctx context.Context, c *cluster, client *controlplane.Client, found figures) error {
		var sets, puts, again samplesOf
		for i := range cfg.Tasks {
			name, node := fmt.Sprintf("one-%d", i), nodeName(i%cfg.Nodes)
			set := func(capacity types.Quantity) error {
				_, err := client.SetResource(ctx, name, capacity, controlplane.OnNode(node), controlplane.SetOptions{})
				return err
			}
			if err := sets.time(func() error { return set(1000) }); err != nil {
				return err
			}
			if err := puts.time(func() error { return c.putFloor(ctx, i) }); err != nil {
				return err
			}
			if err := again.time(func() error { return set(2000) }); err != nil {
				return err
			}
		}
		found["set_p50_ms"], found["set_p99_ms"] = sets.quantile(0.5), sets.quantile(0.99)
		found["put_p50_ms"], found["put_p99_ms"] = puts.quantile(0.5), puts.quantile(0.99)
		found["set_again_p50_ms"] = again.quantile(0.5)
		return nil
	})
}

// putFloor puts one key of the size of a resource, without compares.
func (c *cluster) putFloor(ctx context.Context, i int) error {
	x := controlplane.NewChange(controlplane.NewBatch())
	x.Put(fmt.Sprintf("%sput/%07d/resource/%s", floorRoot, i, nodeName(0)), &types.Resource{Capacity: 1000, NodeSession: int64(i + 1)})
	_, err := c.store.Commit(ctx, x.Txn())
	return err
}

// measureSetMany sets as many resources as there are tasks, in one call each time: the same number
// on each node.
func measureSetMany(ctx context.Context, cfg Config) (figures, error) {
	return onNodes(ctx, cfg, func(ctx context.Context, c *cluster, client *controlplane.Client, found figures) error {
		nodes := make([]string, cfg.Nodes)
		for i := range nodes {
			nodes[i] = nodeName(i)
		}
		perNode := max(1, manyResources/len(nodes))
		var calls samplesOf
		for n := range 10 {
			t := client.Begin()
			for i := range perNode {
				t.SetResource(fmt.Sprintf("many-%d-%d", n, i), 1000, controlplane.OnNode(nodes...), controlplane.SetOptions{})
			}
			if err := calls.time(func() error { _, err := t.Commit(ctx); return err }); err != nil {
				return err
			}
		}
		found["each_ms"] = calls.quantile(0.5) / float64(perNode*len(nodes))
		found["call_ms"] = calls.quantile(0.5)
		return nil
	})
}

// onNodes measures with a client on a cluster of nodes without a scheduler.
func onNodes(ctx context.Context, cfg Config, f func(context.Context, *cluster, *controlplane.Client, figures) error) (figures, error) {
	return onCluster(ctx, cfg, func(ctx context.Context, c *cluster, found figures) error {
		h, err := newHollow(cfg)
		if err != nil {
			return err
		}
		if err := c.loadNodes(ctx, h); err != nil {
			return err
		}
		client, err := controlplane.New(c.store, ns)
		if err != nil {
			return err
		}
		return f(ctx, c, client, found)
	})
}

// samplesOf are the durations of repeated calls.
type samplesOf []time.Duration

// time calls do and records its duration.
func (s *samplesOf) time(do func() error) error {
	began := time.Now()
	err := do()
	*s = append(*s, time.Since(began))
	return err
}

// quantile returns a quantile in milliseconds.
func (s samplesOf) quantile(q float64) float64 { return quantile(slices.Sorted(slices.Values(s)), q) }
