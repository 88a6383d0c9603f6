package cli

import (
	"slices"
	"strings"
	"testing"

	"github.com/escher-sched/escher/cmd/escher/internal/cli/cmdutil"
	"github.com/escher-sched/escher/esl"
	"github.com/escher-sched/escher/esl/builtin"
)

// TestRunHelp puts each flag of run below one heading. The first 25 lines of the help have what most
// users need.
func TestRunHelp(t *testing.T) {
	var out strings.Builder
	root := newRoot(&cmdutil.Factory{Outside: cmdutil.Outside{Out: &out, Getenv: func(string) string { return "" }}})
	cmd, _, err := root.Find([]string{"run"})
	if err != nil {
		t.Fatal(err)
	}
	titles, sets := cmdutil.FlagSets(cmd)
	if want := []string{"Resources", "Placement and policies", "Container", "Health and restarts", "Rights", "Output"}; !slices.Equal(titles, want) {
		t.Errorf("headings %q, want %q", titles, want)
	}
	ofPolicies := []string{"policy", "priority", "scheduler"}
	for _, kind := range builtin.Policies() {
		for f := range esl.Describe(kind).AllFlags() {
			ofPolicies = append(ofPolicies, f.Name)
		}
	}
	for _, name := range cmdutil.Unlisted(cmd) {
		if !slices.Contains(ofPolicies, name) {
			t.Errorf("--%s is below no heading: put it into runHeadings", name)
		}
	}
	seen := 0
	for _, set := range sets {
		if set.Lookup("help") != nil {
			t.Error("--help is listed")
		}
		seen++
	}
	if seen != len(titles) {
		t.Errorf("%d sets, %d titles", seen, len(titles))
	}
	root.SetArgs([]string{"run", "--help"})
	if err := root.Execute(); err != nil {
		t.Fatal(err)
	}
	lines := strings.Split(out.String(), "\n")
	first := strings.Join(lines[:25], "\n")
	for _, needed := range []string{"--cpu ", "--memory ", "--gpu ", "--workdir ", "--gang ", "--array ", "-p ", "--restart ", "-d ", "--name ", "--queue ", "--retries ", "-l ", "-- echo", "escher run [IMAGE", "submit"} {
		if !strings.Contains(first, needed) {
			t.Errorf("the first 25 lines lack %q:\n%s", needed, first)
		}
	}
	for _, line := range lines {
		if len(line) > 105 {
			t.Errorf("%d bytes are too wide: %s", len(line), line)
		}
	}
}
