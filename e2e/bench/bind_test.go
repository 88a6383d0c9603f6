package bench

import (
	"context"
	"testing"

	"github.com/escher-sched/escher/e2e/bench/rig"
	"github.com/escher-sched/escher/e2e/bench/rigtest"
)

// TestBind measures a small cluster from beginning to end, with all its processes.
func TestBind(t *testing.T) {
	t.Parallel()
	cfg := rigtest.Config(t)
	cfg.Scenario = "bind"
	rows, err := Run(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	r := rows[0]
	if r.Scenario != "bind" || r.Value <= 0 || r.Floor <= 0 || r.Ratio <= 0 || r.Violations != 0 || r.Details["scheduler_mib"] <= 0 {
		t.Errorf("got %+v", r)
	}
	if r.Details["node_kinds"] < 20 || r.Details["shapes"] < 100 {
		t.Errorf("%v kinds of node, %v shapes", r.Details["node_kinds"], r.Details["shapes"])
	}
	if u := r.Details["utilisation"]; u < 0.8 || u > 1 {
		t.Errorf("utilisation %.2f", u)
	}
}

// TestScenarios measures all binding scenarios at minimal size: the requested resources exist,
// everything is bound, and the audit finds nothing.
func TestScenarios(t *testing.T) {
	for scenario, want := range map[string][]string{
		"ephemeral":  {"ephemeral"},
		"quota":      {"quota"},
		"gangs8":     {"gangs8", "gangs8-rack"},
		"growth":     {"growth"},
		"waiting":    {"waiting"},
		"wake":       {"wake", "wake-calls"},
		"schedulers": {"schedulers-1", "schedulers-2", "schedulers-4"},
		"agents":     {"agents", "agents-server"},
		"connected":  {"connected"},
		"submit":     {"submit"},
	} {
		t.Run(scenario, func(t *testing.T) {
			t.Parallel()
			cfg := rigtest.Config(t)
			cfg.Scenario, cfg.Tasks = scenario, 600
			switch scenario {
			case "growth", "gangs8":
				cfg.Nodes = 110
			case "submit":
				cfg.Nodes, cfg.Tasks = 3, 3
			default:
				cfg.Nodes = 60
			}
			rows, err := Run(t.Context(), cfg)
			if err != nil {
				t.Fatal(err)
			}
			if len(rows) != len(want) {
				t.Fatalf("got %+v", rows)
			}
			for i, r := range rows {
				if r.Scenario != want[i] || r.Value <= 0 || r.Violations != 0 {
					t.Errorf("got %+v", r)
				}
			}
		})
	}
}

// TestSettled: all waiting tasks are processed before the clock runs.
func TestSettled(t *testing.T) {
	_, err := rig.OnCluster(t.Context(), rigtest.Config(t), func(ctx context.Context, c *rig.Cluster, _ rig.Figures) error {
		if err := putWaiters(ctx, c, 3000); err != nil {
			return err
		}
		p, err := c.StartScheduler(rig.RoleScheduler, false)
		if err != nil {
			return err
		}
		if err := waitSettled(ctx, p); err != nil {
			return err
		}
		stats, err := p.Stats(ctx)
		if stats[rig.CounterMetric+"waiting"] != 3000 {
			t.Errorf("%v wait", stats[rig.CounterMetric+"waiting"])
		}
		return err
	})
	if err != nil {
		t.Error(err)
	}
}
