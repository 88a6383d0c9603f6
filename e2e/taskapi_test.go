package e2e

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestTaskAPI runs, in a container, every line of shell and Python in the document of the task API.
func TestTaskAPI(t *testing.T) {
	t.Parallel() // it mostly waits
	text, err := os.ReadFile("../docs/task-api.md")
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	worker := filepath.Join(dir, "worker")
	if err := os.Link(built.program, worker); err != nil {
		t.Fatal(err)
	}
	shell := append([]string{
		"set -e",
		`curl() { /usr/bin/curl --silent --show-error --fail-with-body --unix-socket "$ESCHER_SOCKET" "$@"; echo; }`,
	}, blocks(string(text), "sh")...)
	if len(shell) < 12 {
		t.Fatalf("the document has %d blocks of shell", len(shell)-2)
	}
	for name, script := range map[string][]string{"api.sh": shell, "api.py": blocks(string(text), "python")} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(strings.Join(script, "\n")+"\n"), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	c := newCluster(t)
	c.start("--nodes", "2", "--allow-mount", "/usr:ro", "--allow-mount", dir+":ro")
	c.must("image", "make", image, built.program, built.escher, worker)

	host := []string{"run", "--request", "node/node-1=1", "--mount", "/usr:/usr:ro", "--mount", "/usr/lib:/lib:ro", "--mount", "/usr/lib64:/lib64:ro", "--mount", dir + ":/api:ro", image, "--"}
	o := c.escher(append(host, "/usr/bin/sh", "-x", "/api/api.sh")...)
	if o.code != 0 || !strings.Contains(o.out, "event: synced") || !strings.Contains(o.out, `"launched":[{`) {
		t.Errorf("shell: %+v", o)
	}
	o = c.escher(append(host, "/usr/bin/python3", "/api/api.py")...)
	if o.code != 0 || strings.TrimSpace(o.out) != "node-1" {
		t.Errorf("python: %+v", o)
	}
}

// blocks returns the contents of a document's code blocks of a language.
func blocks(text, language string) []string {
	var out []string
	for _, part := range strings.Split(text, "\n```"+language+"\n")[1:] {
		block, _, _ := strings.Cut(part, "\n```")
		out = append(out, block)
	}
	return out
}
