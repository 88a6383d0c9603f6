package cli

import (
	"strings"
	"testing"

	"github.com/escher-sched/escher/cmd/escher/internal/cli/cmdutil"
	"github.com/escher-sched/escher/cmd/escher/internal/howto"
	"github.com/escher-sched/escher/types/action"
)

// TestActionsAreCommands checks each command line of an action: the command and its flags exist.
func TestActionsAreCommands(t *testing.T) {
	for _, verb := range action.Verbs() {
		a := verb.Of([]string{"max-keys", "max-keys", "max-keys"}[:verb.Arguments()]...)
		lines := howto.Commands(a)
		if len(lines) == 0 {
			t.Errorf("%s: no command line", a)
		}
		for _, line := range lines {
			line = a.Fill(line)
			words := strings.Fields(line)
			root := newRoot(&cmdutil.Factory{})
			cmd, _, err := root.Find(words[1:])
			if words[0] != "escher" || err != nil || cmd == root {
				t.Errorf("%s: %q is no command", a, line)
				continue
			}
			for _, flag := range unknownFlags(root, line) {
				t.Errorf("%s: %q: there is no flag %s", a, line, flag)
			}
		}
		said := howto.Say(a)
		if strings.ContainsAny(said, "{}|%") {
			t.Errorf("%s: said as %q", a, said)
		}
		if elsewhere := howto.Say(a.In("team")); strings.HasPrefix(said, "escher ") && !strings.Contains(elsewhere, " --namespace team") {
			t.Errorf("%s: in a namespace said as %q", a, elsewhere)
		}
	}
}
