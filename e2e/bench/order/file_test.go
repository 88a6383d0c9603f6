package order

import (
	"bytes"
	"encoding/xml"
	"errors"
	"io"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/escher-sched/escher/e2e/bench/rig"
	"github.com/escher-sched/escher/types"
)

// table writes a table of jobs and returns its path.
func table(t *testing.T, rows ...string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "jobs.csv")
	text := "submit_s,duration_s,tasks,gpus,cpu_milli,limit_s\n" + strings.Join(rows, "\n") + "\n"
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// TestFile: jobs of several resources, one of which does not fit, in textbook and on a cluster.
func TestFile(t *testing.T) {
	path := table(t, "100,100,,1,6000,", "101,50,2,1,6000,60", "102,300,,9,1000,", "103,10,,,6000,11")
	l, unfit, left, err := file{Path: path, Has: "gpu=2,cpu=8"}.read(2, 10)
	if err != nil || len(l.jobs) != 3 || unfit != 1 || left != 0 || l.nodes != 2 {
		t.Fatalf("%d jobs, %d do not fit, %d left out, %d nodes, %v", len(l.jobs), unfit, left, l.nodes, err)
	}
	if got := begins(simulate(l, disciplineOf(t, base))); got != "0-100 100-150 3-13" {
		t.Errorf("fifo-passes: %s", got)
	}
	if got := begins(simulate(l, disciplineOf(t, "fifo"))); got != "0-100 100-150 150-160" {
		t.Errorf("fifo: %s", got)
	}
	for i, want := range []float64{1, 2, 1} { // by processors, of which nodes have 8
		if got := newFitting(l).width(i); math.Abs(got-want*6/8) > 1e-9 {
			t.Errorf("job %d is %.2f nodes wide", i, got)
		}
	}
	synctest.Test(t, func(t *testing.T) {
		spans, err := run(t.Context(), l, policy{after: never})
		if err != nil {
			t.Fatal(err)
		}
		for i, want := range []float64{0, 100, 3} {
			if got := spans[i].Begin; got < want || got > want+10 {
				t.Errorf("job %d begins after %.1f s, want %.0f", i, got, want)
			}
		}
	})
	denser, _, _, err := file{Path: path, Has: "gpu=2,cpu=8", Load: 2}.read(2, 10)
	if last := denser.jobs[2].At; err != nil || math.Abs(last-(6*100+12*50+6*10)/16.0/2) > 1e-9 {
		t.Errorf("at load 2 the last comes after %.2f s, %v", last, err)
	}
}

// TestWrongFile: options are refused that make no sense.
func TestWrongFile(t *testing.T) {
	path := table(t, "0,1,,1,,", "1,1,,1,,")
	for name, cfg := range map[string]rig.Config{
		"nodes without jobs":  {NodeHas: "gpu=1"},
		"a load without jobs": {Load: 1},
		"a negative load":     {Workload: path, Load: -1},
		"no number":           {Workload: path, Load: math.NaN()},
		"too many nodes":      {Workload: path, Nodes: maxNodes + 1},
		"no amount":           {Workload: path, NodeHas: "gpu"},
		"twice":               {Workload: path, NodeHas: "gpu=1,gpu=2"},
		"another resource":    {Workload: path, NodeHas: "disk=1Gi"},
		"no unit":             {Workload: path, NodeHas: "memory=1000"},
		"no end":              {Workload: path, NodeHas: "cpu=inf"},
		"too small":           {Workload: path, NodeHas: "gpu=0.5"},
	} {
		cfg.Tasks = 10
		if _, err := workloadsOf(&cfg); !types.Is(err, types.Invalid) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestChosen is about the list of policies.
func TestChosen(t *testing.T) {
	some, err := chosen(policies(), "shortest, default")
	if err != nil || len(some) != 2 || some[0].name != "shortest" || some[1].name != "default" {
		t.Errorf("%+v, %v", some, err)
	}
	if all, err := chosen(policies(), ""); err != nil || len(all) != len(policies()) {
		t.Errorf("%d of all, %v", len(all), err)
	}
	if _, err := chosen(policies(), "none"); !types.Is(err, types.Invalid) {
		t.Errorf("an unknown one: %v", err)
	}
}

// TestNamesDiffer: an arm of the table is known by its name, also next to those without a cluster.
func TestNamesDiffer(t *testing.T) {
	for _, all := range [][]policy{policies(), frontier()} {
		var names []string
		for _, d := range disciplines() {
			names = append(names, d.name)
		}
		for _, p := range all {
			if slices.Contains(names, p.name) {
				t.Errorf("%s is there twice", p.name)
			}
			names = append(names, p.name)
		}
	}
	for _, p := range frontier() {
		if strings.HasPrefix(p.name, "collect-after-") && p.after < 30*time.Second {
			t.Errorf("%s waits for %s", p.name, p.after)
		}
	}
}

// TestPicture: the picture is XML, with a point for each policy, also if nothing waits.
func TestPicture(t *testing.T) {
	row := func(name string, wait float64) rig.Row {
		return rig.Row{Scenario: name, Value: wait, Details: map[string]float64{longestWait: 2 * wait, sizeWait + "node_s": wait, sizeWait + "gang_2_s": wait}}
	}
	text := picture([]rig.Row{row("a/fifo", 3600), row("a/x<y", 1800), row("b/fifo", 0)})
	points, d := 0, xml.NewDecoder(bytes.NewReader(text))
	for {
		token, err := d.Token()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		if e, ok := token.(xml.StartElement); ok && e.Name.Local == "circle" {
			points++
		}
	}
	if points != 3 || strings.Contains(string(text), "NaN") || strings.Contains(string(text), "Inf") {
		t.Errorf("%d points: %s", points, text)
	}
}
