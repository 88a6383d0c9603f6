package cli

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/spf13/cobra"

	"github.com/escher-sched/escher/cmd/escher/internal/cli/cmdutil"
)

// exampleLine matches an example in a help: an indented command line, then spaces and what it does.
var exampleLine = regexp.MustCompile(`(?m)^  ((?:source <\()?escher .*?)(?:  .*)?$`)

// examplesOf returns the examples in the help of a command.
func examplesOf(cmd *cobra.Command) []string {
	var all []string
	for _, m := range exampleLine.FindAllStringSubmatch(cmd.Long, -1) {
		all = append(all, m[1])
	}
	return all
}

// everyCommand returns all commands below cmd, and itself, but for hidden ones.
func everyCommand(cmd *cobra.Command) []*cobra.Command {
	all := []*cobra.Command{cmd}
	for _, sub := range cmd.Commands() {
		if !sub.Hidden && sub.Name() != "help" {
			all = append(all, everyCommand(sub)...)
		}
	}
	return all
}

// parsedExamples are the examples that no script runs, by how they begin: each follows changes until
// interrupted, or needs root or another cluster. Some script of the commands runs them otherwise.
func parsedExamples() []string {
	return []string{
		"escher dev", "escher server ", "escher agent ", "escher admin restored", "escher rerun sweep-x7k2.07", "escher context set prod ", "escher node doctor", "escher bench",
		"escher audit --exec-log", "escher audit --repair", "escher exec -it ", "escher port-forward ",
		"escher run -it ", "escher apply -f console.yaml", "escher attach ", "escher ps -w", "escher reservations -w", "escher events -f -l ", "escher policies log team -f", "escher log -f", "escher login ", "escher admin certificate", "escher admin secrets-key",
	}
}

// TestExamples finds commands without an example, and examples that no script runs. It parses those
// that cannot run in one.
func TestExamples(t *testing.T) {
	paths, err := filepath.Glob("testdata/examples*.txtar")
	if err != nil || len(paths) == 0 {
		t.Fatalf("%v, %v", paths, err)
	}
	var scripts strings.Builder
	for _, path := range paths {
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		scripts.Write(text)
	}
	run := make(map[string]bool)
	for line := range strings.Lines(scripts.String()) {
		line = strings.TrimSpace(line)
		line = strings.TrimPrefix(strings.TrimPrefix(line, "! "), "exec ")
		if m := regexp.MustCompile(`^(?:bash|zsh|fish) -c '(.*)'$`).FindStringSubmatch(line); m != nil {
			line = m[1]
		}
		run[strings.ReplaceAll(line, `"`, `'`)] = true
	}
	used := make(map[string]bool)
	for _, cmd := range everyCommand(newRoot(&cmdutil.Factory{})) {
		examples := examplesOf(cmd)
		if len(examples) == 0 {
			t.Errorf("%s: its help has no example: a line that begins with two spaces and escher", cmd.CommandPath())
		}
		for _, line := range examples {
			parsed := false
			for _, begin := range parsedExamples() {
				if strings.HasPrefix(line+" ", begin+" ") || strings.HasSuffix(begin, " ") && strings.HasPrefix(line, begin) {
					parsed, used[begin] = true, true
				}
			}
			if ran := run[strings.ReplaceAll(line, `"`, `'`)]; ran == parsed {
				t.Errorf("%s: %s: in a script of testdata/examples: %t, in the list here: %t", cmd.CommandPath(), line, ran, parsed)
			}
			if parsed {
				parses(t, line)
			}
		}
	}
	for _, begin := range parsedExamples() {
		if !used[begin] {
			t.Errorf("no example begins with %s", begin)
		}
	}
}

// parses checks the command, the flags and the number of arguments of a line.
func parses(t *testing.T, line string) {
	t.Helper()
	var words []string
	for _, m := range regexp.MustCompile(`'([^']*)'|"([^"]*)"|(\S+)`).FindAllStringSubmatch(line, -1) {
		words = append(words, m[1]+m[2]+m[3])
	}
	cmd, rest, err := newRoot(&cmdutil.Factory{}).Find(words[1:])
	if err == nil {
		err = cmd.ParseFlags(rest)
	}
	if err == nil {
		err = cmd.ValidateArgs(cmd.Flags().Args())
	}
	if err != nil {
		t.Errorf("%s: %v", line, err)
	}
}
