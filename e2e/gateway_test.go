package e2e

import (
	"bufio"
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
)

// TestGateway runs agents that reach only the port of a server's API, one of each server, and open none. Each
// joins by a token of its node and is known by its certificate from then on. Tasks run there, use the cluster
// by their sockets, and survive an agent that is killed. Users reach them by any server.
func TestGateway(t *testing.T) {
	t.Parallel() // it mostly waits
	m := newMachines(t)
	servers, ca := m.served("a", "b")
	for _, node := range []string{"a", "b"} {
		m.agent(node)
	}
	end := m.follow()
	defer end()
	admin := m.must("auth", "token", "create", "--for", "user:admin")
	m.must("auth", "grant", "admins", "--to", "user:admin", "--role", "administrator", "--everywhere")
	by := func(server string, args ...string) *exec.Cmd {
		cmd := exec.CommandContext(t.Context(), built.escher, slices.Concat([]string{"--server", servers[server], "--cacert", ca}, args)...)
		cmd.Env = append(os.Environ(), "ESCHER_TOKEN="+admin)
		return cmd
	}
	if out, err := by("a", "image", "make", image, built.program, built.escher).CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
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
	gang := m.must("run", "-d", "--request", "node/a=1", image, "--", "escher", "run", "-d", "--gang", "2", "--name", "pair", "--cpu", "10m", "--", "program", "work", "1ms")
	m.must("wait", gang)
	if out := m.must("jobs"); !strings.Contains(out, "pair") {
		t.Errorf("a task has launched no gang:\n%s", out)
	}
	at := make(map[string]string)
	for _, id := range work {
		at[m.task(id).Node] = id
	}
	for _, node := range []string{"a", "b"} {
		if open := listensAt(t, m.agents[node].cmd.Process.Pid); len(open) > 0 {
			t.Errorf("the agent of %s listens: %q", node, open)
		}
	}
	m.entered(by)
	m.fetched(by)
	if o := m.escher("logs", at["a"]); o.code == 0 || !strings.Contains(o.err, "opens no port, and only servers reach it: go by the API of a server with --server") {
		t.Errorf("logs without a server: %+v", o)
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

// served starts a server for each of some nodes, whose agents reach it alone. It returns their addresses, and
// the file of their authority.
func (m *machines) served(nodes ...string) (servers map[string]string, ca string) {
	m.t.Helper()
	pki := filepath.Join(m.dir, "pki")
	ca = filepath.Join(pki, "ca.pem")
	servers = make(map[string]string)
	for _, node := range nodes {
		host := m.net.add()
		servers[node] = "https://" + m.net.address(host) + ":7443"
		if o := command(m.t, nil, "admin", "certificate", "--host", m.net.address(host), "--out", pki); o.code != 0 {
			m.t.Fatal(o.err)
		}
		cert, key := filepath.Join(pki, node+".pem"), filepath.Join(pki, node+".key")
		if err := errors.Join(os.Rename(filepath.Join(pki, "server.pem"), cert), os.Rename(filepath.Join(pki, "server.key"), key)); err != nil {
			m.t.Fatal(err)
		}
		m.begin(host, "server", "--name", "server-"+node, "--data-dir", filepath.Join(m.dir, "server-"+node),
			"--api", servers[node], "--api-cert", cert, "--api-key", key, "--api-ca", pki)
	}
	m.reach = func(node string) (flags, env []string) {
		flags = []string{"--server", cmp.Or(servers[node], servers[nodes[0]]), "--cacert", ca}
		if m.agents[node] != nil {
			return flags, nil // it has joined, and shows its certificate
		}
		return flags, []string{"ESCHER_TOKEN=" + m.must("auth", "token", "create", "--for", "node:"+node, "--life", "10m")}
	}
	return servers, ca
}

// listensAt returns the TCP sockets at which a process listens, as the kernel shows them.
func listensAt(t *testing.T, pid int) []string {
	t.Helper()
	own := make(map[string]bool)
	links, _ := filepath.Glob(fmt.Sprintf("/proc/%d/fd/*", pid)) // the pattern is valid
	for _, link := range links {
		if to, err := os.Readlink(link); err == nil {
			own[to] = true
		}
	}
	if len(own) == 0 {
		t.Fatalf("process %d has no files", pid)
	}
	var found []string
	for _, kind := range []string{"tcp", "tcp6"} {
		text, err := os.ReadFile(fmt.Sprintf("/proc/%d/net/%s", pid, kind))
		if err != nil {
			t.Fatal(err)
		}
		for line := range strings.Lines(string(text)) {
			const state, inode, listens = 3, 9, "0A"
			if f := strings.Fields(line); f[state] == listens && own["socket:["+f[inode]+"]"] {
				found = append(found, line)
			}
		}
	}
	return found
}

// entered uses a task on each node by the server of the other one, which has no connection to its agent.
func (m *machines) entered(by func(server string, args ...string) *exec.Cmd) {
	m.t.Helper()
	for node, server := range map[string]string{"a": "b", "b": "a"} {
		id := m.must("run", "-d", "-p", "http", "--request", "node/"+node+"=1", image, "--", "program", "serve")
		m.must("wait", "--until", "running", id)
		must := func(args ...string) string {
			m.t.Helper()
			out, err := by(server, args...).Output()
			if err != nil {
				text := ""
				if exit, ok := errors.AsType[*exec.ExitError](err); ok {
					text = string(exit.Stderr)
				}
				m.t.Fatalf("escher %q: %v\n%s%s", args, err, out, text)
			}
			return string(out)
		}
		follow := by(server, "logs", "-f", id)
		var errs bytes.Buffer
		follow.Stderr = &errs
		out, err := follow.StdoutPipe()
		if err == nil {
			err = follow.Start()
		}
		if err != nil {
			m.t.Fatal(err)
		}
		lines := bufio.NewReader(out)
		if line, err := lines.ReadString('\n'); !strings.HasPrefix(line, "127.0.0.1:") {
			m.t.Errorf("its output is %q, %v", line, err)
		}
		if got := must("exec", id, "--", "/bin/program", "env", "ESCHER_NODE"); got != node+"\n" {
			m.t.Errorf("exec on %s: %q", node, got)
		}
		data := bytes.Repeat([]byte("0123456789abcde\n"), 200_000) // some windows of a stream
		file := filepath.Join(m.dir, "data-"+node)
		if err := os.WriteFile(file, data, 0o600); err != nil {
			m.t.Fatal(err)
		}
		must("cp", file, id+":/data")
		must("cp", id+":/data", file+"-back")
		if back, err := os.ReadFile(file + "-back"); err != nil || !bytes.Equal(back, data) {
			m.t.Errorf("cp on %s: %d bytes, %v", node, len(back), err)
		}
		m.forwarded(by(server, "port-forward", id, "http"), id)
		m.must("stop", "--grace", "1s", id)
		if err := follow.Wait(); !strings.Contains(errs.String(), "cancelled with exit code 0") {
			m.t.Errorf("logs -f on %s ends with %v: %s", node, err, &errs)
		}
	}
}

// forwarded asks a task through a port that a command forwards, and ends the command.
func (m *machines) forwarded(cmd *exec.Cmd, id string) {
	m.t.Helper()
	out, err := cmd.StdoutPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		m.t.Fatal(err)
	}
	line, _ := bufio.NewReader(out).ReadString('\n') // what is missing shows below
	local, _, _ := strings.Cut(line, " -> "+id)
	res, err := http.Get("http://" + local + "/healthz")
	if err != nil {
		m.t.Fatalf("through %q: %v", line, err)
	}
	if res.Body.Close(); res.StatusCode != http.StatusOK {
		m.t.Errorf("status %d", res.StatusCode)
	}
	if err := errors.Join(cmd.Process.Kill(), ignoreExit(cmd.Wait())); err != nil {
		m.t.Error(err)
	}
}

// fetched runs a task with a directory on a node that joins later, and gets the directory by a server from a
// node that has it.
func (m *machines) fetched(by func(server string, args ...string) *exec.Cmd) {
	m.t.Helper()
	must := func(args ...string) string {
		m.t.Helper()
		var errs bytes.Buffer
		cmd := by("b", args...)
		cmd.Stderr = &errs
		out, err := cmd.Output()
		if err != nil {
			m.t.Fatalf("escher %q: %v\n%s%s", args, err, out, &errs)
		}
		return strings.TrimSuffix(string(out), "\n")
	}
	dir := m.t.TempDir()
	writeTo(m.t, filepath.Join(dir, "main"), "sent\n")
	later := must("run", "-d", "--workdir", dir+":/code", "--request", "node/c=1", "--request", "go=1", image, "--", "program", "cat", "main")
	m.agent("c")
	must("image", "make", "--node", "c", image, built.program)
	must("set-resource", "go", "1", "--node", "c")
	must("wait", later)
	if out := must("logs", later); out != "sent" {
		m.t.Errorf("with a directory of another node: %q", out)
	}
	if out := must("events", later); !strings.Contains(out, "from another node, in ") {
		m.t.Errorf("its events do not tell where its directory came from:\n%s", out)
	}
}
