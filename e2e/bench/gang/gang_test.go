package gang

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/escher-sched/escher/e2e/bench/rig"
	"github.com/escher-sched/escher/e2e/bench/rigtest"
)

// TestGang measures a few gangs on a few nodes, from beginning to end: every way to submit them
// binds all of it.
func TestGang(t *testing.T) {
	t.Parallel()
	cfg := rigtest.Config(t)
	cfg.Scenario, cfg.Nodes, cfg.Tasks = "gang", 4, 3
	rows, err := rig.Measure(t.Context(), cfg, Scenarios()[0])
	if err != nil {
		t.Fatal(err)
	}
	want := []string{"gang-app", "gang-lib", "gang-frame", "gang-cpus-app", "gang-cpus-lib", "gang-cpus-frame"}
	if len(rows) != len(want) {
		t.Fatalf("got %+v", rows)
	}
	for i, r := range rows {
		if r.Scenario != want[i] || r.Value <= 0 || r.P99 < r.P50 || r.Ratio <= 0 || r.Violations != 0 || r.Details["lines"] <= 0 {
			t.Errorf("got %+v", r)
		}
	}
}

// TestGangsContending lets a few gangs contend for nodes, nearly all of which the largest takes.
func TestGangsContending(t *testing.T) {
	t.Parallel()
	cfg := rigtest.Config(t)
	cfg.Scenario, cfg.Nodes, cfg.Tasks = "gangs", 9, 4
	rows, err := rig.Measure(t.Context(), cfg, Scenarios()[1])
	if err != nil {
		t.Fatal(err)
	}
	if r := rows[0]; r.Value <= 0 || r.Value > 100 || r.Ratio <= 0 || r.Violations != 0 || r.Details["bound_apart_ms"] > 1000 {
		t.Errorf("got %+v", r)
	}
}

// TestGangLines checks the line counts in the rows.
func TestGangLines(t *testing.T) {
	for _, c := range []struct {
		of    string
		want  int
		most  int // 0 means any
		files []string
	}{
		{"appLines", appLines, 78, []string{"examples/gang/main.go"}},
		{"libLines", libLines, 261, []string{"esl/gang/gang.go"}},
		{"frameLines", frameLines, 1624, []string{"examples/framespace/gangs/gangs.go", "examples/framespace/gangs/run.go"}},
		{"libBelow", libBelow, 0, []string{"esl/lock.go", "esl/lock_check.go", "esl/loss.go", "esl/gang/whole.go", "esl/gang/why.go", "esl/gang/seek.go", "esl/taskset/fit.go", "controlplane/match/space.go"}},
	} {
		got := 0
		for _, name := range c.files {
			text, err := os.ReadFile(filepath.Join("../../..", name))
			if err != nil {
				t.Fatal(err)
			}
			for line := range strings.Lines(string(text)) {
				text := strings.TrimSpace(line)
				if text != "" && (c.most > 0 || !strings.HasPrefix(text, "//")) {
					got++
				}
			}
		}
		if got != c.want || c.most > 0 && got > c.most {
			t.Errorf("%s is %d, and %v have %d lines that count; at most %d are allowed (0: any): set it, or shorten them", c.of, c.want, c.files, got, c.most)
		}
	}
}

// TestContendingIsDrawn: gangs follow one another, and tasks map to their gangs.
func TestContendingIsDrawn(t *testing.T) {
	x := &contention{gangs: drawContending(100)}
	next := 0
	for i := range x.gangs {
		g := &x.gangs[i]
		if g.first != next || g.members < leastMembers || g.members > mostMembers || g.runs < leastRun || g.runs >= mostRun {
			t.Fatalf("gang %d is %+v, and the one before ends at %d", i, *g, next)
		}
		for _, m := range []int{0, g.members - 1} {
			if got := x.gangOf(rig.TaskName(g.first + m)); got != g {
				t.Errorf("task %d is of %+v, want %+v", g.first+m, *got, *g)
			}
		}
		next += g.members
	}
	if x.tasks() != next {
		t.Errorf("%d tasks, want %d", x.tasks(), next)
	}
}
