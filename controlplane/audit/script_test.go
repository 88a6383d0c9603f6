package audit_test

import (
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/escher-sched/escher/controlplane"
	"github.com/escher-sched/escher/controlplane/audit"
	"github.com/escher-sched/escher/controlplane/audit/audittest"
)

// cases reads the scripts of testdata. "== name" lines separate the cases of a file; the lines
// before the first one begin each case.
func cases(t *testing.T) map[string][]audittest.Step {
	t.Helper()
	files, err := filepath.Glob("testdata/*.txt")
	if err != nil || len(files) == 0 {
		t.Fatal("no scripts", err)
	}
	all := make(map[string][]audittest.Step)
	for _, file := range files {
		data, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		parts := strings.Split(string(data), "\n== ")
		for _, part := range parts[1:] {
			name, script, _ := strings.Cut(part, "\n")
			steps, err := audittest.Parse(parts[0] + "\n\n" + script)
			if err != nil {
				t.Fatalf("%s: %s: %v", file, name, err)
			}
			all[strings.TrimSuffix(filepath.Base(file), ".txt")+"/"+name] = steps
		}
	}
	return all
}

// names returns findings in the form of scripts.
func names(found []audit.Finding) []string {
	var out []string
	for _, f := range found {
		out = append(out, string(f.Guarantee)+" "+f.Object)
	}
	slices.Sort(out)
	return slices.Compact(out)
}

func TestScripts(t *testing.T) {
	all := cases(t)
	for _, name := range slices.Sorted(maps.Keys(all)) {
		t.Run(name, func(t *testing.T) {
			c, m := audit.NewChecker(), newModel()
			for _, step := range all[name] {
				found := c.Apply(step.Batch)
				want := slices.Sorted(slices.Values(step.Want))
				if got := names(found); !slices.Equal(got, want) {
					t.Errorf("revision %d: found %q, want %q\n%v\n%s", step.Batch.Revision, got, want, found,
						audittest.Format([]controlplane.Batch{step.Batch}))
				}
				m.apply(step.Batch)
				m.agree(t, c, found)
			}
		})
	}
}

// TestEveryGuaranteeHasAScript checks that every validator is seen to fail.
func TestEveryGuaranteeHasAScript(t *testing.T) {
	wanted := make(map[string]bool)
	for _, steps := range cases(t) {
		for _, step := range steps {
			for _, want := range step.Want {
				g, _, _ := strings.Cut(want, " ")
				wanted[g] = true
			}
		}
	}
	for _, g := range audit.Guarantees() {
		// OneWriter needs authors, NeverTwice needs logs, and NothingLeft and Progress need time:
		// see TestOneWriter, TestNeverTwice, TestLeft and TestStuck.
		if g != audit.OneWriter && g != audit.Progress && g != audit.NothingLeft && g != audit.NeverTwice && !wanted[string(g)] {
			t.Errorf("no script wants %s", g)
		}
	}
}
