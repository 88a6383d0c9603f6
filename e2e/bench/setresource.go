package bench

import (
	"context"
	"fmt"

	"github.com/escher-sched/escher/controlplane"
	"github.com/escher-sched/escher/e2e/bench/rig"
	"github.com/escher-sched/escher/types"
)

// manyResources is the number of resources set in one call.
const manyResources = 1000

// runSetResource measures the time to set an ephemeral resource: one on a node, next to one put of
// etcd, and a thousand in one call. The latter needs an etcd that allows such large transactions.
func runSetResource(ctx context.Context, cfg rig.Config) ([]rig.Row, error) {
	one, err := rig.Interleave(ctx, cfg, rig.Arm{Name: "setresource", Measure: measureSetResource})
	if err != nil {
		return nil, err
	}
	r := rig.NewRow(cfg, "setresource", "ms", one.Of("setresource", "set_p50_ms")).Over("put", one.Of("setresource", "set_p50_ms"), one.Of("setresource", "put_p50_ms"))
	r.AddDetails(one, "setresource", "set_p50_ms", "put_p50_ms").AddViolations(one.Violations("setresource"))
	rows := []rig.Row{*r.Require(cfg.Must, rig.Target{Figure: rig.Ratio, AtMost: true, Must: 1.3})}

	large := cfg
	large.Ops = max(cfg.Ops, rig.OwnOps)
	many, err := rig.Interleave(ctx, large, rig.Arm{Name: "setresource-1000", Measure: measureSetMany})
	if err != nil {
		return rows, err
	}
	r = rig.NewRow(large, "setresource-1000", "ms each", many.Of("setresource-1000", "each_ms")).AddDetails(many, "setresource-1000", "each_ms").AddViolations(many.Violations("setresource-1000"))
	return append(rows, *r.Require(0, rig.Target{AtMost: true, Must: 0.05, Unit: " ms"})), nil
}

// measureSetResource sets one resource after the other, and puts a key of the same size after each.
func measureSetResource(ctx context.Context, cfg rig.Config) (rig.Figures, error) {
	return onNodes(ctx, cfg, func(ctx context.Context, c *rig.Cluster, client *controlplane.Client, found rig.Figures) error {
		var sets, puts, again rig.Durations
		for i := range cfg.Tasks {
			name, node := fmt.Sprintf("one-%d", i), rig.NodeName(i%cfg.Nodes)
			set := func(capacity types.Quantity) error {
				_, err := client.SetResource(ctx, name, capacity, controlplane.OnNode(node), controlplane.SetOptions{})
				return err
			}
			if err := sets.Time(func() error { return set(1000) }); err != nil {
				return err
			}
			if err := puts.Time(func() error { return c.PutFloor(ctx, i) }); err != nil {
				return err
			}
			if err := again.Time(func() error { return set(2000) }); err != nil {
				return err
			}
		}
		found["set_p50_ms"], found["set_p99_ms"] = sets.Quantile(0.5), sets.Quantile(0.99)
		found["put_p50_ms"], found["put_p99_ms"] = puts.Quantile(0.5), puts.Quantile(0.99)
		found["set_again_p50_ms"] = again.Quantile(0.5)
		return nil
	})
}

// measureSetMany sets as many resources as there are tasks, in one call each time: the same number
// on each node.
func measureSetMany(ctx context.Context, cfg rig.Config) (rig.Figures, error) {
	return onNodes(ctx, cfg, func(ctx context.Context, c *rig.Cluster, client *controlplane.Client, found rig.Figures) error {
		nodes := make([]string, cfg.Nodes)
		for i := range nodes {
			nodes[i] = rig.NodeName(i)
		}
		perNode := max(1, manyResources/len(nodes))
		var calls rig.Durations
		for n := range 10 {
			t := client.Begin()
			for i := range perNode {
				t.SetResource(fmt.Sprintf("many-%d-%d", n, i), 1000, controlplane.OnNode(nodes...), controlplane.SetOptions{})
			}
			if err := calls.Time(func() error { _, err := t.Commit(ctx); return err }); err != nil {
				return err
			}
		}
		found["each_ms"] = calls.Quantile(0.5) / float64(perNode*len(nodes))
		found["call_ms"] = calls.Quantile(0.5)
		return nil
	})
}

// onNodes measures with a client on a cluster of nodes without a scheduler.
func onNodes(ctx context.Context, cfg rig.Config, f func(context.Context, *rig.Cluster, *controlplane.Client, rig.Figures) error) (rig.Figures, error) {
	return rig.OnCluster(ctx, cfg, func(ctx context.Context, c *rig.Cluster, found rig.Figures) error {
		h, err := rig.NewHollow(cfg)
		if err != nil {
			return err
		}
		if err := c.LoadNodes(ctx, h); err != nil {
			return err
		}
		client, err := controlplane.New(c.Store, rig.Namespace)
		if err != nil {
			return err
		}
		return f(ctx, c, client, found)
	})
}
