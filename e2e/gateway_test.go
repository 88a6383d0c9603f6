package e2e

import (
	"fmt"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// TestGateway runs agents that reach only the port of a server's API. Each joins by a token of its node and
// is known by its certificate from then on. Tasks run there, use the cluster by their sockets, and survive
// an agent that is killed.
func TestGateway(t *testing.T) {
	t.Parallel() // it mostly waits
	m := newMachines(t)
	host := m.net.add()
	address := m.net.address(host) + ":7443"
	pki := filepath.Join(m.dir, "pki")
	if o := command(t, nil, "admin", "certificate", "--host", m.net.address(host), "--out", pki); o.code != 0 {
		t.Fatal(o.err)
	}
	ca := filepath.Join(pki, "ca.pem")
	m.begin(host, "server", "--name", "server-1", "--data-dir", filepath.Join(m.dir, "server"),
		"--api", "https://"+address, "--api-cert", filepath.Join(pki, "server.pem"), "--api-key", filepath.Join(pki, "server.key"), "--api-ca", pki)
	m.reach = func(node string) (flags, env []string) {
		flags = []string{"--server", "https://" + address, "--cacert", ca}
		if m.agents[node] != nil {
			return flags, nil // it has joined, and shows its certificate
		}
		return flags, []string{"ESCHER_TOKEN=" + m.must("auth", "token", "create", "--for", "node:"+node, "--life", "10m")}
	}
	for _, node := range []string{"a", "b"} {
		m.agent(node)
	}
	end := m.follow()
	defer end()
	m.must("image", "make", image, built.program, built.escher)
	for _, node := range []string{"a", "b"} {
		// From here on etcd's host is unreachable.
		if out, err := m.net.on(m.hosts[node], "ip", "route", "add", "blackhole", m.net.address(0)+"/32").CombinedOutput(); err != nil {
			t.Fatalf("%v\n%s", err, out)
		}
	}

	work := strings.Fields(m.must("run", "-d", "--count", "2", "--name", "work", "--request", "cpu=1500m", image, "--", "program", "work", "1h"))
	m.must(append([]string{"wait", "--until", "running"}, work...)...)
	set := m.must("run", "-d", "--request", "node/a=1", image, "--", "escher", "set-resource", "found", "1")
	m.must("wait", set)
	if out := m.must("resources"); !strings.Contains(out, "found") {
		t.Errorf("a task has set nothing:\n%s", out)
	}
	at := make(map[string]string)
	for _, id := range work {
		at[m.task(id).Node] = id
	}
	before := m.processes("a", "program work")
	m.end(m.agents["a"], syscall.SIGKILL)
	m.agent("a")
	if x, now := m.task(at["a"]), m.processes("a", "program work"); x.Attempt != 1 || x.Phase != "running" || len(before) == 0 || fmt.Sprint(now) != fmt.Sprint(before) {
		t.Errorf("after its agent was killed: %+v, and processes %v became %v", x, before, now)
	}
	for _, id := range work {
		m.must("stop", "--grace", "1s", id)
	}
	m.escher(append([]string{"wait", "--timeout", patience.String()}, work...)...)
	for node := range m.hosts {
		m.await("nothing runs on "+node, func() bool { return len(m.processes(node, "program work")) == 0 })
	}
}
