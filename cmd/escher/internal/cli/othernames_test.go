package cli

import (
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/escher-sched/escher/cmd/escher/internal/cli/cmdutil"
)

// TestOtherNames finds hints for names that exist, and hints that name a command or flag that does
// not exist.
func TestOtherNames(t *testing.T) {
	root := newRoot(&cmdutil.Factory{})
	for _, o := range cmdutil.OtherFlags() {
		reached := false
		for _, cmd := range root.Commands() {
			flags := cmd.Flags()
			lacks := func(name string) bool {
				return flags.Lookup(name) == nil && (len(name) > 1 || flags.ShorthandLookup(name) == nil)
			}
			if lacks(o.Needs) || !slices.ContainsFunc(o.Names, lacks) {
				continue
			}
			reached = true
			for _, m := range regexp.MustCompile(`--([a-z][a-z-]+)`).FindAllStringSubmatch(o.Say, -1) {
				if lacks(m[1]) {
					t.Errorf("%v: %s has no flag %s", o.Names, cmd.Name(), m[1])
				}
			}
		}
		if !reached {
			t.Errorf("%v: no command needs the hint", o.Names)
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
