package bench

import (
	"context"
	"testing"

	"github.com/escher-sched/escher/controlplane"
	"github.com/escher-sched/escher/types"
)

// TestBind measures a small cluster from beginning to end, with all its processes.
func TestBind(t *testing.T) {
	t.Parallel()
	cfg := testConfig(t)
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
		"agents":     {"agents"},
		"submit":     {"submit"},
	} {
		t.Run(scenario, func(t *testing.T) {
			t.Parallel()
			cfg := testConfig(t)
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
	_, err := onCluster(t.Context(), testConfig(t), func(ctx context.Context, c *cluster, _ figures) error {
		if err := c.putWaiters(ctx, 3000); err != nil {
			return err
		}
		p, err := c.startScheduler(roleScheduler, false)
		if err != nil {
			return err
		}
		if err := p.settled(ctx); err != nil {
			return err
		}
		stats, err := p.stats(ctx)
		if stats[partMetric+"waiting"] != 3000 {
			t.Errorf("%v wait", stats[partMetric+"waiting"])
		}
		return err
	})
	if err != nil {
		t.Error(err)
	}
}

// TestViolation plants a violation, and expects the run to report it.
func TestViolation(t *testing.T) {
	cfg := testConfig(t)
	found, err := onCluster(t.Context(), cfg, func(ctx context.Context, c *cluster, _ figures) error {
		_, err := c.put(ctx, controlplane.AllocatedKey(nodeName(0)), &types.Allocated{Holds: []types.Holding{{Resource: "cpu", Amount: 1}}})
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	row := newRow(cfg, "planted", "", nil).found([]float64{found[violations]})
	if row.Violations == 0 || row.OK || Violated([]Row{*row}) == nil {
		t.Errorf("got %+v of %v", row, found)
	}
}
