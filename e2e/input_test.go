package e2e

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
)

func itoa(n int) string { return strconv.Itoa(n) }

// TestBadInput gives every command invalid input: the error names field, value and remedy, the exit
// code is that of the class, and nothing is written.
func TestBadInput(t *testing.T) {
	c := started(t)
	one := c.must("run", "-d", "--name", "twin", "--request", "never=1", image)
	two := c.must("run", "-d", "--name", "twin", "--request", "never=1", image)
	long := strings.Repeat("x", 300)
	big := make([]string, 0, 42)
	for i := range 20 {
		// An argument of a program has at most 128 KiB.
		big = append(big, "--env", "X"+strconv.Itoa(i)+"="+strings.Repeat("y", 100_000))
	}
	before := c.revision()
	for _, x := range slices.Concat(badRuns(long, big), badResources(long), badRest(one, two)) {
		o := c.escher(x.args...)
		shown := strings.Join(x.args, " ")
		shown = shown[:min(len(shown), 80)]
		if o.code != x.code {
			t.Errorf("escher %s: exit code %d, want %d: %s", shown, o.code, x.code, o.err)
		}
		for _, want := range x.says {
			if !strings.Contains(o.err, want) {
				t.Errorf("escher %s: does not say %q: %s", shown, want, o.err)
			}
		}
		if len(o.err) > 4000 {
			t.Errorf("escher %s: the error has %d bytes", shown, len(o.err))
		}
		if now := c.revision(); now != before {
			t.Errorf("escher %s: has written: revision %d, before %d", shown, now, before)
			before = now
		}
	}
}

// bad is invalid input for a command.
type bad struct {
	args []string
	code int
	// says is what the error contains.
	says []string
}

// badRuns are invalid tasks.
func badRuns(long string, big []string) []bad {
	return []bad{
		{[]string{"run", "--cpu", "-1", image}, 125, []string{"cpu", "-1", "negative"}},
		{[]string{"run", "--cpu", "99999999999999999999", image}, 125, []string{"cpu", "99999999999999999999", "too large"}},
		{[]string{"run", "--cpu", "0.0001", image}, 125, []string{"cpu", "0.0001", "round"}},
		{[]string{"run", "--memory", "512", image}, 125, []string{"memory", "512", "512Mi"}},
		{[]string{"run", "--memory", "many", image}, 125, []string{"memory", "many"}},
		{[]string{"run", "--request", "x", image}, 125, []string{"request", "x", "name=amount"}},
		{[]string{"run", "--request", "a b=1", image}, 125, []string{"a b", "use letters"}},
		{[]string{"run", "--request", long + "=1", image}, 125, []string{"300 bytes", "shorten"}},
		{[]string{"run", "--request", "a/b=1", image}, 125, []string{"a/b", "acme.com"}},
		{[]string{"run", "--provide", "cpu=1", image}, 125, []string{"provides", "cpu", "physical"}},
		{[]string{"run", "--provide", "x=1@later", image}, 125, []string{"later", "bound, running, healthy or succeeded"}},
		{[]string{"run", "--alternative", "x=1,after=soon", image}, 125, []string{"after", "soon", "3s"}},
		{[]string{"run", "--on-disconnect", "cry", image}, 125, []string{"on disconnect", "cry", "keep"}},
		{[]string{"run", "--count", "0", image}, 125, []string{"count", "0"}},
		{[]string{"run", "--name", "a/b", image}, 125, []string{"name", "a/b"}},
		{[]string{"run", "--env", "novalue", image}, 125, []string{"env", "novalue", "NAME=value"}},
		{[]string{"run", "--reservation", "a/b", "--cpu", "1", image}, 125, []string{"reservation", "a/b"}},
		{append(append([]string{"run"}, big...), image), 125, []string{"env: has", "bytes", "131072"}},
		{[]string{"run"}, 125, []string{"IMAGE", "--binary"}},
		{[]string{"run", "not an image"}, 125, []string{"image", "not an image"}},
		{[]string{"run", "--binary", "/nonexistent"}, 125, []string{"binary", "/nonexistent"}},
		{[]string{"run", "--bogus", image}, 125, []string{"--bogus", "--help"}},
	}
}

// badResources are invalid resources.
func badResources(long string) []bad {
	return []bad{
		{[]string{"set-resource", "cpu", "1", "--all"}, 2, []string{"name", "cpu", "physical", "choose another"}},
		{[]string{"set-resource", "a/b", "1", "--all"}, 2, []string{"a/b"}},
		{[]string{"set-resource", "a b", "1", "--all"}, 2, []string{"a b", "use letters"}},
		{[]string{"set-resource", long, "1", "--all"}, 2, []string{"300 bytes", "shorten"}},
		{[]string{"set-resource", "x", "-1", "--all"}, 2, []string{"-1"}},
		{[]string{"set-resource", "x", "1e30", "--all"}, 2, []string{"1e30", "too large"}},
		{[]string{"set-resource", "x", "1"}, 2, []string{"place", "--node", "--all"}},
		{[]string{"set-resource", "x", "1", "--node", "none"}, 3, []string{"none", "node-1"}},
		{[]string{"set-resource", "x", "1", "--all", "--cluster"}, 2, []string{"--all", "--cluster"}},
		{[]string{"set-resource", "x", "1", "--selector", "zone"}, 2, []string{"selector", "zone", "name=value"}},
		{[]string{"set-resource", "x", "1", "--all", "--lifetime", "fortnight"}, 2, []string{"lifetime", "fortnight", "task, session, reservation, job or policy"}},
		{[]string{"set-resource", "x", "1", "--all", "--lifetime", "task", "--owner", "nobody"}, 6, []string{"owner", "nobody"}},
	}
}

// badRest is invalid input of the other commands; one and two are tasks of one name.
func badRest(one, two string) []bad {
	return []bad{
		{[]string{"reserve", "r", "--bundle", "cpu"}, 2, []string{"bundle", "cpu"}},
		{[]string{"reserve", "r"}, 2, []string{"bundle", "--bundle cpu=1"}},
		{[]string{"reserve", "r", "--bundle", "cpu=1@none"}, 2, []string{"none", "node-1"}},
		{[]string{"reserve", "a/b", "--bundle", "cpu=1"}, 2, []string{"id", "a/b"}},
		{[]string{"unreserve", "none"}, 3, []string{"none"}},
		{[]string{"stop", "nobody"}, 3, []string{"nobody"}},
		{[]string{"wait", "twin"}, 125, []string{"twin", "ambiguous", one, two}},
		{[]string{"logs", "twinn"}, 3, []string{"twinn", one}},
		{[]string{"why", "nobody"}, 3, []string{"nobody"}},
		{[]string{"wait", one, "--until", "doomsday"}, 125, []string{"until", "doomsday", "ended"}},
		{[]string{"-n", "a/b", "ps"}, 2, []string{"namespace", "a/b"}},
		{[]string{"ps", "-o", "xml"}, 2, []string{"xml", "table, wide, json, yaml"}},
		{[]string{"lgos", one}, 2, []string{"lgos", "logs"}},
	}
}

// TestTwoOnOneDirectory starts a second cluster in the directory of a running one.
func TestTwoOnOneDirectory(t *testing.T) {
	c := newCluster(t)
	c.start()
	o := c.escher("dev")
	if o.code != 6 || !strings.Contains(o.err, c.dir) || !strings.Contains(o.err, itoa(c.cmd.Process.Pid)) || !strings.Contains(o.err, "choose another directory") {
		t.Errorf("%+v", o)
	}
	c.must("nodes") // the first one is unaffected
}

// TestNotRoot checks that escher dev fails at once for a user other than root, and names the remedy.
func TestNotRoot(t *testing.T) {
	dir := t.TempDir()
	for at := dir; at != os.TempDir(); at = filepath.Dir(at) {
		if err := os.Chmod(at, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	escher := filepath.Join(dir, "escher")
	if out, err := exec.Command("cp", built.escher, escher).CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	cmd := exec.Command(escher, "dev", "--dir", filepath.Join(dir, "cluster"))
	cmd.Env = append(os.Environ(), "HOME="+dir)
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: 65534, Gid: 65534}}
	out, err := cmd.CombinedOutput()
	if err == nil || !strings.Contains(string(out), "containers need root, and this is user 65534: use sudo") || strings.Count(string(out), "\n") != 1 {
		t.Errorf("%v: %s", err, out)
	}
}

// TestNobodyThere: without a server, the error names the endpoint within three seconds.
func TestNobodyThere(t *testing.T) {
	dir := t.TempDir()
	for _, x := range []struct {
		env  []string
		says string
	}{
		{[]string{"ESCHER_DIR=" + dir}, filepath.Join(dir, "etcd/run/etcd.sock")},
		{[]string{"ESCHER_ENDPOINTS=127.0.0.1:1"}, "127.0.0.1:1"},
		// A network that never answers.
		{[]string{"ESCHER_ENDPOINTS=unix://" + deaf(t)}, "deaf.sock"},
	} {
		begin := time.Now()
		o := command(t, x.env, "ps")
		if took := time.Since(begin); took > 3500*time.Millisecond {
			t.Errorf("%v: took %s", x.env, took)
		}
		if o.code != 7 || !strings.Contains(o.err, x.says) {
			t.Errorf("%v: %+v", x.env, o)
		}
	}
	if entries, err := os.ReadDir(dir); err != nil || len(entries) > 0 {
		t.Errorf("it has written %v, %v", entries, err)
	}
}
