package gang

import (
	"context"
	"errors"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/escher-sched/escher/controlplane"
	"github.com/escher-sched/escher/e2e/bench/rig"
	"github.com/escher-sched/escher/esl"
	"github.com/escher-sched/escher/esl/builtin"
	"github.com/escher-sched/escher/types"
)

// Scenarios returns the scenarios about a policy as a library, next to a built-in one.
func Scenarios() []rig.Scenario {
	return []rig.Scenario{
		{Name: "gang", About: "from submitting a gang on 32 nodes to seeing all of it bound: bare client, library, and built into a scheduler; beside one put",
			Full: rig.Size{Nodes: 32, Tasks: 120, Rounds: 5}, Quick: rig.Size{Nodes: 32, Tasks: 20, Rounds: 3}, Run: runGang},
		{Name: "gangs", About: "gangs of 2 to 64 that contend for 32 nodes: how much of the processors is in use, by library and built into a scheduler",
			Full: rig.Size{Nodes: 32, Tasks: 100, Rounds: 5}, Quick: rig.Size{Nodes: 32, Tasks: 30, Rounds: 1}, Run: runGangsContending},
	}
}

// cpusOnNode is the number of processors per node.
const cpusOnNode = 8

// gangWarm is the number of gangs before those that count.
const gangWarm = 5

// runGang measures gangs with one member per node, which takes all of it, and gangs with one member
// per processor. Its tasks are the number of gangs of each kind in a round. The kinds take turns.
func runGang(ctx context.Context, cfg rig.Config) ([]rig.Row, error) {
	cfg.Ops = max(cfg.Ops, rig.OwnOps)
	small, large := cfg.Nodes, cfg.Nodes*cpusOnNode
	s, err := rig.Interleave(ctx, cfg, gangArm("gang", small), gangArm("gang-cpus", large))
	if err != nil {
		return nil, err
	}
	var rows []rig.Row
	for i, name := range []string{"gang", "gang-cpus"} {
		one := cfg
		one.Tasks = []int{small, large}[i]
		for _, sp := range spaces() {
			rows = append(rows, *sp.row(one, s, name))
		}
	}
	return rows, nil
}

// row is the row of one way to submit a gang.
func (sp space) row(cfg rig.Config, s rig.Samples, arm string) *rig.Row {
	of := func(name, figure string) []float64 { return s.Of(arm, name+figure) }
	p50, p99 := of(sp.name, "_p50_ms"), of(sp.name, "_p99_ms")
	r := rig.NewRow(cfg, arm+"-"+sp.name, "ms", p50)
	r.P50, r.P99 = rig.Median(p50), rig.Median(p99)
	r.AddDetail("lines", []float64{float64(sp.lines)}).AddDetail("lines_below", []float64{float64(sp.below)}).AddDetail("commit_p50_ms", of(sp.name, "_commit_p50_ms")).AddViolations(s.Violations(arm))
	most := rig.Target{AtMost: true, Must: 20, Unit: " ms"}
	if sp.name == frameSpace {
		r.Over("put", p50, s.Of(arm, "put_p50_ms"))
		if arm == "gang" {
			return r.Require(cfg.Must, rig.Target{Figure: rig.Ratio, AtMost: true, Must: 5}, most)
		}
		return r.Require(cfg.Must, most)
	}
	r.Over(frameSpace, p50, of(frameSpace, "_p50_ms")).AddDetail("p99_ratio", rig.Ratios(p99, of(frameSpace, "_p99_ms")))
	if sp.name == libSpace {
		return r.Require(cfg.Must, rig.Target{Figure: rig.Ratio, AtMost: true, Must: 1.1}, rig.Target{Figure: "p99_ratio", AtMost: true, Must: 1.3, Unit: "x at p99"}, most)
	}
	return r.Require(cfg.Must, most)
}

// gangArm measures gangs of a number of members.
func gangArm(name string, members int) rig.Arm {
	return rig.Arm{Name: name, Measure: func(ctx context.Context, cfg rig.Config) (rig.Figures, error) {
		found := make(rig.Figures)
		err := withSpaces(ctx, cfg, nil, func(ctx context.Context, all []*spaceCluster) error {
			g := ganging{cfg: cfg, members: members, took: make(map[string]rig.Durations)}
			if err := g.run(ctx, all); err != nil {
				return err
			}
			for what, t := range g.took {
				found[what+"_p50_ms"], found[what+"_p99_ms"] = t.Quantile(0.5), t.Quantile(0.99)
			}
			for _, sc := range all {
				more := make(rig.Figures)
				if err := sc.Audit(ctx, more); err != nil {
					return err
				}
				found[rig.Violations] += more[rig.Violations]
			}
			return nil
		})
		return found, err
	}}
}

// spaceCluster is a cluster for one way to submit gangs.
type spaceCluster struct {
	*rig.Cluster
	space
	client *esl.Client
	bounds *bounds
}

// withSpaces runs f with a cluster for each way to submit gangs.
func withSpaces(ctx context.Context, cfg rig.Config, made []*spaceCluster, f func(context.Context, []*spaceCluster) error) error {
	if len(made) == len(spaces()) {
		return f(ctx, made)
	}
	one := cfg
	sp := spaces()[len(made)]
	one.Label += "-" + sp.name
	return rig.WithCluster(ctx, one, func(ctx context.Context, c *rig.Cluster) error {
		sc := &spaceCluster{Cluster: c, space: sp}
		if err := sc.begin(ctx); err != nil {
			return err
		}
		watching, stop := context.WithCancel(ctx)
		g, watching := errgroup.WithContext(watching)
		g.Go(func() error { return sc.bounds.watch(watching, sc.client.Client) })
		g.Go(func() error {
			defer stop()
			return withSpaces(watching, cfg, append(made, sc), f)
		})
		if err := g.Wait(); !errors.Is(err, context.Canceled) || ctx.Err() != nil {
			return err
		}
		return nil
	})
}

// begin makes the nodes, and starts the scheduler.
func (sc *spaceCluster) begin(ctx context.Context) (err error) {
	h := &rig.Hollow{}
	for range sc.Config.Nodes {
		h.Nodes, h.Devices = append(h.Nodes, smallNode()), append(h.Devices, nil)
	}
	if err := sc.LoadNodes(ctx, h); err != nil {
		return err
	}
	client, err := controlplane.New(sc.Store, rig.Namespace)
	if err != nil {
		return err
	}
	sc.client = builtin.New(client)
	sc.bounds = newBounds()
	return sc.StartRoles(ctx, sc.role)
}

// smallNode is a node of eight processors.
func smallNode() *types.Node {
	return &types.Node{
		Capacity: types.NewRequests(map[string]types.Quantity{string(types.CPU): cpusOnNode * 1000, string(types.Memory): 64 << 30}),
		Address:  "http://10.0.0.1:7070", Version: "bench",
	}
}

// ganging submits gangs, one after the other.
type ganging struct {
	cfg     rig.Config
	members int
	// took are the durations, by what they measure.
	took map[string]rig.Durations
}

// run submits a gang on each cluster, and puts a key, over and over.
func (g *ganging) run(ctx context.Context, all []*spaceCluster) error {
	for _, sc := range all {
		if err := sc.bounds.ready(ctx); err != nil {
			return err
		}
	}
	ended, err := profileAll(ctx, all)
	if err != nil {
		return err
	}
	for i := range gangWarm + g.cfg.Tasks {
		if i == gangWarm {
			clear(g.took)
		}
		for n := range all {
			at := (n + i) % len(all) // each follows each other one
			if i%2 == 1 {
				at = len(all) - 1 - at
			}
			if err := g.one(ctx, all[at], i); err != nil {
				return errors.Join(err, ended())
			}
		}
	}
	return ended()
}

// profileAll begins requested profiles of the clusters; the first includes this process.
func profileAll(ctx context.Context, all []*spaceCluster) (ended func() error, err error) {
	ended, err = all[0].Profile(ctx)
	for _, sc := range all[1:] {
		if err != nil || sc.Config.Profile == "" {
			return ended, err
		}
		before := ended
		var parts func() error
		if parts, err = sc.ProfileParts(ctx); err != nil {
			return nil, errors.Join(err, before())
		}
		ended = func() error { return errors.Join(before(), parts()) }
	}
	return ended, err
}

// one submits a gang, waits until it is seen to be bound, and ends it.
func (g *ganging) one(ctx context.Context, sc *spaceCluster, i int) error {
	puts := g.took["put"]
	if err := puts.Time(func() error { return sc.PutFloor(ctx, i) }); err != nil {
		return err
	}
	g.took["put"] = puts
	tasks := make([]controlplane.Submission, g.members)
	for m := range tasks {
		tasks[m] = controlplane.Submission{
			Task: types.Task{Name: "member", Requests: types.NewRequests(map[string]types.Quantity{
				string(types.CPU): cpusOnNode * 1000 * types.Quantity(g.cfg.Nodes) / types.Quantity(g.members),
			})},
			Spec: &types.Spec{Image: "escher.local/bench:latest"},
		}
	}
	done := sc.bounds.expect(g.members)
	began := time.Now()
	if err := sc.submit(ctx, sc.client, tasks); err != nil {
		return err
	}
	g.took[sc.name+"_commit"] = append(g.took[sc.name+"_commit"], time.Since(began))
	select {
	case at := <-done:
		g.took[sc.name] = append(g.took[sc.name], at.Sub(began))
	case <-time.After(rig.Stall):
		return types.Errorf(types.Internal, "gang: %s: not all of it is bound after %s", sc.name, rig.Stall)
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	return sc.clear(ctx)
}
