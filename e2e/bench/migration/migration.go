package migration

import (
	"context"
	"errors"
	"time"

	view "github.com/escher-sched/escher/controlplane/cluster"
	"github.com/escher-sched/escher/e2e/bench/rig"
	sim "github.com/escher-sched/escher/e2e/hollow"
	"github.com/escher-sched/escher/esl"
	"github.com/escher-sched/escher/esl/room"
	"github.com/escher-sched/escher/types"
)

const (
	// longWorkers is the number of workers of the long job.
	longWorkers = 4
	// experimentLasts is the duration of the experiment.
	experimentLasts = 300 * time.Second
	// saveTakes is how long a worker takes to save its state when told to end, loadTakes how long
	// all take to load it once all run again.
	saveTakes = 2 * time.Second
	loadTakes = 3 * time.Second
	// appLines is the number of nonblank lines of the application, app.go. A test counts them.
	appLines = 42
)

// The model of the throughput of the long job, which trains by data parallelism. A step is the
// computation, and an exchange of gradients in a ring. The slowest link of the ring determines its
// speed: the bus of a node or, on several nodes, the network.
const (
	computeTime  = 0.180 // s
	gradientSize = 0.528 // GB: VGG-16, single precision
	busSpeed     = 10.0  // GB/s
	networkSpeed = 25.0 / 8
)

// stepsPerSecond returns the steps per second of workers on a number of nodes.
func stepsPerSecond(nodes int) float64 {
	link := busSpeed
	if nodes > 1 {
		link = networkSpeed
	}
	exchanged := 2 * float64(longWorkers-1) / longWorkers * gradientSize
	return 1 / (computeTime + exchanged/link)
}

// Scenarios returns the scenario about tasks that move.
func Scenarios() []rig.Scenario {
	return []rig.Scenario{
		{Name: "migration", About: "a job of four devices that is spread moves to one node when a short one ends: its throughput (modelled, printed), over that without; --speed for less than 2 x 300 s",
			Full: rig.Size{Nodes: 3, Tasks: 4, Rounds: 3}, Quick: rig.Size{Nodes: 3, Tasks: 4, Rounds: 1}, Run: runMigration},
	}
}

// runMigration runs the experiment with and without the policy, in turns.
func runMigration(ctx context.Context, cfg rig.Config) ([]rig.Row, error) {
	if cfg.Speed == 0 {
		cfg.Speed = 10
		if cfg.Quick {
			cfg.Speed = 20
		}
	}
	cfg.Say("model: %.2f steps/s on one node, %.2f on several; saving takes %s, loading %s", stepsPerSecond(1), stepsPerSecond(2), saveTakes, loadTakes)
	var with, without, moved, violated []float64
	for i := range cfg.Rounds {
		for turn := range 2 {
			var policies []esl.Policy
			if turn == i%2 {
				policies = append(policies, room.Migrate{})
			}
			found, err := rig.OnCluster(ctx, cfg, func(ctx context.Context, c *rig.Cluster, found rig.Figures) error {
				return runOnce(ctx, c, found, policies)
			})
			if err != nil {
				return nil, err
			}
			violated = append(violated, found[rig.Violations])
			if len(policies) == 0 {
				without = append(without, found["steps"])
				continue
			}
			with, moved = append(with, found["steps"]), append(moved, found["away"])
		}
	}
	row := rig.NewRow(cfg, "migration", "steps/s", with).Over("not moved", with, without).AddDetail("moving_s", moved).AddDetail("speed", []float64{cfg.Speed}).
		AddDetail("lines", []float64{appLines}).AddViolations(violated)
	return []rig.Row{*row.Require(cfg.Must, rig.Target{Figure: rig.Ratio, Must: 1.36})}, nil
}

// runOnce runs the experiment once, and adds the steps per second of the long job, and its
// downtime.
func runOnce(ctx context.Context, c *rig.Cluster, found rig.Figures, policies []esl.Policy) error {
	nodes := sim.Nodes(3, 8)
	for i := range nodes {
		nodes[i].Capacity[string(types.GPU)] = 4 * esl.One
	}
	h, err := c.StartHollow(ctx, sim.Config{Nodes: nodes, NoAudit: true})
	if err != nil {
		return err
	}
	return runJobs(ctx, c, h, found, policies)
}

func runJobs(ctx context.Context, c *rig.Cluster, h *sim.Cluster, found rig.Figures, policies []esl.Policy) error {
	jobs, err := h.Client(rig.Namespace)
	if err != nil {
		return err
	}
	long, err := submitJobs(ctx, jobs, c.Config.Scaled, policies...)
	if err != nil {
		return err
	}
	var w longWork
	begin := time.Now()
	during, cancel := context.WithDeadline(ctx, begin.Add(c.Config.Scaled(experimentLasts)))
	defer cancel()
	at := func() time.Duration { return time.Duration(float64(time.Since(begin)) * c.Config.Speed) }
	_, err = h.Await(during, func(v *view.View) bool {
		w.change(at(), nodesOf(v, long))
		return false
	})
	if ctx.Err() != nil || !errors.Is(err, context.DeadlineExceeded) {
		return err
	}
	w.change(experimentLasts, w.nodes)
	found["steps"], found["away"] = w.steps/experimentLasts.Seconds(), w.away.Seconds()
	c.Config.Say("%.2f steps/s, on %d nodes at last", found["steps"], w.nodes)
	return nil
}

// nodesOf returns the number of nodes on which all of some tasks run; 0 if one does not run, or
// saves its state.
func nodesOf(v *view.View, ids []string) int {
	nodes := make(map[string]bool)
	for _, id := range ids {
		t := v.Task(view.ID{Namespace: rig.Namespace, ID: id})
		if t == nil || t.Info.V == nil || t.Phase() != types.Running || t.Info.V.Evict == t.Status.V.Attempt {
			return 0
		}
		nodes[t.Status.V.Node] = true
	}
	return len(nodes)
}

// longWork is the progress of the long job.
type longWork struct {
	at    time.Duration
	nodes int
	// loads is the time until which it loads its saved state.
	loads time.Duration
	ran   bool
	steps float64
	// away is its downtime since it first ran.
	away time.Duration
}

// change records the number of nodes it runs on from a time of the experiment; 0 means that it does
// not run.
func (w *longWork) change(at time.Duration, nodes int) {
	switch from := max(w.at, w.loads); {
	case w.nodes > 0 && at > from:
		w.steps += stepsPerSecond(w.nodes) * (at - from).Seconds()
	case w.nodes == 0 && w.ran:
		w.away += at - w.at
	}
	if w.nodes == 0 && nodes > 0 && w.ran {
		w.loads = at + loadTakes
	}
	w.at, w.nodes, w.ran = at, nodes, w.ran || nodes > 0
}
