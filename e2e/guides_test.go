package e2e

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// guides are the pages whose commands TestGuides runs, in order, below docs.
func guides() []string {
	return []string{"tutorial.md", "coming-from/slurm.md", "coming-from/kubernetes.md", "coming-from/nomad.md", "coming-from/ray.md", "coming-from/docker.md"}
}

// TestGuides runs every line of the sh blocks of the guides, and compares what the last line of a
// block prints with the text block after it: its lines are there, and … stands for anything. A
// yaml block that begins with a comment is the file of that name. A line that ends with "# fails"
// has to fail.
func TestGuides(t *testing.T) {
	t.Parallel() // it mostly waits
	c := started(t, "--nodes", "2", "--cpu", "2", "--label", "node-1:zone=a", "--label", "node-2:zone=b")
	env := append(os.Environ(), "ESCHER_DIR="+c.dir, "PATH="+filepath.Dir(built.escher)+string(filepath.ListSeparator)+os.Getenv("PATH"))
	for _, page := range guides() {
		text, err := os.ReadFile(filepath.Join("../docs", page))
		if err != nil {
			t.Fatal(err)
		}
		t.Run(page, func(t *testing.T) { follow(t, env, string(text)) })
	}
}

// follow runs the commands of a page in a directory of its own.
func follow(t *testing.T, env []string, text string) {
	t.Helper()
	dir, printed, ran := t.TempDir(), "", 0
	for _, block := range regexp.MustCompile("(?ms)^```(sh|text|yaml)\n(.*?)^```").FindAllStringSubmatch(text, -1) {
		switch kind, body := block[1], block[2]; kind {
		case "yaml":
			if name := regexp.MustCompile(`\A# (\S+)\n`).FindStringSubmatch(body); name != nil {
				if err := os.WriteFile(filepath.Join(dir, name[1]), []byte(body), 0o600); err != nil {
					t.Fatal(err)
				}
			}
		case "sh":
			for line := range strings.Lines(body) {
				printed = runLine(t, env, dir, line)
				ran++
			}
		case "text":
			for line := range strings.Lines(body) {
				pattern := strings.ReplaceAll(regexp.QuoteMeta(strings.TrimSuffix(line, "\n")), "…", ".*")
				if !regexp.MustCompile("(?m)^" + pattern).MatchString(printed) {
					t.Errorf("no line %q in\n%s", line, printed)
				}
			}
		}
	}
	if ran == 0 {
		t.Error("the page has no commands")
	}
}

// runLine runs a line of a shell and returns what it prints.
func runLine(t *testing.T, env []string, dir, line string) string {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "bash", "-c", line)
	cmd.Dir, cmd.Env = dir, env
	out, err := cmd.CombinedOutput()
	if fails := strings.HasSuffix(strings.TrimSpace(line), "# fails"); (err != nil) != fails {
		t.Errorf("%s%v\n%s", line, err, out)
	}
	return string(out)
}
