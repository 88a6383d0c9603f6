package e2e

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/escher-sched/escher/controlplane"
)

// plant puts an unreadable value under keys, from outside of Escher.
func (c *cluster) plant(keys ...string) {
	c.t.Helper()
	for _, key := range keys {
		c.put(map[string][]byte{key: []byte("junk")})
	}
}

// junkKeys is a key of every kind, for a cluster of the nodes node-1 and node-2.
func junkKeys(name string) []string {
	ns := controlplane.Root
	return []string{
		ns + "nodes/" + name, ns + "devices/" + name, ns + "alive/" + name, ns + "cordons/" + name, ns + "namespaces/" + name,
		ns + "resources/default/" + name + "/node-1", ns + "resources/default/" + name + "-2/+", ns + "resources/default/" + name + "-3/*",
		ns + "sessions/default/" + name, ns + "specs/default/" + strings.Repeat("0", 64), ns + "tasks/default/" + name, ns + "jobs/default/" + name,
		ns + "reservations/default/" + name, ns + "policies/default/" + name, ns + "grants/default/" + name, ns + "allocated/" + name,
		ns + "allocated/*/default/" + name, ns + "bindings/node-1/default/" + name + "/1", ns + "reports/node-1/default/" + name + "/1",
		ns + "provided/default/" + name + "/node-1", ns + "status/default/" + name, ns + "status/default/" + name + "-alone",
		ns + "schedulers/" + name, ns + "leaders/" + name, ns + "system/" + name, ns + "tasks/default/..", ns + "what/" + name,
	}
}

// running returns the id of a running task.
func (c *cluster) running() string {
	c.t.Helper()
	for range 200 {
		for id, x := range c.tasks() {
			if x.Phase == "running" {
				return id
			}
		}
		after(50 * time.Millisecond)
	}
	c.t.Fatal("no task runs")
	return ""
}

// TestJunkUnderEveryKey plants an unreadable value under a key of every kind, while tasks run, and
// before the cluster restarts: everything works as before, Ctrl-C leaves nothing behind, and the
// audit lists and repairs each key.
func TestJunkUnderEveryKey(t *testing.T) {
	t.Parallel() // it mostly waits
	c := newCluster(t)
	c.ready("--nodes", "2")
	c.must("image", "make", image, built.program)
	for range 3 {
		c.must("run", "-d", "--name", "stays", image, "--", "/bin/program", "work", "1h")
	}
	spoiled := c.running()
	c.plant(append(junkKeys("junk"), "/escher/status/default/"+spoiled)...)
	work := func() {
		t.Helper()
		for _, args := range [][]string{
			{"ps", "-a"}, {"jobs"}, {"nodes"}, {"resources"}, {"reservations"}, {"state"}, {"gpus"}, {"events"}, {"policies"},
			{"run", image, "--", "/bin/program", "echo", "works"}, {"set-resource", "--node", "node-1", "x", "1"}, {"set-resource", "--cluster", "y", "1"},
			{"node", "cordon", "node-2"}, {"node", "uncordon", "node-2"},
		} {
			if o := c.escher(args...); o.code != 0 || strings.Contains(o.err, "should not happen") {
				t.Errorf("escher %s: exit code %d: %s", strings.Join(args, " "), o.code, o.err)
			}
		}
		if o := c.escher("stop", "junk"); o.code != 3 || !strings.Contains(o.err, "escher audit --repair /escher/tasks/default/junk") {
			t.Errorf("escher stop junk: exit code %d: %s", o.code, o.err)
		}
	}
	work()
	c.stop() // ends the tasks, and reports that nothing is left
	for range 60 {
		if len(leftovers(c.dir)) == 0 {
			break
		}
		after(50 * time.Millisecond)
	}
	if left := leftovers(c.dir); len(left) > 0 {
		t.Errorf("left: %q", left)
	}
	c.ready("--nodes", "2")
	c.plant(junkKeys("later")...)
	work()
	for _, key := range append(append(junkKeys("junk"), junkKeys("later")...), "/escher/status/default/"+spoiled) {
		if o := c.escher("audit", "--repair", key, "--yes", "--keep", filepath.Join(t.TempDir(), "value")); o.code != 0 && o.code != 3 {
			t.Errorf("escher audit --repair %s: exit code %d: %s", key, o.code, o.err)
		}
	}
	if o := c.escher("audit"); o.code != 0 {
		t.Errorf("escher audit: exit code %d: %s%s", o.code, o.out, o.err)
	}
	c.plant("/escher/system/cluster")
	value := filepath.Join(t.TempDir(), "value")
	if o := c.escher("audit", "--repair", "/escher/system/cluster", "--keep", value); o.code != 6 || !strings.Contains(o.err, "nothing was changed") {
		t.Errorf("without an answer: exit code %d: %s", o.code, o.err)
	}
	c.must("audit", "--repair", "/escher/system/cluster", "--keep", value, "-y")
	if text, err := os.ReadFile(value); err != nil || string(text) != "junk" {
		t.Errorf("%q is kept, %v", text, err)
	}
}
