package bench

import (
	"context"
	"fmt"

	"github.com/escher-sched/escher/controlplane"
	"github.com/escher-sched/escher/types"
)

// runEphemeral measures binding when each task also requests one of as many ephemeral resources as
// there are nodes.
func runEphemeral(ctx context.Context, cfg Config) ([]Row, error) {
	s, err := interleave(ctx, cfg, binding{name: "bind", draw: assigned}.arm(), binding{
		name: "ephemeral", draw: assigned, prepare: putEach, edit: askNode,
	}.arm())
	if err != nil {
		return nil, err
	}
	return []Row{*bindRow(cfg, s, "ephemeral", "bind").require(cfg.Must, target{figure: ratio, must: 0.9, aim: 1})}, nil
}

// eachName is the ephemeral resource of one node.
func eachName(node int) string { return fmt.Sprintf("each-%05d", node) }

// putEach makes one ephemeral resource on each node, as much of it as its tasks request.
func putEach(ctx context.Context, c *cluster, h *hollow) error {
	asked := make([]types.Quantity, len(h.nodes))
	for _, n := range h.at {
		asked[n]++
	}
	return loadAll(ctx, c.store, func(yield func(item) bool) {
		for n := range h.nodes {
			key := controlplane.ResourceKey(ns, eachName(n), nodeName(n))
			if !yield(item{key, &types.Resource{Capacity: max(1, asked[n]), NodeSession: c.sessions[nodeName(n)]}}) {
				return
			}
		}
	}, nil)
}

// askNode makes a task request the resource of its node.
func askNode(h *hollow, i int, t *types.Task) {
	t.Requests = t.Requests.Plus(types.NewRequests(map[string]types.Quantity{eachName(h.at[i]): 1}))
}

// quotaName is the cluster-wide resource that all tasks draw on.
const quotaName = "quota"

// runQuota measures binding when every task of the namespace draws on one cluster-wide resource.
func runQuota(ctx context.Context, cfg Config) ([]Row, error) {
	s, err := interleave(ctx, cfg, binding{name: "bind"}.arm(), binding{name: "quota", prepare: putQuota}.arm())
	if err != nil {
		return nil, err
	}
	return []Row{*bindRow(cfg, s, "quota", "bind").require(cfg.Must, target{figure: ratio, must: 0.7, aim: 0.9})}, nil
}

// putQuota makes the pool, and makes all tasks of the namespace draw on it.
func putQuota(ctx context.Context, c *cluster, h *hollow) error {
	if _, err := c.put(ctx, controlplane.ResourceKey(ns, quotaName, types.ClusterWide), &types.Resource{Capacity: types.Quantity(len(h.tasks))}); err != nil {
		return err
	}
	_, err := c.put(ctx, controlplane.NamespaceKey(ns), &types.Namespace{Requests: types.NewRequests(map[string]types.Quantity{quotaName: 1})})
	return err
}

// few is the number of nodes that growth compares many with.
const few = 100

// runGrowth measures the scheduler's CPU time per task on many nodes, and on few larger ones: the
// same tasks at the same utilization. The devices are counted, not listed, as no node lists a
// thousand.
func runGrowth(ctx context.Context, cfg Config) ([]Row, error) {
	s, err := interleave(ctx, cfg, binding{name: "many", draw: countedDevices}.arm(), binding{name: "few", nodes: few, draw: countedDevices}.arm())
	if err != nil {
		return nil, err
	}
	const perTask = roleScheduler + "_cpu_us"
	row := newRow(cfg, "growth", "us/task", s.of("many", perTask)).over(fmt.Sprintf("%d nodes", few), s.of("many", perTask), s.of("few", perTask))
	row.details(s, "many", perTask).detail("few_rate", s.of("few", rate)).detail("many_rate", s.of("many", rate))
	return []Row{*row.found(s.violations("many", "few")).require(cfg.Must, target{figure: ratio, atMost: true, must: 1.5, aim: 1.1})}, nil
}

// countedDevices draws a cluster whose nodes do not list their devices.
func countedDevices(cfg Config) (*hollow, error) {
	h, err := newHollow(cfg)
	if err != nil {
		return nil, err
	}
	clear(h.devices)
	return h, nil
}

// apart is the number of namespaces over which tasks spread that several schedulers share.
const apart = 64

// runSchedulers measures binding by several schedulers at once that share the namespaces: the first
// 99 of 100 tasks.
func runSchedulers(ctx context.Context, cfg Config) ([]Row, error) {
	var arms []arm
	for _, n := range []int{1, 2, 4} {
		arms = append(arms, binding{name: fmt.Sprintf("schedulers-%d", n), schedulers: n, namespaces: apart, spare: 0.01}.arm())
	}
	s, err := interleave(ctx, cfg, arms...)
	if err != nil {
		return nil, err
	}
	one := arms[0].name
	var rows []Row
	for i, a := range arms {
		row := bindRow(cfg, s, a.name, one)
		switch i {
		case 0:
			row.require(0)
		case 1:
			row.require(0, target{figure: conflictsPercent, atMost: true, must: 5, unit: " % refused"})
		default:
			row.require(cfg.Must, target{figure: ratio, must: 0.6, aim: 1}, target{figure: conflictsPercent, atMost: true, must: 5, unit: " % refused"})
		}
		rows = append(rows, *row)
	}
	return rows, nil
}
