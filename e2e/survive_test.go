package e2e

import (
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/escher-sched/escher/controlplane"
	"github.com/escher-sched/escher/controlplane/etcdstore"
)

// put writes values like a program other than Escher.
func (c *cluster) put(values map[string][]byte) {
	c.t.Helper()
	store, err := etcdstore.Open(etcdstore.Config{Endpoints: []string{"unix://" + filepath.Join(c.dir, "etcd/run/etcd.sock")}})
	if err != nil {
		c.t.Fatal(err)
	}
	defer func() {
		if err := store.Close(); err != nil {
			c.t.Error(err)
		}
	}()
	var txn controlplane.Txn
	for key, value := range values {
		txn.Ops = append(txn.Ops, controlplane.Op{Key: key, Value: value})
	}
	if _, err := store.Commit(c.t.Context(), txn); err != nil {
		c.t.Fatal(err)
	}
}

// ready starts escher dev without an audit.
func (c *cluster) ready(args ...string) {
	c.t.Helper()
	select {
	case <-c.launch(args...):
	case err := <-c.ended:
		c.t.Fatalf("escher dev did not start: %v\n%s", err, c.stderr)
	case <-time.After(2 * time.Minute):
		c.t.Fatalf("escher dev does not start\n%s", c.stderr)
	}
}

// TestLargestAmounts: nine tasks hold the largest amount that can be requested of an infinite
// resource. The sum is right, and 0 when they have ended.
func TestLargestAmounts(t *testing.T) {
	t.Parallel() // it mostly waits
	c := started(t)
	if o := c.escher("run", "--request", "x=1152921504606846", image); o.code != 125 || !strings.Contains(o.err, "too large: the largest is 9007199254740.992") {
		t.Errorf("exit code %d: %s", o.code, o.err)
	}
	c.must("set-resource", "--cluster", "x", "inf")
	c.must("set-resource", "--all", "y", "inf")
	var ids []string
	for range 9 {
		ids = append(ids, c.must("run", "-d", "--name", "large", "--request", "x=9007199254740.992", "--request", "y=9007199254740.992", image, "--", "/bin/program", "work", "1h"))
	}
	c.must(append([]string{"wait", "--until", "running"}, ids...)...)
	c.must("audit")
	for _, id := range ids {
		c.must("stop", "--grace", "1s", id)
	}
	c.escher(append([]string{"wait"}, ids...)...)
	c.must("audit")
	if out := c.must("state", "-o", "json"); strings.Contains(out, `"allocated": "9`) || strings.Contains(out, `"allocated": "8`) {
		t.Errorf("something is in use: %s", out)
	}
}

// TestFrozen freezes an agent, a server and a containerd for half of a session's lifetime, and for
// twice as long, and resumes them. Every allowed task runs, nothing runs twice, and every invariant
// holds at every revision. ESCHER_E2E_FROZEN=100s freezes them that long once more.
func TestFrozen(t *testing.T) {
	t.Parallel() // it mostly waits
	m := newMachines(t)
	host := m.net.add()
	servers := []*daemonProcess{m.begin(host, "server", "--name", "server-1"), m.begin(host, "server", "--name", "server-2", "--ops", "127.0.0.1:7421")}
	for _, node := range []string{"a", "b", "c"} {
		m.agent(node)
	}
	end := m.follow()
	defer end()
	m.must("image", "make", image, built.program, built.escher)
	work := strings.Fields(m.must("run", "-d", "--count", "3", "--name", "work", "--request", "cpu=500m", image, "--", "program", "work", "1h"))
	m.must(append([]string{"wait", "--until", "running"}, work...)...)
	long := []time.Duration{sessionTTL / 2, 2 * sessionTTL}
	if text := os.Getenv("ESCHER_E2E_FROZEN"); text != "" {
		d, err := time.ParseDuration(text)
		if err != nil {
			t.Fatal(err)
		}
		long = append(long, d)
	}
	for _, d := range long {
		frozen := []int{m.agents["a"].cmd.Process.Pid, servers[0].cmd.Process.Pid}
		frozen = append(frozen, withCommand("--config "+filepath.Join(m.dir, "b"))...)
		for _, pid := range frozen {
			if err := syscall.Kill(pid, syscall.SIGSTOP); err != nil {
				t.Fatal(err)
			}
		}
		after(d)
		for _, pid := range frozen {
			if err := syscall.Kill(pid, syscall.SIGCONT); err != nil {
				t.Fatal(err)
			}
		}
		m.await("all nodes are alive", func() bool {
			return strings.Count(m.must("nodes"), " alive ") == 3
		})
		m.await("all tasks run", func() bool {
			for _, id := range work {
				if m.task(id).Phase != "running" {
					return false
				}
			}
			return true
		})
		if out := m.must("run", image, "--", "program", "echo", "after "+d.String()); out != "after "+d.String() {
			t.Errorf("after %s: %q", d, out)
		}
	}
	m.neverTwice(5)
}
