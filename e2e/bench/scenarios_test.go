package bench

import (
	"testing"
	"time"

	"github.com/escher-sched/escher/e2e/bench/rig"
	"github.com/escher-sched/escher/e2e/bench/rigtest"
)

// sized is a configuration for a cluster of some size.
func sized(t *testing.T, scenario string, nodes, tasks int) rig.Config {
	t.Helper()
	cfg := rigtest.Config(t)
	cfg.Scenario, cfg.Nodes, cfg.Tasks, cfg.Rounds = scenario, nodes, tasks, 1
	return cfg
}

// TestLives measures small clusters, and checks that each row has its figures.
func TestLives(t *testing.T) {
	for _, x := range []struct {
		scenario     string
		nodes, tasks int
		rows         int
		// details must exist and be above 0.
		details []string
	}{
		{"setresource", 5, 10, 2, []string{"set_p99_ms"}},
		{"labels", 3, 5, 1, []string{"hundred_p99_ms"}},
		{"latency", 30, 60, 1, []string{"p99_ratio", "launch_p50_ms", "scheduler_cpu_us"}},
		{"restart", 20, 400, 1, []string{"scheduler_most_mib"}},
		{"memory", 20, 400, 2, []string{"scheduler_mib", firstBinding}},
		{"takeover", 20, 400, 1, nil},
	} {
		t.Run(x.scenario, func(t *testing.T) {
			t.Parallel()
			rows, err := Run(t.Context(), sized(t, x.scenario, x.nodes, x.tasks))
			if err != nil {
				t.Fatal(err)
			}
			if len(rows) != x.rows {
				t.Fatalf("%d rows, want %d", len(rows), x.rows)
			}
			if rows[0].Value <= 0 || rig.Violated(rows) != nil || rows[0].Must == "" {
				t.Errorf("got %+v", rows[0])
			}
			for _, name := range x.details {
				if rows[0].Details[name] <= 0 {
					t.Errorf("%s is %g", name, rows[0].Details[name])
				}
			}
		})
	}
}

// TestUnrelated measures jobs with and without unrelated resources.
func TestUnrelated(t *testing.T) {
	for _, resources := range []int{0, 500} {
		found, err := unrelatedArm(resources)(t.Context(), sized(t, "unrelated", 10, 40))
		if err != nil {
			t.Fatal(err)
		}
		if found[makespan] <= 0 || found[rig.Violations] != 0 {
			t.Errorf("got %v", found)
		}
	}
}

// TestLifecycle runs tasks to their end for a short while, with a collector that removes their
// keys.
func TestLifecycle(t *testing.T) {
	cfg := sized(t, "lifecycle", 10, 200)
	found, err := lifecycleArm(time.Second, 3*time.Second)(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	// Nothing is removed yet, so a life lacks two writes; unfinished tasks at both ends cancel out.
	if found[rig.Rate] <= 0 || found["key_writes"] < 5 || found["key_writes"] > 13 || found[rig.Violations] != 0 || found["database_end_mib"] <= 0 ||
		found["txns"] <= 0 || found["compares"] <= 0 {
		t.Errorf("got %v", found)
	}
}
