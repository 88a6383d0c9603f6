package replay

import (
	"context"
	"path/filepath"
	"time"

	"github.com/escher-sched/escher/controlplane"
	"github.com/escher-sched/escher/e2e/bench/rig"
	"github.com/escher-sched/escher/e2e/bench/workload"
	"github.com/escher-sched/escher/types"
)

// traceTakes is how long the submissions of a workload take unless a speed is given.
const traceTakes = time.Minute

// Scenario returns the scenario that replays a workload. Its size bounds the replayed tasks; the
// nodes are the workload's.
func Scenario() rig.Scenario {
	return rig.Scenario{Name: "trace", Full: rig.Size{Nodes: 1, Tasks: 100_000, Rounds: 1}, Quick: rig.Size{Nodes: 1, Tasks: 5000, Rounds: 1}, Run: runTrace}
}

// runTrace replays a workload at a multiple of its speed: its nodes are hollow agents, and its
// tasks are handled like any tasks.
func runTrace(ctx context.Context, cfg rig.Config) ([]rig.Row, error) {
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
	cfg.Say("%s: %d nodes, %d tasks in %d jobs within %s, %.0f times as fast (%d tasks left out, %d of a modelled duration)",
		cfg.Trace, cfg.Nodes, cfg.Tasks, len(p.Jobs), time.Duration(p.Span()*float64(time.Second)), cfg.Speed, p.Left, p.Modelled)
	s, err := rig.Interleave(ctx, cfg, rig.Arm{Name: "trace", Measure: func(ctx context.Context, cfg rig.Config) (rig.Figures, error) { return replayTrace(ctx, cfg, p) }})
	if err != nil {
		return nil, err
	}
	row := rig.NewRow(cfg, "trace "+filepath.Base(cfg.Trace), "tasks/s", s.Of("trace", rig.Rate)).AddDetails(s, "trace", rig.Rate).AddViolations(s.Violations("trace"))
	return []rig.Row{*row.Require(0)}, nil
}

func replayTrace(ctx context.Context, cfg rig.Config, p *workload.Plan) (rig.Figures, error) {
	return rig.OnCluster(ctx, cfg, func(ctx context.Context, c *rig.Cluster, found rig.Figures) error {
		h, names := &rig.Hollow{Absent: true}, make([]string, len(p.Machines))
		for i := range p.Machines {
			h.Nodes, h.Devices = append(h.Nodes, p.Node(i)), append(h.Devices, p.Devices(i))
			names[i] = rig.NodeName(i)
		}
		if err := c.LoadNodes(ctx, h); err != nil {
			return err
		}
		if err := c.StartCollector(ctx); err != nil {
			return err
		}
		if _, err := c.StartScheduler(rig.RoleScheduler, false); err != nil {
			return err
		}
		client, err := controlplane.New(c.Store, rig.Namespace)
		if err != nil {
			return err
		}
		r := newReplay(cfg, p, client)
		return c.WithAgents(ctx, names, r.runFor, func(ctx context.Context) error {
			u, err := c.Window(ctx, r.run)
			if err != nil {
				return err
			}
			r.tell(found)
			found[rig.Rate] = float64(r.finished) / u.Wall.Seconds()
			return c.AddUsage(found, u, len(p.Tasks))
		})
	})
}
