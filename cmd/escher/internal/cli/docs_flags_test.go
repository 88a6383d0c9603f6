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

// TestDocumentedFlags finds unknown flags in the command lines of the documents and examples.
func TestDocumentedFlags(t *testing.T) {
	var paths []string
	for _, pattern := range []string{"README.md", "CONTRIBUTING.md", "docs/*.md", "docs/*/*.md", "examples/*/*.yaml", "examples/*/README.md", "examples/training/*.sh"} {
		found, err := filepath.Glob("../../../../" + pattern)
		if err != nil || len(found) == 0 {
			t.Fatalf("%s: %v, %v", pattern, found, err)
		}
		paths = append(paths, found...)
	}
	seen := 0
	for _, path := range paths {
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		root := newRoot(&cmdutil.Factory{})
		for _, line := range commandLine.FindAllString(string(text), -1) {
			seen++
			for _, flag := range unknownFlags(root, line) {
				t.Errorf("%s: there is no flag %s: %s", filepath.Base(path), flag, line)
			}
		}
	}
	if seen < 100 {
		t.Errorf("only %d command lines were found", seen)
	}
}

// commandLine matches one in a text: up to the end of the line, the quote, or the command.
var commandLine = regexp.MustCompile("\\bescher [a-z]+[^`|;&#()\n]*")

// unknownFlags returns the flags of a command line that its command does not have.
func unknownFlags(root *cobra.Command, line string) []string {
	words := strings.Fields(line)[1:]
	cmd, rest, err := root.Find(words)
	if err != nil || cmd == root {
		return nil // words of a sentence
	}
	cmd.InitDefaultHelpFlag()
	var unknown []string
	for _, word := range rest {
		name, _, _ := strings.Cut(strings.TrimRight(word, ".,:'\""), "=")
		long, isLong := strings.CutPrefix(name, "--")
		switch {
		case word == "--":
			return unknown
		case isLong:
			if cmd.Flags().Lookup(long) == nil && cmd.InheritedFlags().Lookup(long) == nil {
				unknown = append(unknown, name)
			}
		case len(name) == 2 && name[0] == '-':
			if cmd.Flags().ShorthandLookup(name[1:]) == nil && cmd.InheritedFlags().ShorthandLookup(name[1:]) == nil {
				unknown = append(unknown, name)
			}
		}
	}
	return unknown
}
