package cli

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/escher-sched/escher/cmd/escher/internal/cli/cmdutil"
	"github.com/escher-sched/escher/types"
)

// update writes docs/cli.md: go test ./cmd/escher/internal/cli -run TestDocs -update
var update = flag.Bool("update", false, "write docs/cli.md as the commands say")

const docsPath = "../../../../docs/cli.md"

// leaves returns all commands that do something, in their order.
func leaves(cmd *cobra.Command) []*cobra.Command {
	var all []*cobra.Command
	if !cmd.HasSubCommands() && !cmd.Hidden {
		all = append(all, cmd)
	}
	for _, sub := range cmd.Commands() {
		if !cmd.Hidden {
			all = append(all, leaves(sub)...)
		}
	}
	return all
}

// TestDocs compares docs/cli.md with the commands.
func TestDocs(t *testing.T) {
	want := docs(newRoot(&cmdutil.Factory{Outside: cmdutil.Outside{Getenv: func(string) string { return "" }}}))
	if *update {
		if err := os.WriteFile(docsPath, []byte(want), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	got, err := os.ReadFile(docsPath)
	if err != nil {
		t.Fatal(err)
	}
	if string(got) != want {
		t.Error("docs/cli.md is not what the commands say: go test ./cmd/escher/internal/cli -run TestDocs -update writes it; read the difference")
	}
}

// TestEveryVerbHasAScript finds the commands that no script tries.
func TestEveryVerbHasAScript(t *testing.T) {
	paths, err := filepath.Glob("testdata/*.txtar")
	if err != nil {
		t.Fatal(err)
	}
	var scripts strings.Builder
	for _, path := range paths {
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		scripts.Write(text)
	}
	for _, cmd := range leaves(newRoot(&cmdutil.Factory{})) {
		if !regexp.MustCompile(`(?m)^(! |\? )?` + regexp.QuoteMeta(cmd.CommandPath()) + `\b`).MatchString(scripts.String()) {
			t.Errorf("%s is in no script of testdata: write one, with its errors", cmd.CommandPath())
		}
	}
}

// TestEveryArgumentCompletes finds commands whose arguments nothing completes.
func TestEveryArgumentCompletes(t *testing.T) {
	root := newRoot(&cmdutil.Factory{})
	for _, cmd := range leaves(root) {
		if len(cmd.ValidArgs) == 0 && cmd.ValidArgsFunction == nil && regexp.MustCompile(`^\S+ \[?[A-Z]`).MatchString(cmd.Use) {
			t.Errorf("%s: nothing completes its arguments", cmd.Use)
		}
	}
}

const docsIntro = `# The command line

This is what ` + "`escher --help`" + ` and the help of each command say; a test keeps it so.

## Finding the cluster
In this order: ` + "`--endpoints` or `--dir`; `--context`; `ESCHER_ENDPOINTS` or `ESCHER_DIR`; `ESCHER_CONTEXT`" + `, or the
context in use (` + "`escher context use`" + `); the directory ` + "`~/.local/share/escher`" + `. Inside a task, its socket.

## Names
Ids of tasks, jobs and reservations, and names of nodes, may be given by any beginning that only one has; one that is
there as it was typed is that one. Several: the error lists them. None: it suggests what is near.

## Output
What lists or shows something takes ` + "`-o`" + `:

| format | prints |
|---|---|
| ` + "`table`, `wide`" + ` | columns; no cell is empty |
| ` + "`json`, `yaml`" + ` | everything; a list is an array |
| ` + "`name`" + ` | ids or names, one a line: ` + "`escher stop $(escher ps -o name)`" + ` |
| ` + "`jsonpath=TEMPLATE`" + ` | what the template takes, as kubectl has it; a list is an object with ` + "`items`" + `: ` + "`-o jsonpath='{.items[*].id}'`" + ` |

Lists take ` + "`-w`" + `: on a terminal they are drawn again when something changes, else the rows that changed are appended.
Phases have colours on a terminal, unless ` + "`NO_COLOR`" + ` is set; ` + "`--color always|never`" + ` decides otherwise. What takes more
than a second says so on the error output of a terminal. Results are on the standard output, all else on the error
output, and every error ends with what to do next. Control characters in the text of tasks are escaped, as \u001b; what a task
itself writes (logs, run, exec) is shown as it is. An output that cannot be written ends a command with exit code 6.
`

// docs writes the reference of the commands.
func docs(root *cobra.Command) string {
	var b strings.Builder
	b.WriteString(docsIntro)
	b.WriteString("\n## Exit codes\nCommands that end with a task have that of the task; the others:\n\n| code | name | meaning |\n|---|---|---|\n")
	for _, c := range types.ExitCodes() {
		fmt.Fprintf(&b, "| %d | %s | %s |\n", c.Code, c.Name, c.Meaning)
	}
	b.WriteString("\n## Flags of all commands\n")
	flagTable(&b, root.PersistentFlags())
	b.WriteString("\n## Commands\n")
	for _, cmd := range leaves(root) {
		fmt.Fprintf(&b, "\n### %s\n%s.\n\n    %s\n", cmd.CommandPath(), cmd.Short, cmd.UseLine())
		if cmd.Long != "" {
			fmt.Fprintf(&b, "\n```text\n%s\n```\n", strings.TrimRight(cmd.Long, "\n"))
		}
		flagTable(&b, cmd.LocalNonPersistentFlags())
	}
	return b.String()
}

// flagTable writes the flags of a set, if there are any.
func flagTable(b *strings.Builder, flags *pflag.FlagSet) {
	header := "\n| flag | value | default | meaning |\n|---|---|---|---|\n"
	flags.VisitAll(func(f *pflag.Flag) {
		if f.Hidden || f.Name == "help" {
			return
		}
		b.WriteString(header)
		header = ""
		name := "`--" + f.Name + "`"
		if f.Shorthand != "" {
			name = "`-" + f.Shorthand + "`, " + name
		}
		value := f.Value.Type()
		if value == "bool" {
			value = ""
		}
		preset := f.DefValue
		if preset == "[]" || preset == "false" || preset == "0" || preset == "0s" {
			preset = ""
		}
		if strings.HasPrefix(preset, "/") {
			preset = "" // of this machine
		}
		fmt.Fprintf(b, "| %s | %s | %s | %s |\n", name, value, preset, strings.ReplaceAll(f.Usage, "|", "\\|"))
	})
}

// TestEveryListingMeetsAFullDisk finds the commands that print something, and are not
// tried with an output that takes nothing.
func TestEveryListingMeetsAFullDisk(t *testing.T) {
	var script []byte
	for _, path := range []string{"testdata/hostile.txtar", "testdata/gpus.txtar"} {
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		script = append(script, text...)
	}
	// These print nothing, go on until interrupted, or print just the name of what they have done it to.
	others := strings.Fields(`admin-restored agent bench context-rm context-set context-use cp dev image-load image-make image-pull
		namespace-create namespace-rm namespace-set node-drain node-rm policies-rm pull server set-resource wait`)
	for _, cmd := range leaves(newRoot(&cmdutil.Factory{})) {
		path := strings.TrimPrefix(cmd.CommandPath(), "escher ")
		tried := regexp.MustCompile(`(?m)^full ` + regexp.QuoteMeta(path) + `\b`).Match(script)
		if listed := slices.Contains(others, strings.ReplaceAll(path, " ", "-")); tried == listed {
			t.Errorf("escher %s: tried %t, listed here %t", path, tried, listed)
		}
	}
}
