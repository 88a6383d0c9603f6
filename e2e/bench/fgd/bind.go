package fgd

import (
	"context"
	"time"

	"github.com/escher-sched/escher/controlplane"
	view "github.com/escher-sched/escher/controlplane/cluster"
	"github.com/escher-sched/escher/e2e/bench/rig"
	"github.com/escher-sched/escher/esl/builtin"
	"github.com/escher-sched/escher/esl/place"
	"github.com/escher-sched/escher/types"
)

const (
	// assignedAhead is how many tasks may have a node without being bound.
	assignedAhead = 2048
	// quiet is the time without a bind after which binding counts as finished.
	quiet = 15 * time.Second
)

// bindAll lets clusters place the arrivals of all seeds. The arrivals are a job, whose policy runs
// as in a server, and a scheduler binds each where the policy chose, durably. Nodes are keys only.
// The base is the choice of the same function without a cluster.
func bindAll(ctx context.Context, cfg rig.Config, inputs []*input, placed []result) (rig.Row, error) {
	cfg.Ops, cfg.Label = max(cfg.Ops, rig.OwnOps), "bound"
	found := make(map[string][]float64)
	var beside []float64
	for i, in := range inputs {
		one, err := rig.OnCluster(ctx, cfg, func(ctx context.Context, c *rig.Cluster, found rig.Figures) error {
			return bindSeed(ctx, c, found, in, placed[i])
		})
		if err != nil {
			return rig.Row{}, err
		}
		for name, x := range one {
			found[name] = append(found[name], x)
		}
		beside = append(beside, placed[i].allocated)
	}
	row := rig.NewRow(cfg, "fgd-bound", "% of GPU", found[allocatedPercent]).Over("placed", found[allocatedPercent], beside).AddViolations(found[rig.Violations])
	row.Value = rig.Mean(found[allocatedPercent])
	for _, name := range []string{"took_s", "bound", alikePercent, rig.RoleKeeper + "_cpu_us", rig.RoleScheduler + "_cpu_us", rig.RoleEtcd + "_cpu_us"} {
		row.AddDetail(name, found[name])
	}
	return *row.Require(cfg.Must, rig.Target{Must: mustAllocate, Unit: " %"}, rig.Target{Figure: alikePercent, Must: 99, Unit: " % alike"}), nil
}

// Names of figures.
const (
	allocatedPercent = "allocated"
	// alikePercent is the percentage of tasks on the same node as without a cluster.
	alikePercent = "alike_percent"
)

// bindSeed places the arrivals of one seed.
func bindSeed(ctx context.Context, c *rig.Cluster, found rig.Figures, in *input, placed result) error {
	if err := c.LoadNodes(ctx, in.hollow()); err != nil {
		return err
	}
	if err := c.StartRoles(ctx, rig.RoleScheduler, rig.RoleKeeper); err != nil {
		return err
	}
	u, err := c.Window(ctx, func(ctx context.Context) error { return submitAll(ctx, c, in, placed.placed) })
	if err != nil {
		return err
	}
	nodes, err := nodesOf(ctx, c, len(in.requests))
	if err != nil {
		return err
	}
	found[allocatedPercent], found["took_s"] = in.allocated(nodes), u.Wall.Seconds()
	found["bound"], found[alikePercent] = compareNodes(nodes, placed.nodes)
	return c.AddUsage(found, u, len(nodes))
}

// submitAll submits all arrivals as one job, and waits until want are bound, or binding stops.
func submitAll(ctx context.Context, c *rig.Cluster, in *input, want int) error {
	w, err := c.Watch(ctx, controlplane.Prefix(controlplane.Bindings), nil)
	if err != nil {
		return err
	}
	client, err := controlplane.New(c.Store, rig.Namespace)
	if err != nil {
		return err
	}
	tasks := make([]controlplane.Submission, len(in.requests))
	for i, requests := range in.requests {
		tasks[i] = controlplane.Submission{ID: rig.TaskName(i), Task: types.Task{Name: jobID, Requests: requests}, Spec: &types.Spec{Image: "escher.local/bench:latest"}}
	}
	if _, err := builtin.New(client).Submit(ctx, controlplane.Job{ID: jobID, Tasks: tasks}, place.Objective{By: place.Fragments, Ahead: assignedAhead}); err != nil {
		return err
	}
	idle := time.NewTimer(rig.Stall)
	defer idle.Stop()
	for {
		got, _, news, err := w.State(controlplane.Bindings)
		if err != nil || got >= want {
			return err
		}
		select {
		case <-news:
			idle.Reset(quiet)
		case <-idle.C:
			return nil
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// nodesOf returns the nodes of the arrivals; "" for an unbound one.
func nodesOf(ctx context.Context, c *rig.Cluster, n int) ([]string, error) {
	kvs, revision, err := controlplane.ListAll(ctx, c.Store, controlplane.ListOptions{Prefix: controlplane.Root})
	if err != nil {
		return nil, err
	}
	v := view.New()
	for _, kv := range kvs {
		if _, _, err := v.Apply(controlplane.Event{KV: kv}); err != nil {
			return nil, err
		}
	}
	v.Reached(revision)
	nodes := make([]string, n)
	for i := range nodes {
		if t := v.Task(view.ID{Namespace: rig.Namespace, ID: rig.TaskName(i)}); t != nil && t.Phase().Held() {
			nodes[i] = t.Status.V.Node
		}
	}
	return nodes, nil
}

// compareNodes returns how many tasks have a node, and the percentage of all that are alike: on the
// same node in both, or on none.
func compareNodes(nodes, other []string) (bound, alike float64) {
	for i, node := range nodes {
		if node != "" {
			bound++
		}
		if node == other[i] {
			alike++
		}
	}
	return bound, 100 * alike / float64(max(1, len(nodes)))
}
