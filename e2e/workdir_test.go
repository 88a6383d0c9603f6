package e2e

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
)

// TestWorkdir sends a directory to two hosts. A third, which joins later, fetches it from them.
func TestWorkdir(t *testing.T) {
	t.Parallel() // it mostly waits
	m := newMachines(t)
	m.begin(m.net.add(), "server", "--name", "server-1")
	m.agent("a")
	m.agent("b")
	m.must("image", "make", image, built.program)

	dir := t.TempDir()
	for i := range 2000 {
		writeTo(t, filepath.Join(dir, "lib", strconv.Itoa(i%40), strconv.Itoa(i)), strings.Repeat(strconv.Itoa(i), 500))
	}
	writeTo(t, filepath.Join(dir, "main"), "first\n")
	writeTo(t, filepath.Join(dir, ".gitignore"), "*.secret\n")
	writeTo(t, filepath.Join(dir, "a.secret"), "secret\n")
	run := func(args ...string) outcome {
		return m.escher(append([]string{"run", "--workdir", dir + ":/workdir"}, args...)...)
	}
	for _, node := range []string{"a", "b", "a"} {
		if o := run("--user", "1000", "--request", "node/"+node+"=1", image, "--", "program", "cat", "main"); o.code != 0 || o.out != "first\n" {
			t.Errorf("on %s: %+v", node, o)
		}
	}
	if o := run(image, "--", "program", "cat", "a.secret"); o.code == 0 {
		t.Errorf("an ignored file arrived: %+v", o)
	}
	writeTo(t, filepath.Join(dir, "main"), "second\n")
	later := m.must("run", "-d", "--workdir", dir+":/code", "--request", "node/c=1", "--request", "go=1", image, "--", "program", "cat", "main", "lib/7/7")
	if o := run(image, "--", "program", "cat", "main"); o.out != "second\n" || strings.Contains(o.err, "sent") {
		t.Errorf("what was sent is sent again: %+v", o)
	}
	m.agent("c")
	m.must("image", "make", "--node", "c", image, built.program)
	m.must("set-resource", "go", "1", "--node", "c")
	m.must("wait", later)
	if out := m.must("logs", later); !strings.HasPrefix(out, "second\n777") {
		t.Errorf("fetched from another host: %.100q", out)
	}
	if out := m.must("events", later); !strings.Contains(out, "from another node, in ") {
		t.Errorf("its events do not tell where its directory came from:\n%s", out)
	}
}

// writeTo writes a file, and makes the directories above it.
func writeTo(t *testing.T, name, text string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(name), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}
