package bench

import (
	"context"
	"time"

	"github.com/escher-sched/escher/controlplane"
	view "github.com/escher-sched/escher/controlplane/cluster"
	"github.com/escher-sched/escher/esl/builtin"
	"github.com/escher-sched/escher/esl/place"
	"github.com/escher-sched/escher/types"
)

const (
	// fgdAhead is how many tasks may have a node without being bound.
	fgdAhead = 2048
	// fgdQuiet is the time without a bind after which binding counts as finished.
	fgdQuiet = 15 * time.Second
)

// bindFGD lets clusters place the arrivals of all seeds. The arrivals are a job, whose policy runs
// as in a server, and a scheduler binds each where the policy chose, durably. Nodes are keys only.
// The base is the choice of the same function without a cluster.
func bindFGD(ctx context.Context, cfg Config, inputs []*fgdInput, placed []fgdResult) (Row, error) {
	cfg.Ops, cfg.label = max(cfg.Ops, ownOps), "bound"
	found := make(map[string][]float64)
	var beside []float64
	for i, in := range inputs {
		one, err := onCluster(ctx, cfg, func(ctx context.Context, c *cluster, found figures) error {
			return c.bindFGD(ctx, found, in, placed[i])
		})
		if err != nil {
			return Row{}, err
		}
		for name, x := range one {
			found[name] = append(found[name], x)
		}
		beside = append(beside, placed[i].allocated)
	}
	row := newRow(cfg, "fgd-bound", "% of GPU", found[fgdAllocated]).over("placed", found[fgdAllocated], beside).found(found[violations])
	row.Value = mean(found[fgdAllocated])
	for _, name := range []string{"took_s", "bound", fgdAlike, roleKeeper + "_cpu_us", roleScheduler + "_cpu_us", roleEtcd + "_cpu_us"} {
		row.detail(name, found[name])
	}
	return *row.require(cfg.Must, target{must: fgdMust, unit: " %"}, target{figure: fgdAlike, must: 99, unit: " % alike"}), nil
}

// Names of figures.
const (
	fgdAllocated = "allocated"
	// fgdAlike is the percentage of tasks on the same node as without a cluster.
	fgdAlike = "alike_percent"
)

// bindFGD places the arrivals of one seed.
func (c *cluster) bindFGD(ctx context.Context, found figures, in *fgdInput, placed fgdResult) error {
	if err := c.loadNodes(ctx, in.hollow()); err != nil {
		return err
	}
	for _, role := range []string{roleScheduler, roleKeeper} {
		p, err := c.start(role, role, roleConfig{Endpoint: c.endpoint, Ops: c.cfg.Ops, Name: role})
		if err == nil {
			_, err = p.ready(ctx)
		}
		if err != nil {
			return err
		}
	}
	u, err := c.window(ctx, func(ctx context.Context) error { return c.submitFGD(ctx, in, placed.placed) })
	if err != nil {
		return err
	}
	nodes, err := c.nodesOfFGD(ctx, len(in.requests))
	if err != nil {
		return err
	}
	found[fgdAllocated], found["took_s"] = in.allocated(nodes), u.wall.Seconds()
	found["bound"], found[fgdAlike] = compareFGD(nodes, placed.nodes)
	return c.add(found, u, len(nodes))
}

// submitFGD submits all arrivals as one job, and waits until want are bound, or binding stops.
func (c *cluster) submitFGD(ctx context.Context, in *fgdInput, want int) error {
	w, err := c.watch(ctx, controlplane.Prefix(controlplane.Bindings), nil)
	if err != nil {
		return err
	}
	client, err := controlplane.New(c.store, ns)
	if err != nil {
		return err
	}
	tasks := make([]controlplane.Submission, len(in.requests))
	for i, requests := range in.requests {
		tasks[i] = controlplane.Submission{ID: taskName(i), Task: types.Task{Name: fgdJob, Requests: requests}, Spec: &types.Spec{Image: "escher.local/bench:latest"}}
	}
	if _, err := builtin.New(client).Submit(ctx, controlplane.Job{ID: fgdJob, Tasks: tasks}, place.Objective{By: place.Fragments, Ahead: fgdAhead}); err != nil {
		return err
	}
	idle := time.NewTimer(stall)
	defer idle.Stop()
	for {
		w.mu.Lock()
		got, err, news := w.puts[string(controlplane.Bindings)], w.err, w.news
		w.mu.Unlock()
		if err != nil || got >= want {
			return err
		}
		select {
		case <-news:
			idle.Reset(fgdQuiet)
		case <-idle.C:
			return nil
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// nodesOfFGD returns the nodes of the arrivals; "" for an unbound one.
func (c *cluster) nodesOfFGD(ctx context.Context, n int) ([]string, error) {
	kvs, revision, err := controlplane.ListAll(ctx, c.store, controlplane.ListOptions{Prefix: controlplane.Root})
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
		if t := v.Task(view.ID{Namespace: ns, ID: taskName(i)}); t != nil && t.Phase().Held() {
			nodes[i] = t.Status.V.Node
		}
	}
	return nodes, nil
}

// compareFGD returns how many tasks have a node, and the percentage of all that are alike: on the
// same node in both, or on none.
func compareFGD(nodes, other []string) (bound, alike float64) {
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
