package bench

import (
	"context"
	"fmt"

	"github.com/escher-sched/escher/controlplane"
	"github.com/escher-sched/escher/e2e/bench/rig"
	"github.com/escher-sched/escher/types"
)

// runEphemeral measures binding when each task also requests one of as many ephemeral resources as
// there are nodes.
func runEphemeral(ctx context.Context, cfg rig.Config) ([]rig.Row, error) {
	s, err := rig.Interleave(ctx, cfg, binding{name: "bind", draw: assigned}.arm(), binding{
		name: "ephemeral", draw: assigned, prepare: putEach, edit: askNode,
	}.arm())
	if err != nil {
		return nil, err
	}
	return []rig.Row{*bindRow(cfg, s, "ephemeral", "bind").Require(cfg.Must, rig.Target{Figure: rig.Ratio, Must: 0.9, Aim: 1})}, nil
}

// eachName is the ephemeral resource of one node.
func eachName(node int) string { return fmt.Sprintf("each-%05d", node) }

// putEach makes one ephemeral resource on each node, as much of it as its tasks request.
func putEach(ctx context.Context, c *rig.Cluster, h *rig.Hollow) error {
	asked := make([]types.Quantity, len(h.Nodes))
	for _, n := range h.At {
		asked[n]++
	}
	return rig.LoadAll(ctx, c.Store, func(yield func(rig.Item) bool) {
		for n := range h.Nodes {
			key := controlplane.ResourceKey(rig.Namespace, eachName(n), rig.NodeName(n))
			if !yield(rig.Item{Key: key, Value: &types.Resource{Capacity: max(1, asked[n]), NodeSession: c.Sessions[rig.NodeName(n)]}}) {
				return
			}
		}
	}, nil)
}

// askNode makes a task request the resource of its node.
func askNode(h *rig.Hollow, i int, t *types.Task) {
	t.Requests = t.Requests.Plus(types.NewRequests(map[string]types.Quantity{eachName(h.At[i]): 1}))
}

// quotaName is the cluster-wide resource that all tasks draw on.
const quotaName = "quota"

// runQuota measures binding when every task of the namespace draws on one cluster-wide resource.
func runQuota(ctx context.Context, cfg rig.Config) ([]rig.Row, error) {
	s, err := rig.Interleave(ctx, cfg, binding{name: "bind"}.arm(), binding{name: "quota", prepare: putQuota}.arm())
	if err != nil {
		return nil, err
	}
	return []rig.Row{*bindRow(cfg, s, "quota", "bind").Require(cfg.Must, rig.Target{Figure: rig.Ratio, Must: 0.7, Aim: 0.9})}, nil
}

// putQuota makes the pool, and makes all tasks of the namespace draw on it.
func putQuota(ctx context.Context, c *rig.Cluster, h *rig.Hollow) error {
	if _, err := c.Put(ctx, controlplane.ResourceKey(rig.Namespace, quotaName, types.ClusterWide), &types.Resource{Capacity: types.Quantity(len(h.Tasks))}); err != nil {
		return err
	}
	_, err := c.Put(ctx, controlplane.NamespaceKey(rig.Namespace), &types.Namespace{Requests: types.NewRequests(map[string]types.Quantity{quotaName: 1})})
	return err
}

// few is the number of nodes that growth compares many with.
const few = 100

// runGrowth measures the scheduler's CPU time per task on many nodes, and on few larger ones: the
// same tasks at the same utilization. The devices are counted, not listed, as no node lists a
// thousand.
func runGrowth(ctx context.Context, cfg rig.Config) ([]rig.Row, error) {
	s, err := rig.Interleave(ctx, cfg, binding{name: "many", draw: countedDevices}.arm(), binding{name: "few", nodes: few, draw: countedDevices}.arm())
	if err != nil {
		return nil, err
	}
	const perTask = rig.RoleScheduler + "_cpu_us"
	row := rig.NewRow(cfg, "growth", "us/task", s.Of("many", perTask)).Over(fmt.Sprintf("%d nodes", few), s.Of("many", perTask), s.Of("few", perTask))
	row.AddDetails(s, "many", perTask).AddDetail("few_rate", s.Of("few", rig.Rate)).AddDetail("many_rate", s.Of("many", rig.Rate))
	return []rig.Row{*row.AddViolations(s.Violations("many", "few")).Require(cfg.Must, rig.Target{Figure: rig.Ratio, AtMost: true, Must: 1.5, Aim: 1.1})}, nil
}

// countedDevices draws a cluster whose nodes do not list their devices.
func countedDevices(cfg rig.Config) (*rig.Hollow, error) {
	h, err := rig.NewHollow(cfg)
	if err != nil {
		return nil, err
	}
	clear(h.Devices)
	return h, nil
}

// apart is the number of namespaces over which tasks spread that several schedulers share.
const apart = 64

// runSchedulers measures binding by several schedulers at once that share the namespaces: the first
// 99 of 100 tasks.
func runSchedulers(ctx context.Context, cfg rig.Config) ([]rig.Row, error) {
	var arms []rig.Arm
	for _, n := range []int{1, 2, 4} {
		arms = append(arms, binding{name: fmt.Sprintf("schedulers-%d", n), schedulers: n, namespaces: apart, spare: 0.01}.arm())
	}
	s, err := rig.Interleave(ctx, cfg, arms...)
	if err != nil {
		return nil, err
	}
	one := arms[0].Name
	var rows []rig.Row
	for i, a := range arms {
		row := bindRow(cfg, s, a.Name, one)
		switch i {
		case 0:
			row.Require(0)
		case 1:
			row.Require(0, rig.Target{Figure: conflictsPercent, AtMost: true, Must: 5, Unit: " % refused"})
		default:
			row.Require(cfg.Must, rig.Target{Figure: rig.Ratio, Must: 0.6, Aim: 1}, rig.Target{Figure: conflictsPercent, AtMost: true, Must: 5, Unit: " % refused"})
		}
		rows = append(rows, *row)
	}
	return rows, nil
}
