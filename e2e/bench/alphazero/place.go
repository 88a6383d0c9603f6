package alphazero

import (
	"context"
	"maps"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/escher-sched/escher/api/escher"
	"github.com/escher-sched/escher/controlplane"
	"github.com/escher-sched/escher/controlplane/manifest"
	"github.com/escher-sched/escher/e2e/bench/rig"
	sim "github.com/escher-sched/escher/e2e/hollow"
	"github.com/escher-sched/escher/esl"
	"github.com/escher-sched/escher/examples/alphazero/selfplay"
	"github.com/escher-sched/escher/types"
)

const (
	// gpusOnNode and coresOnNode are the capacity of a node, generatorsEach the generators per
	// predictor. Every other node has busyCores of its cores taken, so that an even spread takes
	// more than choosing the most free capacity.
	gpusOnNode, coresOnNode, generatorsEach, busyCores = 4, 16, 3, 6
	// gamesInRound is how often a round places a game each way; gamesQuick is for Quick.
	gamesInRound, gamesQuick = 7, 1
	// stopsInFlight is the number of tasks that are stopped in parallel.
	stopsInFlight = 8
)

// newGame is the tasks of a game, which run until they are stopped.
func newGame(predictors int) selfplay.Game {
	return selfplay.Game{
		Predictors: predictors, Each: generatorsEach,
		Predictor: func(int) escher.Task { return manifest.FromSubmission(onGPU()) },
		Generator: func(int, int) escher.Task { return manifest.FromSubmission(sim.Task(1000)) },
	}
}

// measurePlacement places games in three ways, in turns: by the policy, on named nodes, and
// without regard to co-location.
func measurePlacement(ctx context.Context, cfg rig.Config) (rig.Figures, error) {
	return rig.OnCluster(ctx, cfg, func(ctx context.Context, c *rig.Cluster, found rig.Figures) error {
		nodes := sim.Nodes(cfg.Nodes, coresOnNode)
		for i := range nodes {
			nodes[i].Capacity[string(types.GPU)] = gpusOnNode * esl.One
		}
		h, err := c.StartHollow(ctx, sim.Config{Nodes: nodes, NoAudit: true})
		if err != nil {
			return err
		}
		jobs, err := h.Client(rig.Namespace)
		if err == nil {
			err = takeCores(ctx, jobs, nodes)
		}
		if err == nil {
			err = placeGames(ctx, jobs, cfg, found)
		}
		if err == nil {
			err = c.WaitGone(ctx, controlplane.Policies)
		}
		return err
	})
}

// takeCores occupies cores on every other node.
func takeCores(ctx context.Context, jobs *esl.Client, nodes []sim.Node) error {
	job := controlplane.Job{Name: "other"}
	for i := 0; i < len(nodes); i += 2 {
		s := sim.Task(1000 * busyCores)
		s.Task.Requests = s.Task.Requests.Plus(types.NewRequests(map[string]types.Quantity{"node/" + nodes[i].Name: esl.One}))
		job.Tasks = append(job.Tasks, s)
	}
	done, err := jobs.Submit(ctx, job)
	if err == nil {
		_, err = jobs.Wait(ctx, controlplane.UntilBound, done.Tasks...)
	}
	return err
}

// placeGames adds three figures: how long games take until they are bound, whether the policy's
// placement equals the hard-coded one, and how well an unguided placement co-locates.
func placeGames(ctx context.Context, jobs *esl.Client, cfg rig.Config, found rig.Figures) error {
	game, client := newGame(cfg.Tasks), escher.Over(jobs)
	named := func(i int) string { return sim.Nodes(1+i%cfg.Nodes, 1)[i%cfg.Nodes].Name }
	ways := []func() (selfplay.Placed, error){
		func() (selfplay.Placed, error) { return game.Submit(ctx, client) },
		func() (selfplay.Placed, error) { return game.SubmitTo(ctx, client, named) },
		func() (selfplay.Placed, error) {
			return game.SubmitTo(ctx, client, func(int) string { return "" })
		},
	}
	took := make([][]float64, len(ways))
	layouts := make([]selfplay.Layout, len(ways))
	found[sameLayout] = 1
	var together []float64
	games := gamesInRound
	if cfg.Quick {
		games = gamesQuick
	}
	for n := range games + 1 {
		for turn := range ways {
			way := (n + turn) % len(ways)
			ms, layout, err := placeGame(ctx, jobs, ways[way])
			if err != nil {
				return err
			}
			layouts[way] = layout
			if n > 0 { // the first game of each way warms up
				took[way] = append(took[way], ms)
			}
		}
		if !maps.Equal(layouts[0], layouts[1]) {
			found[sameLayout] = 0
			cfg.Say("the policy's placement is %v, the hard-coded one %v", layouts[0], layouts[1])
		}
		together = append(together, layouts[2].Together())
	}
	found["esl_ms"], found["named_ms"], found["unaware_ms"] = rig.Median(took[0]), rig.Median(took[1]), rig.Median(took[2])
	found[unawareTogether] = rig.Median(together)
	return nil
}

// placeGame submits a game, and ends it once all of it is bound. It returns the time until then, in
// milliseconds, and the placement.
func placeGame(ctx context.Context, jobs *esl.Client, submit func() (selfplay.Placed, error)) (float64, selfplay.Layout, error) {
	begin := time.Now()
	placed, err := submit()
	if err != nil {
		return 0, nil, err
	}
	all := append(placed.Predictors[:len(placed.Predictors):len(placed.Predictors)], placed.Generators...)
	statuses, err := jobs.Wait(ctx, controlplane.UntilBound, all...)
	took := rig.Milliseconds(time.Since(begin))
	if err != nil {
		return 0, nil, err
	}
	nodes := make(map[string]string)
	for id, s := range statuses {
		if nodes[id] = s.Node; s.Node == "" {
			return 0, nil, types.Errorf(types.Internal, "alphazero: task %s is %s: %s", id, s.Phase, s.Reason)
		}
	}
	g, ending := errgroup.WithContext(ctx)
	g.SetLimit(stopsInFlight)
	for _, id := range all {
		g.Go(func() error { return jobs.Stop(ending, id, controlplane.StopOptions{Reason: "all are bound"}) })
	}
	if err := g.Wait(); err != nil {
		return 0, nil, err
	}
	_, err = jobs.Wait(ctx, controlplane.UntilEnded, all...)
	return took, placed.LayoutOf(nodes), err
}

// onGPU is a task with a device.
func onGPU() controlplane.Submission {
	s := sim.Task(100)
	s.Task.Requests = s.Task.Requests.Plus(types.NewRequests(map[string]types.Quantity{string(types.GPU): esl.One}))
	return s
}
