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

// update writes docs/cli.md and docs/cli: go test ./cmd/escher/internal/cli -run TestDocs -update
var update = flag.Bool("update", false, "write docs/cli.md and docs/cli as the commands say")

// docsPath is the directory of the documents.
const docsPath = "../../../../docs/"

// leaves returns all commands without subcommands, in order, but for those below nouns that are
// others too.
func leaves(cmd *cobra.Command) []*cobra.Command {
	var all []*cobra.Command
	if !cmd.HasSubCommands() && !cmd.Hidden && cmd.Annotations[sameAs] == "" {
		all = append(all, cmd)
	}
	for _, sub := range cmd.Commands() {
		if !cmd.Hidden {
			all = append(all, leaves(sub)...)
		}
	}
	return all
}

// TestDocs compares docs/cli.md, and the pages in docs/cli, with the commands.
func TestDocs(t *testing.T) {
	root := newRoot(&cmdutil.Factory{Outside: cmdutil.Outside{Getenv: func(string) string { return "" }}})
	for _, cmd := range leaves(root) {
		cmd.LocalFlags() // Each command takes the flags of all, as when it runs.
	}
	want := docs(root)
	if *update {
		for page, text := range want {
			if err := os.WriteFile(docsPath+page, []byte(text), 0o644); err != nil {
				t.Fatal(err)
			}
		}
	}
	pages, err := filepath.Glob(docsPath + "cli/*.md")
	if err != nil || len(pages) != len(want)-1 {
		t.Errorf("docs/cli has %d pages, want %d: %v", len(pages), len(want)-1, err)
	}
	for page, text := range want {
		got, err := os.ReadFile(docsPath + page)
		if err != nil {
			t.Fatal(err)
		}
		if string(got) != text {
			t.Errorf("docs/%s is not what the commands say: go test ./cmd/escher/internal/cli -run TestDocs -update writes it; read the difference", page)
		}
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

// TestEveryArgumentCompletes finds commands with arguments that have no completion.
func TestEveryArgumentCompletes(t *testing.T) {
	f := new(cmdutil.Factory)
	root := newRoot(f)
	addCompletion(f, root)
	for _, cmd := range leaves(root) {
		if len(cmd.ValidArgs) == 0 && cmd.ValidArgsFunction == nil && regexp.MustCompile(`^\S+ \[?[A-Z]`).MatchString(cmd.Use) {
			t.Errorf("%s: nothing completes its arguments", cmd.Use)
		}
	}
}

const docsIntro = `# The command line

These pages have the same texts as ` + "`escher --help`" + ` and the help of each command; a test compares them.

## Finding the cluster
In this order: ` + "`--endpoints` or `--dir`; `--context`; `ESCHER_ENDPOINTS` or `ESCHER_DIR`; `ESCHER_CONTEXT`" + `, or the
context in use (` + "`escher context use`" + `); the directory ` + "`~/.local/share/escher`" + `. Inside a task, its socket.

## Names
A name of a task or job means the one that lives, else one that is ending, else the one submitted last. ` + "`web.2`" + ` and
` + "`web/2`" + ` mean the task of index 2 of job ` + "`web`" + `; ` + "`exec web`" + ` also enters the only task of a job. For ids of tasks, jobs and
reservations, and for names of nodes, a unique beginning is enough; an exact match wins. If several match, the error lists
them; if none does, it suggests similar names. ` + "`-l team=vision`" + ` selects by [labels](labels.md).

## Output
Commands that list or show something take ` + "`-o`" + `:

| format | prints |
|---|---|
| ` + "`table`, `wide`" + ` | columns; no cell is empty |
| ` + "`json`, `yaml`" + ` | everything; a list is an array |
| ` + "`name`" + ` | ids or names, one a line: ` + "`escher stop $(escher ps -o name)`" + ` |
| ` + "`jsonpath=TEMPLATE`" + ` | the result of the template, as in kubectl; a list is an object with ` + "`items`" + `: ` + "`-o jsonpath='{.items[*].id}'`" + ` |

Lists take ` + "`-w`" + `: a terminal shows them again when something changes; elsewhere the changed rows are appended.
Phases have colors on a terminal, unless ` + "`NO_COLOR`" + ` is set; ` + "`--color always|never`" + ` decides otherwise.

Results go to the standard output, everything else to the error output, and every error ends with a remedy. On a terminal,
a command that takes more than a second says so. An output that cannot be written ends a command with exit code 6.

The text of tasks has its control characters escaped, as \u001b. The output of tasks (logs, run, exec) stays unchanged.
`

// docsExitCodes precedes the table of exit codes.
const docsExitCodes = "`run`, `wait`, `logs -f`, `submit --attach` and `exec` exit with the code of the task. Their own codes are docker's:\n" +
	"125 if Escher fails, 126 if the container cannot execute the command, and 127 if it does not have it. The error output\n" +
	"then names the class, by the table below. With `-o json`, errors are objects with `class`, `error` and `exitCode`.\n\n" +
	"All other commands exit with:\n"

// docs writes the reference of the commands: each page, by its path below docs.
func docs(root *cobra.Command) map[string]string {
	pages := make(map[string]*strings.Builder)
	var b, index strings.Builder
	for _, cmd := range leaves(root) {
		group := groupOf(cmd)
		page := "cli/" + strings.ToLower(group) + ".md"
		if pages[page] == nil {
			pages[page] = new(strings.Builder)
			fmt.Fprintf(pages[page], "# Commands: %s\n\n[The command line](../cli.md) has output formats, exit codes, and the flags of all commands.\n", strings.ToLower(group))
		}
		path := cmd.CommandPath()
		fmt.Fprintf(&index, "| [%s](%s#%s) | %s |\n", path, page, strings.ReplaceAll(path, " ", "-"), cmd.Short)
		fmt.Fprintf(pages[page], "\n## %s\n%s.\n\n    %s\n", path, cmd.Short, cmd.UseLine())
		if cmd.Long != "" {
			fmt.Fprintf(pages[page], "\n```text\n%s\n```\n", strings.TrimRight(cmd.Long, "\n"))
		}
		titles, sets := cmdutil.FlagSets(cmd)
		for _, title := range titles {
			if title != "" {
				fmt.Fprintf(pages[page], "\n### %s: %s\n", path, strings.ToLower(title))
			}
			flagTable(pages[page], sets[title])
		}
	}
	b.WriteString(docsIntro)
	b.WriteString("\n## Exit codes\n" + docsExitCodes + "\n| code | name | meaning |\n|---|---|---|\n")
	for _, c := range types.ExitCodes() {
		fmt.Fprintf(&b, "| %d | %s | %s |\n", c.Code, c.Name, c.Meaning)
	}
	b.WriteString("\n## Flags of all commands\n")
	flagTable(&b, root.PersistentFlags())
	b.WriteString("\n## Commands\n\n| command | does |\n|---|---|\n" + index.String())
	b.WriteString("\n## By noun\nThese are the same commands:\n\n| command | is |\n|---|---|\n")
	for _, cmd := range same(root) {
		fmt.Fprintf(&b, "| `%s` | `escher %s` |\n", cmd.CommandPath(), cmd.Annotations[sameAs])
	}
	out := map[string]string{"cli.md": b.String()}
	for page, text := range pages {
		out[page] = text.String()
	}
	return out
}

// same returns the commands below nouns that are others too.
func same(cmd *cobra.Command) []*cobra.Command {
	var all []*cobra.Command
	if cmd.Annotations[sameAs] != "" {
		all = append(all, cmd)
	}
	for _, sub := range cmd.Commands() {
		all = append(all, same(sub)...)
	}
	return all
}

// groupOf returns the group under which the help of escher lists a command.
func groupOf(cmd *cobra.Command) string {
	for cmd.Parent().HasParent() {
		cmd = cmd.Parent()
	}
	return cmd.GroupID
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
		if f.Shorthand != "" && f.ShorthandDeprecated == "" {
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

// TestEveryListingMeetsAFullDisk finds the commands that print output, and have no test with an
// output that takes nothing.
func TestEveryListingMeetsAFullDisk(t *testing.T) {
	var script []byte
	for _, path := range []string{"testdata/hostile.txtar", "testdata/gpus.txtar"} {
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		script = append(script, text...)
	}
	// These print nothing, run until interrupted, or print only the name of the changed object.
	others := strings.Fields(`admin-certificate admin-restored admin-secrets-key agent attach auth-grant auth-revoke auth-token-create auth-token-revoke bench context-rm context-set context-use cp delete dev image-load image-make image-pull kill login
		namespace-create namespace-rm namespace-set node-drain node-rm policies-rm port-forward pull rerun resource-rm secret-rm secret-set server set-resource wait`)
	for _, cmd := range leaves(newRoot(&cmdutil.Factory{})) {
		path := strings.TrimPrefix(cmd.CommandPath(), "escher ")
		tried := regexp.MustCompile(`(?m)^full ` + regexp.QuoteMeta(path) + `\b`).Match(script)
		if listed := slices.Contains(others, strings.ReplaceAll(path, " ", "-")); tried == listed {
			t.Errorf("escher %s: tried %t, listed here %t", path, tried, listed)
		}
	}
}
