package bench

import (
	"context"
	"errors"
	"time"

	view "github.com/escher-sched/escher/controlplane/cluster"
	sim "github.com/escher-sched/escher/e2e/hollow"
	"github.com/escher-sched/escher/esl"
	"github.com/escher-sched/escher/esl/room"
	"github.com/escher-sched/escher/types"
)

// The experiment of the paper on migration. Of twelve devices on three nodes, five short jobs hold
// eight. A long job of four workers, one device each, holds the rest, spread over all nodes. When
// the first short job ends, all workers fit on one node.
const (
	migrationWorkers = 4
	migrationLasts   = 300 * time.Second
	// migrationSave is how long a worker takes to save its state when told to end, migrationLoad
	// how long all take to load it once all run again.
	migrationSave = 2 * time.Second
	migrationLoad = 3 * time.Second
	// migrationLines is the number of nonblank lines of the application, migration_app.go. A test
	// counts them.
	migrationLines = 42
)

// The model of the throughput of the long job, which trains by data parallelism. A step is the
// computation, and an exchange of gradients in a ring. The slowest link of the ring determines its
// speed: the bus of a node or, on several nodes, the network.
const (
	migrationCompute   = 0.180 // s
	migrationGradients = 0.528 // GB: VGG-16, single precision
	migrationBus       = 10.0  // GB/s
	migrationNetwork   = 25.0 / 8
)

// migrationRate returns the steps per second of workers on a number of nodes.
func migrationRate(nodes int) float64 {
	link := migrationBus
	if nodes > 1 {
		link = migrationNetwork
	}
	exchanged := 2 * float64(migrationWorkers-1) / migrationWorkers * migrationGradients
	return 1 / (migrationCompute + exchanged/link)
}

// moveScenarios are about tasks that move.
func moveScenarios() []scenario {
	return []scenario{
		{name: "migration", about: "a job of four devices that is spread moves to one node when a short one ends: its throughput (modelled, printed), over that without; --speed for less than 2 x 300 s",
			full: size{3, 4, 3}, quick: size{3, 4, 1}, run: runMigration},
	}
}

// runMigration runs the experiment with and without the policy, in turns.
func runMigration(ctx context.Context, cfg Config) ([]Row, error) {
	if cfg.Speed == 0 {
		cfg.Speed = 10
		if cfg.Quick {
			cfg.Speed = 20
		}
	}
	cfg.progress.say("model: %.2f steps/s on one node, %.2f on several; saving takes %s, loading %s", migrationRate(1), migrationRate(2), migrationSave, migrationLoad)
	var with, without, moved, violated []float64
	for i := range cfg.Rounds {
		for turn := range 2 {
			var policies []esl.Policy
			if turn == i%2 {
				policies = append(policies, room.Migrate{})
			}
			found, err := onCluster(ctx, cfg, func(ctx context.Context, c *cluster, found figures) error {
				return c.migration(ctx, found, policies)
			})
			if err != nil {
				return nil, err
			}
			violated = append(violated, found[violations])
			if len(policies) == 0 {
				without = append(without, found["steps"])
				continue
			}
			with, moved = append(with, found["steps"]), append(moved, found["away"])
		}
	}
	row := newRow(cfg, "migration", "steps/s", with).over("not moved", with, without).detail("moving_s", moved).detail("speed", []float64{cfg.Speed}).
		detail("lines", []float64{migrationLines}).found(violated)
	return []Row{*row.require(cfg.Must, target{figure: ratio, must: 1.36})}, nil
}

// migration runs the experiment once, and adds the steps per second of the long job, and its
// downtime.
func (c *cluster) migration(ctx context.Context, found figures, policies []esl.Policy) error {
	nodes := sim.Nodes(3, 8)
	for i := range nodes {
		nodes[i].Capacity[string(types.GPU)] = 4 * esl.One
	}
	h, err := c.hollow(ctx, sim.Config{Nodes: nodes, NoAudit: true})
	if err != nil {
		return err
	}
	return c.migrationRun(ctx, h, found, policies)
}

func (c *cluster) migrationRun(ctx context.Context, h *sim.Cluster, found figures, policies []esl.Policy) error {
	jobs, err := h.Client(ns)
	if err != nil {
		return err
	}
	long, err := submitMigration(ctx, jobs, c.cfg.scaled, policies...)
	if err != nil {
		return err
	}
	var w migrationWork
	begin := time.Now()
	during, cancel := context.WithDeadline(ctx, begin.Add(c.cfg.scaled(migrationLasts)))
	defer cancel()
	at := func() time.Duration { return time.Duration(float64(time.Since(begin)) * c.cfg.Speed) }
	_, err = h.Await(during, func(v *view.View) bool {
		w.change(at(), nodesOf(v, long))
		return false
	})
	if ctx.Err() != nil || !errors.Is(err, context.DeadlineExceeded) {
		return err
	}
	w.change(migrationLasts, w.nodes)
	found["steps"], found["away"] = w.steps/migrationLasts.Seconds(), w.away.Seconds()
	c.cfg.progress.say("%.2f steps/s, on %d nodes at last", found["steps"], w.nodes)
	return nil
}

// nodesOf returns the number of nodes on which all of some tasks run; 0 if one does not run, or
// saves its state.
func nodesOf(v *view.View, ids []string) int {
	nodes := make(map[string]bool)
	for _, id := range ids {
		t := v.Task(view.ID{Namespace: ns, ID: id})
		if t == nil || t.Info.V == nil || t.Phase() != types.Running || t.Info.V.Evict == t.Status.V.Attempt {
			return 0
		}
		nodes[t.Status.V.Node] = true
	}
	return len(nodes)
}

// migrationWork is the progress of the long job.
type migrationWork struct {
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
func (w *migrationWork) change(at time.Duration, nodes int) {
	switch from := max(w.at, w.loads); {
	case w.nodes > 0 && at > from:
		w.steps += migrationRate(w.nodes) * (at - from).Seconds()
	case w.nodes == 0 && w.ran:
		w.away += at - w.at
	}
	if w.nodes == 0 && nodes > 0 && w.ran {
		w.loads = at + migrationLoad
	}
	w.at, w.nodes, w.ran = at, nodes, w.ran || nodes > 0
}
