package cli

import (
	"regexp"
	"strings"
	"testing"

	"github.com/escher-sched/escher/cmd/escher/internal/cli/cmdutil"
)

// TestOtherNames finds hints for names that exist, and hints that name a command or flag that does
// not exist.
func TestOtherNames(t *testing.T) {
	root := newRoot(&cmdutil.Factory{})
	run, _, err := root.Find([]string{"run"})
	if err != nil {
		t.Fatal(err)
	}
	for _, o := range cmdutil.OtherFlags() {
		for _, name := range o.Names {
			if run.Flags().Lookup(name) != nil || len(name) == 1 && run.Flags().ShorthandLookup(name) != nil {
				t.Errorf("run has the flag %s", name)
			}
		}
		if run.Flags().Lookup(o.Needs) == nil {
			t.Errorf("%v: run has no flag %s", o.Names, o.Needs)
		}
		for _, m := range regexp.MustCompile(`--([a-z][a-z-]+)`).FindAllStringSubmatch(o.Say, -1) {
			if run.Flags().Lookup(m[1]) == nil {
				t.Errorf("%v: run has no flag %s", o.Names, m[1])
			}
		}
	}
	command := regexp.MustCompile(`escher ((?:(?:node|image|job|task) )?[a-z-]+)`)
	for name, say := range cmdutil.OtherCommands() {
		if cmd, rest, err := root.Find(strings.Fields(name)); err == nil && cmd != root && len(rest) == 0 {
			t.Errorf("there is a command %s", name)
		}
		for _, m := range command.FindAllStringSubmatch(say, -1) {
			if cmd, rest, err := root.Find(strings.Fields(m[1])); err != nil || cmd == root || len(rest) > 0 {
				t.Errorf("%s: there is no command %s", name, m[1])
			}
		}
	}
}
