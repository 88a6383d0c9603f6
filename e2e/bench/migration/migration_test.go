package migration

import (
	"math"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/escher-sched/escher/e2e/bench/rig"
	"github.com/escher-sched/escher/e2e/bench/rigtest"
)

// TestMigration runs the experiment at forty times its speed: the long job moves, and gains steps.
// The gain means little at that speed.
func TestMigration(t *testing.T) {
	t.Parallel()
	cfg := rigtest.Config(t)
	cfg.Scenario, cfg.Nodes, cfg.Tasks, cfg.Speed = "migration", 3, 4, 40
	rows, err := rig.Measure(t.Context(), cfg, Scenarios()[0])
	if err != nil {
		t.Fatal(err)
	}
	r := rows[0]
	if r.Scenario != "migration" || r.Violations != 0 || r.Ratio < 1.05 || r.Ratio > stepsPerSecond(1)/stepsPerSecond(2) || r.Details["moving_s"] < saveTakes.Seconds() {
		t.Errorf("got %+v", r)
	}
}

// TestMigrationWork counts steps: two times on two nodes and on one, with a slow move between them,
// and the load after it.
func TestMigrationWork(t *testing.T) {
	var w longWork
	for _, x := range []struct {
		at    time.Duration
		nodes int
	}{{time.Second, 0}, {2 * time.Second, 3}, {4 * time.Second, 3}, {12 * time.Second, 0}, {20 * time.Second, 1}, {21 * time.Second, 1}, {33 * time.Second, 1}} {
		w.change(x.at, x.nodes)
	}
	if want := 10*stepsPerSecond(3) + 10*stepsPerSecond(1); math.Abs(w.steps-want) > 1e-9 || w.away != 8*time.Second {
		t.Errorf("%v steps, not %v, and %s away", w.steps, want, w.away)
	}
}

// TestMigrationLines counts the lines of the application.
func TestMigrationLines(t *testing.T) {
	text, err := os.ReadFile("app.go")
	if err != nil {
		t.Fatal(err)
	}
	n := 0
	for line := range strings.Lines(string(text)) {
		if strings.TrimSpace(line) != "" {
			n++
		}
	}
	if n != appLines || n > 50 {
		t.Errorf("appLines is %d, and there are %d, of which at most 50 are allowed: set it, or shorten them", appLines, n)
	}
}
