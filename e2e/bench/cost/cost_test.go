package cost

import (
	"testing"

	"github.com/escher-sched/escher/e2e/bench/rig"
	"github.com/escher-sched/escher/e2e/bench/rigtest"
	"github.com/escher-sched/escher/types"
)

// TestCost measures a few jobs of all policies by turns: each is accepted, and all figures are there.
func TestCost(t *testing.T) {
	cfg := rigtest.Config(t)
	cfg.Scenario, cfg.Nodes, cfg.Tasks, cfg.Rounds, cfg.Policies = "cost", 10, 2*len(policies()), 1, mixed
	rows, err := rig.Measure(t.Context(), cfg, Scenarios()...)
	if err != nil {
		t.Fatal(err)
	}
	if len(rows) != 1 || rows[0].Scenario != "cost/mixed" || rows[0].Violations != 0 {
		t.Fatalf("%+v", rows)
	}
	for _, name := range []string{keeperIdle, settleTime, settleWork, changeWork, fewChange, beyondPlain, submitRate} {
		if _, ok := rows[0].Details[name]; !ok {
			t.Errorf("%s is missing: %+v", name, rows[0])
		}
	}
}

// TestChosen is about the list of policies.
func TestChosen(t *testing.T) {
	if some, mix, err := chosen("gang, mixed"); err != nil || !mix || len(some) != 1 || some[0].name != "gang" {
		t.Errorf("%+v, %t, %v", some, mix, err)
	}
	if some, mix, err := chosen(""); err != nil || !mix || len(some) != len(policies()) {
		t.Errorf("%d, %t, %v", len(some), mix, err)
	}
	if _, _, err := chosen("none"); !types.Is(err, types.Invalid) {
		t.Errorf("an unknown one: %v", err)
	}
}
