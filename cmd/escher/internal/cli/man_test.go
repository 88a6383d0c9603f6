package cli

import (
	"flag"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/spf13/cobra/doc"

	"github.com/escher-sched/escher/cmd/escher/internal/cli/cmdutil"
)

// manDir is where TestManPages writes: go test ./cmd/escher/internal/cli -run TestManPages -man DIR
var manDir = flag.String("man", "", "directory to write the man pages to")

// TestManPages writes a man page for each command, as make man does. What makes them is in no binary.
func TestManPages(t *testing.T) {
	dir := *manDir
	if dir == "" {
		dir = t.TempDir()
	}
	root := newRoot(&cmdutil.Factory{Outside: cmdutil.Outside{Getenv: func(string) string { return "" }}})
	root.DisableAutoGenTag = true
	code := regexp.MustCompile(`(?m)^  (\S)`)
	all := everyCommand(root)
	for _, cmd := range all {
		cmd.Long = code.ReplaceAllString(cmd.Long, "    $1") // Markdown takes four spaces for code
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := doc.GenManTree(root, &doc.GenManHeader{Section: "1", Source: "Escher", Manual: "Escher"}, dir); err != nil {
		t.Fatal(err)
	}
	for _, cmd := range all {
		name := strings.ReplaceAll(cmd.CommandPath(), " ", "-") + ".1"
		text, err := os.ReadFile(filepath.Join(dir, name))
		if err != nil {
			t.Fatal(err)
		}
		for _, line := range examplesOf(cmd) {
			if plain := strings.NewReplacer(`\&`, "", `\`, "").Replace(string(text)); !strings.Contains(plain, "\n"+strings.ReplaceAll(line, `\`, "")) {
				t.Errorf("%s lacks the line %s", name, line)
			}
		}
	}
}
