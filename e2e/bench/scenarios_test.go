package bench

import (
	"context"
	"os"
	"path/filepath"
	"testing"
	"time"
)

// sized is a configuration for a cluster of some size.
func sized(t *testing.T, scenario string, nodes, tasks int) Config {
	t.Helper()
	cfg := testConfig(t)
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
			if rows[0].Value <= 0 || Violated(rows) != nil || rows[0].Must == "" {
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
		if found[makespan] <= 0 || found[violations] != 0 {
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
	if found[rate] <= 0 || found["key_writes"] < 5 || found["key_writes"] > 13 || found[violations] != 0 || found["database_end_mib"] <= 0 ||
		found["txns"] <= 0 || found["compares"] <= 0 {
		t.Errorf("got %v", found)
	}
}

// TestTrace replays a small workload: single tasks, a gang, a task that never ends, and one that
// fits nowhere.
func TestTrace(t *testing.T) {
	dir := t.TempDir()
	for name, text := range map[string]string{
		"nodes.csv": "node,cpu_milli,mem_mib,gpus,gpu_model\na,8000,1024,2,T4\nb,8000,1024,2,A10\n",
		"tasks.csv": "job,instances,submit_s,duration_s,cpu_milli,mem_mib,gpus,gpu_milli,gpu_model,gang_size\n" +
			"alone,3,0,10,1000,1,0,0,,1\n" +
			"gang,1,20,10,1000,1,2,1000,,2\ngang,1,20,10,1000,1,1,1000,,2\n" +
			"model,1,40,10,1000,1,1,500,A10,1\n" +
			"endless,1,50,,1000,1,0,0,,1\n",
	} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	cfg := sized(t, "", 0, 0)
	cfg.Trace, cfg.Speed = dir, 20
	rows, err := Run(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	d := rows[0].Details
	if d["submitted"] != 7 || d["bound"] != 7 || d["finished"] != 6 || d["gangs"] != 1 || rows[0].Violations != 0 || d["peak_gpu"] < 0.75 {
		t.Errorf("got %+v", rows[0])
	}
	if d["delay_p99_trace_s"] <= 0 || d["delay_p99_trace_s"] < d["delay_p50_trace_s"] {
		t.Errorf("delays are %g and %g", d["delay_p50_trace_s"], d["delay_p99_trace_s"])
	}
}

// TestSleepEnds: a wait ends with its context, and returns the cause.
func TestSleepEnds(t *testing.T) {
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(os.ErrDeadlineExceeded)
	if err := sleep(ctx, time.Hour); err != os.ErrDeadlineExceeded {
		t.Errorf("got %v", err)
	}
}
