package e2e

import (
	"encoding/json"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// TestIsolation lets tasks with root's uid, on the network of their host, look for foreign
// resources.
func TestIsolation(t *testing.T) {
	c := started(t)
	neighbour := c.must("run", "-d", "--name", "neighbour", image, "--", "program", "work", "1h")
	c.must("wait", "--until", "running", neighbour)
	reachesNoSocket(t, c)
	stopsAForkBomb(t, c)
	limitsByDefault(t, c)

	// A task without the node's permission waits, and says for what.
	wanted := c.must("run", "-d", "--name", "wanted", "--privileged", image, "--", "program", "echo", "did it")
	if out := c.must("why", wanted); !strings.Contains(out, "--allow-privileged") {
		t.Errorf("why a privileged task waits:\n%s", out)
	}
	if o := c.escher("run", "--pids-limit", "100000", image, "--", "program", "echo", "many"); o.code == 0 || !strings.Contains(o.err, "--max-pids 100000") {
		t.Errorf("more processes than the node gives: %+v", o)
	}
	c.must("stop", "--wait", "--grace", "100ms", neighbour)
	c.stop()
	c.start("--allow-privileged")
	c.must("wait", wanted)
	if out := c.must("logs", wanted); out != "did it" {
		t.Errorf("permitted, it says %q", out)
	}
	c.must("audit")
}

// reachesNoSocket attacks every socket of this machine with a path: those of etcd, of containerd
// and its shims, of the node, and of its neighbors.
func reachesNoSocket(t *testing.T, c *cluster) {
	t.Helper()
	var own []string
	all := sockets(t)
	for _, path := range all {
		if strings.HasPrefix(path, c.dir) {
			own = append(own, path)
		}
	}
	// The attack is sound: it knows the sockets, and outside it succeeds.
	for _, name := range []string{"etcd.sock", "containerd.sock", "api.sock", "task.sock"} {
		at := slices.IndexFunc(own, func(path string) bool { return filepath.Base(path) == name })
		if at < 0 {
			t.Fatalf("of %s none is known: %q", name, own)
		}
		conn, err := net.Dial("unix", own[at])
		if err != nil {
			t.Fatal(err)
		}
		_ = conn.Close()
	}
	o := c.escher(append([]string{"run", image, "--", "program", "attack"}, all...)...)
	if o.code != 0 || !strings.Contains(o.out, "attacked: 0 reached") {
		t.Errorf("%+v", o)
	}
	for line := range strings.Lines(o.out) {
		if strings.HasPrefix(line, "abstract") && (strings.Contains(line, c.dir) || strings.Contains(line, "containerd") || strings.Contains(line, "escher")) {
			t.Errorf("a socket has no path, and can be reached from the host's network: %s", line)
		}
	}
}

// sockets returns the paths of all listening Unix sockets of this machine that exist.
func sockets(t *testing.T) []string {
	t.Helper()
	table, err := os.ReadFile("/proc/net/unix")
	if err != nil {
		t.Fatal(err)
	}
	var paths []string
	for line := range strings.Lines(string(table)) {
		fields := strings.Fields(line)
		if len(fields) != 8 || !filepath.IsAbs(fields[7]) {
			continue
		}
		if _, err := os.Stat(fields[7]); err == nil {
			paths = append(paths, fields[7])
		}
	}
	slices.Sort(paths)
	return slices.Compact(paths)
}

// stopsAForkBomb starts one; other tasks work as before.
func stopsAForkBomb(t *testing.T, c *cluster) {
	t.Helper()
	bomb := c.must("run", "-d", "--name", "bomb", "--pids-limit", "64", image, "--", "program", "fork", "2000")
	if !eventually(func() bool { return strings.Contains(c.escher("logs", bomb).out, "made") }) {
		t.Fatalf("the bomb does not go off: %q", c.must("logs", bomb))
	}
	if out := c.must("logs", bomb); strings.Contains(out, "made 2000") {
		t.Errorf("the bomb %s", out)
	}
	if out := c.must("run", image, "--", "program", "echo", "still here"); out != "still here" {
		t.Errorf("beside a fork bomb: %q", out)
	}
	c.must("stop", "--wait", "--grace", "100ms", bomb)
}

// TestIsolationInACluster lets a task call the services of the cluster, over the network, and
// places tasks with rights where they are permitted.
func TestIsolationInACluster(t *testing.T) {
	t.Parallel() // it mostly waits
	m := newMachines(t)
	m.begin(m.net.add(), "server", "--name", "server-1")
	m.agent("a")
	m.must("image", "make", image, built.program)
	wanted := m.must("run", "-d", "--name", "wanted", "--cap-add", "net_admin", "--request", "image=1", image, "--", "program", "work", "1h")
	if out := m.must("why", wanted); !strings.Contains(out, "--allow-cap NET_ADMIN") {
		t.Errorf("why it waits:\n%s", out)
	}

	etcd := m.flags[1]
	api := "https://" + m.net.address(m.hosts["a"]) + ":7421"
	local := "https://127.0.0.1:7421"
	out := m.must("run", image, "--", "program", "ask", etcd+"/health", api+"/v1/images", api+"/v1/usage", local+"/v1/images", local+"/healthz")
	for url, want := range map[string]string{
		etcd + "/health": "a certificate is required", api + "/v1/images": "401", api + "/v1/usage": "401",
		local + "/v1/images": "401", local + "/healthz": "200",
	} {
		if !strings.Contains(out+"\n", url+": "+want+"\n") {
			t.Errorf("%s does not say %s:\n%s", url, want, out)
		}
	}

	m.agentWith("b", "--allow-cap", "NET_ADMIN")
	m.must("image", "make", image, built.program)
	m.must("set-resource", "image", "1", "--all") // not before it exists
	m.must("wait", "--until", "running", wanted)
	if x := m.task(wanted); x.Node != "b" {
		t.Errorf("it runs on %s, and b alone permits what it asks for", x.Node)
	}
	m.must("stop", "--wait", "--grace", "100ms", wanted)
	m.must("audit")
}

// limitsByDefault gives a task without requests the default memory and process limits of its
// namespace.
func limitsByDefault(t *testing.T, c *cluster) {
	t.Helper()
	c.must("namespace", "create", "lab", "--default", "cpu=100m,memory=96Mi", "--default-pids", "64")
	bomb := c.must("-n", "lab", "run", "-d", "--name", "bomb", image, "--", "program", "fork", "2000")
	made, of := 0, 0
	if !eventually(func() bool {
		n, _ := fmt.Sscanf(c.escher("-n", "lab", "logs", bomb).out, "made %d of %d", &made, &of)
		return n == 2
	}) || made >= 64 || of != 2000 {
		t.Errorf("with 64 processes by default it makes %d of %d: %q", made, of, c.must("-n", "lab", "logs", bomb))
	}
	var all []used
	if !eventually(func() bool {
		all = nil
		err := json.Unmarshal([]byte(c.must("-n", "lab", "top", "tasks", "-o", "json")), &all)
		return err == nil && len(all) == 1 && all[0].Usage.MemoryLimitBytes != 0
	}) || all[0].Usage.MemoryLimitBytes != 96<<20 {
		t.Errorf("with 96Mi of memory by default top says %+v", all)
	}
	c.must("-n", "lab", "stop", "--wait", "--grace", "100ms", bomb)
}
