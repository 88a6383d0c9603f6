package replay

import (
	"os"
	"path/filepath"
	"testing"
	"testing/synctest"
	"time"

	"github.com/escher-sched/escher/controlplane"
	"github.com/escher-sched/escher/e2e/bench/rig"
	"github.com/escher-sched/escher/e2e/bench/rigtest"
	"github.com/escher-sched/escher/e2e/bench/workload"
	"github.com/escher-sched/escher/types"
)

// TestReplayAwaitsBindings: a replay of endless tasks lasts until they are bound.
func TestReplayAwaitsBindings(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		plan := &workload.Plan{Jobs: []workload.Job{{N: 2}}, Tasks: []workload.Task{{Runs: -1}, {Runs: -1}}}
		r := newReplay(rig.Config{Speed: 1}, plan, &controlplane.Client{})
		go func() {
			for i := range plan.Tasks {
				time.Sleep(3 * time.Second)
				r.mu.Lock()
				r.note(i, &types.Status{Phase: types.Bound, Bound: time.Now().UnixNano()})
				r.mu.Unlock()
				r.news <- struct{}{}
			}
		}()
		began := time.Now()
		if err := r.await(t.Context()); err != nil || time.Since(began) != 6*time.Second {
			t.Errorf("after %s it has ended, %v", time.Since(began), err)
		}
		synctest.Wait()
	})
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
	cfg := rigtest.Config(t)
	cfg.Nodes, cfg.Tasks, cfg.Trace, cfg.Speed = 0, 0, dir, 20
	rows, err := rig.Measure(t.Context(), cfg, Scenario())
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
