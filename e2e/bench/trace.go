package bench

import (
	"context"
	"path/filepath"
	"time"

	"github.com/escher-sched/escher/controlplane"
	"github.com/escher-sched/escher/e2e/bench/workload"
	"github.com/escher-sched/escher/types"
)

// traceTakes is how long the submissions of a workload take unless a speed is given.
const traceTakes = time.Minute

// traceScenario replays a workload. Its size bounds the replayed tasks; the nodes are the
// workload's.
func traceScenario() scenario {
	return scenario{name: "trace", full: size{1, 100_000, 1}, quick: size{1, 5000, 1}, run: runTrace}
}

// runTrace replays a workload at a multiple of its speed: its nodes are hollow agents, and its
// tasks are handled like any tasks.
func runTrace(ctx context.Context, cfg Config) ([]Row, error) {
	cfg.Rounds = 1
	p, err := workload.ReadPlan(cfg.Trace, cfg.Tasks)
	if err != nil {
		return nil, err
	}
	takes := traceTakes
	if cfg.Quick {
		takes /= 4
	}
	if cfg.Speed == 0 {
		cfg.Speed = max(1, p.Span()/takes.Seconds())
	}
	if cfg.Speed < 0 {
		return nil, types.Errorf(types.Invalid, "speed: %g is negative: give how many times as fast it is to be", cfg.Speed)
	}
	cfg.Nodes, cfg.Tasks = len(p.Machines), len(p.Tasks)
	cfg.progress.say("%s: %d nodes, %d tasks in %d jobs within %s, %.0f times as fast (%d tasks left out, %d of a modelled duration)",
		cfg.Trace, cfg.Nodes, cfg.Tasks, len(p.Jobs), time.Duration(p.Span()*float64(time.Second)), cfg.Speed, p.Left, p.Modelled)
	s, err := interleave(ctx, cfg, arm{"trace", func(ctx context.Context, cfg Config) (figures, error) { return replayTrace(ctx, cfg, p) }})
	if err != nil {
		return nil, err
	}
	row := newRow(cfg, "trace "+filepath.Base(cfg.Trace), "tasks/s", s.of("trace", rate)).details(s, "trace", rate).found(s.violations("trace"))
	return []Row{*row.require(0)}, nil
}

func replayTrace(ctx context.Context, cfg Config, p *workload.Plan) (figures, error) {
	return onCluster(ctx, cfg, func(ctx context.Context, c *cluster, found figures) error {
		h, names := &hollow{absent: true}, make([]string, len(p.Machines))
		for i := range p.Machines {
			h.nodes, h.devices = append(h.nodes, p.Node(i)), append(h.devices, p.Devices(i))
			names[i] = nodeName(i)
		}
		if err := c.loadNodes(ctx, h); err != nil {
			return err
		}
		if err := c.startCollector(ctx); err != nil {
			return err
		}
		if _, err := c.startScheduler(roleScheduler, false); err != nil {
			return err
		}
		client, err := controlplane.New(c.store, ns)
		if err != nil {
			return err
		}
		r := newReplay(cfg, p, client)
		return c.withAgents(ctx, names, r.runFor, func(ctx context.Context) error {
			u, err := c.window(ctx, r.run)
			if err != nil {
				return err
			}
			r.tell(found)
			found[rate] = float64(r.finished) / u.wall.Seconds()
			return c.add(found, u, len(p.Tasks))
		})
	})
}
