package e2e

import (
	"bufio"
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/escher-sched/escher/controlplane/server/etcdtest"
)

// machines is a cluster of several hosts, in network namespaces of this one: an etcd with TLS at
// the bridge, two servers on a host, and agents on others, each with its own containerd.
type machines struct {
	t     *testing.T
	dir   string
	net   *network
	certs certificates
	flags []string
	// reach returns other flags for an agent, and its environment; nil means that it uses flags.
	reach func(node string) (flags, env []string)
	// program is the program on the hosts; empty means the built escher.
	program string
	// agents are the processes by node.
	agents map[string]*daemonProcess
	hosts  map[string]int
}

// sessionTTL is the time to live of the sessions on the hosts. The watchdog has a twentieth of it: on
// a busy machine a kill takes some of that.
const sessionTTL = 10 * time.Second

// patience is how long a condition may take to hold, on a busy machine.
const patience = 2 * time.Minute

// daemonProcess is a command that runs until it is stopped.
type daemonProcess struct {
	cmd    *exec.Cmd
	output *bytes.Buffer
	ended  chan struct{}
}

func newMachines(t *testing.T) *machines {
	t.Helper()
	dir, err := os.MkdirTemp("/tmp", "escm-")
	if err != nil {
		t.Fatal(err)
	}
	m := &machines{t: t, dir: dir, agents: make(map[string]*daemonProcess), hosts: make(map[string]int)}
	m.net = newNetwork(t)
	// The network is removed after the processes in it.
	t.Cleanup(m.remove)
	var all []string
	for i := range 10 {
		all = append(all, m.net.address(i))
	}
	m.certs = newCertificates(t, dir, all...)
	l, err := net.Listen("tcp", m.net.address(0)+":0")
	if err != nil {
		t.Fatal(err)
	}
	at := l.Addr().String()
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	etcdtest.Start(t, etcdtest.WithTLS(at, m.certs.server, m.certs.serverKey, m.certs.ca))
	m.flags = []string{"--endpoints", "https://" + at, "--cacert", m.certs.ca, "--cert", m.certs.client, "--key", m.certs.clientKey}
	return m
}

// begin starts a command on a host and returns when it is ready. It ends with the test.
func (m *machines) begin(host int, args ...string) *daemonProcess {
	m.t.Helper()
	return m.beginWith(host, nil, append(args, m.flags...)...)
}

// beginWith is begin, with an environment and without the flags for etcd.
func (m *machines) beginWith(host int, env []string, args ...string) *daemonProcess {
	m.t.Helper()
	p := &daemonProcess{cmd: m.net.on(host, append([]string{cmp.Or(m.program, built.escher)}, args...)...), output: new(bytes.Buffer), ended: make(chan struct{})}
	p.cmd.Env = append(os.Environ(), env...)
	out, err := p.cmd.StdoutPipe()
	if err != nil {
		m.t.Fatal(err)
	}
	p.cmd.Stderr = p.output
	if err := p.cmd.Start(); err != nil {
		m.t.Fatal(err)
	}
	ready := make(chan struct{})
	go func() {
		defer close(p.ended)
		for lines := bufio.NewScanner(out); lines.Scan(); {
			if strings.HasPrefix(lines.Text(), "ready") {
				close(ready)
			}
		}
		_ = p.cmd.Wait() // its state says how it ended
	}()
	m.t.Cleanup(func() {
		m.end(p, syscall.SIGTERM)
		if m.t.Failed() {
			lines := strings.Split(p.output.String(), "\n")
			m.t.Logf("the end of what %v said:\n%s", args[:min(3, len(args))], strings.Join(lines[max(0, len(lines)-40):], "\n"))
		}
	})
	select {
	case <-ready:
	case <-p.ended:
		m.t.Fatalf("%v ended: %v\n%s", args, p.cmd.ProcessState, p.output)
	case <-time.After(patience):
		m.t.Fatalf("%v is not ready", args)
	}
	return p
}

// end ends it, unless it has ended.
func (m *machines) end(p *daemonProcess, with syscall.Signal) {
	m.t.Helper()
	if p.cmd.ProcessState != nil {
		return
	}
	_ = p.cmd.Process.Signal(with) // it may just have ended
	select {
	case <-p.ended:
	case <-time.After(patience):
		m.t.Errorf("%v does not end", p.cmd.Args)
		_ = p.cmd.Process.Kill() // the last resort
		<-p.ended
	}
}

// agent starts the agent of a node, the first time on a new host.
func (m *machines) agent(node string) {
	m.t.Helper()
	m.agentWith(node)
}

// agentWith is agent with more flags.
func (m *machines) agentWith(node string, flags ...string) {
	m.t.Helper()
	if m.hosts[node] == 0 {
		m.hosts[node] = m.net.add()
	}
	reach, env := slices.Concat(m.flags, []string{"--tls-cert", m.certs.server, "--tls-key", m.certs.serverKey}), []string(nil)
	if m.reach != nil {
		reach, env = m.reach(node)
	}
	m.agents[node] = m.beginWith(m.hosts[node], env, slices.Concat([]string{"agent", "--node", node, "--containerd", "private", "--state-dir", filepath.Join(m.dir, node),
		"--capacity", "cpu=2,memory=1Gi", "--label", "host=" + node, "--ttl", sessionTTL.String()}, flags, reach)...)
}

// escher runs a command outside of all hosts.
func (m *machines) escher(args ...string) outcome {
	m.t.Helper()
	return command(m.t, nil, append(m.flags, args...)...)
}

func (m *machines) must(args ...string) string {
	m.t.Helper()
	o := m.escher(args...)
	if o.code != 0 {
		m.t.Fatalf("escher %s: exit code %d\n%s%s", strings.Join(args, " "), o.code, o.out, o.err)
	}
	return strings.TrimSuffix(o.out, "\n")
}

// task returns a task as ps prints it.
func (m *machines) task(id string) task {
	m.t.Helper()
	var list []task
	if err := json.Unmarshal([]byte(m.must("ps", "-a", "-o", "json")), &list); err != nil {
		m.t.Fatal(err)
	}
	for _, x := range list {
		if x.ID == id {
			return x
		}
	}
	m.t.Fatalf("there is no task %s in %v", id, list)
	return task{}
}

// await returns when a condition holds; it fails the test if it never does.
func (m *machines) await(what string, holds func() bool) {
	m.t.Helper()
	for begin := time.Now(); !holds(); after(200 * time.Millisecond) {
		if time.Since(begin) > patience {
			m.t.Fatalf("waited in vain for: %s\n%s", what, m.must("ps", "-a", "-o", "wide"))
		}
	}
}

// processes returns the processes on the hosts of a node with a text in their command line: the
// network namespace identifies the host of a process.
func (m *machines) processes(node, text string) []int {
	m.t.Helper()
	own, err := os.Stat("/run/netns/" + m.net.name(m.hosts[node]))
	if err != nil {
		m.t.Fatal(err)
	}
	var found []int
	for _, pid := range withCommand(text) {
		if there, err := os.Stat(fmt.Sprintf("/proc/%d/ns/net", pid)); err == nil && os.SameFile(own, there) {
			found = append(found, pid)
		}
	}
	return found
}

// withCommand returns the processes with a text in their command line.
func withCommand(text string) []int {
	var found []int
	files, _ := filepath.Glob("/proc/[0-9]*/cmdline")
	for _, file := range files {
		line, err := os.ReadFile(file)
		if err == nil && strings.Contains(strings.ReplaceAll(string(line), "\x00", " "), text) {
			pid, _ := strconv.Atoi(filepath.Base(filepath.Dir(file)))
			found = append(found, pid)
		}
	}
	return found
}

// remove ends the processes that agents leave on purpose, their containerd, and the remains of a
// failed test, and removes the directory.
func (m *machines) remove() {
	if m.t.Failed() {
		said, _ := filepath.Glob(filepath.Join(m.dir, "*/watchdog.log")) // the pattern is valid
		for _, path := range said {
			text, _ := os.ReadFile(path)
			m.t.Logf("%s:\n%s", path, text)
		}
	}
	sweep(m.t, m.dir)
}

// follow audits every revision; the returned function ends it.
func (m *machines) follow() (end func()) {
	m.t.Helper()
	findings := new(bytes.Buffer)
	audit := exec.Command(built.escher, append(m.flags, "audit", "-f")...)
	audit.Stdout, audit.Stderr = findings, findings
	if err := audit.Start(); err != nil {
		m.t.Fatal(err)
	}
	return func() {
		_ = audit.Process.Signal(syscall.SIGINT) // it may have ended with its findings
		if err := audit.Wait(); err != nil {
			m.t.Errorf("the audit at every revision: %v\n%s", err, findings)
		}
		m.t.Logf("%s", findings)
	}
}

// TestMachines is a day of three hosts: work is spread, tasks see one another across hosts, an
// agent is killed, and a cable is pulled.
func TestMachines(t *testing.T) {
	t.Parallel() // it mostly waits
	m := newMachines(t)
	host := m.net.add()
	first := m.begin(host, "server", "--name", "server-1")
	m.begin(host, "server", "--name", "server-2", "--ops", "127.0.0.1:7421")
	for _, node := range []string{"a", "b", "c"} {
		m.agent(node)
	}
	end := m.follow()
	defer end()
	m.must("image", "make", image, built.program, built.escher)

	work := strings.Fields(m.must("run", "-d", "--count", "3", "--name", "work", "--request", "cpu=1500m", image, "--", "program", "work", "1h"))
	m.must(append([]string{"wait", "--until", "running"}, work...)...)
	at := make(map[string]string)
	for _, id := range work {
		at[m.task(id).Node] = id
	}
	if len(at) != 3 {
		t.Fatalf("not spread: %v", at)
	}
	m.seesFromAfar(at)
	m.survivesItsAgent(at["a"])
	m.survivesACable(at["b"])
	m.end(first, syscall.SIGKILL)
	if out := m.must("run", image, "--", "program", "echo", "the other one"); out != "the other one" {
		t.Errorf("with one server left: %q", out)
	}
	for _, id := range work {
		m.must("stop", "--grace", "1s", id)
	}
	m.escher(append([]string{"wait", "--timeout", patience.String()}, work...)...)
	for node := range m.hosts {
		m.await("nothing runs on "+node, func() bool { return len(m.processes(node, "program work")) == 0 })
	}
}

// seesFromAfar lets a task on a set what one on b sees and follows, and checks both from outside.
func (m *machines) seesFromAfar(at map[string]string) {
	m.t.Helper()
	m.must("run", "--request", "node/a=1", image, "--", "escher", "set-resource", "found", "1")
	if out := m.must("run", "--request", "node/b=1", image, "--", "escher", "resources"); !strings.Contains(out, "found") {
		m.t.Errorf("b does not see what a set:\n%s", out)
	}
	id := m.must("run", "-d", "--name", "follower", "--request", "found=1", image, "--", "program", "echo", "here")
	m.must("wait", id)
	if node := m.task(id).Node; node != "a" {
		m.t.Errorf("what follows a resource of a ran on %s", node)
	}
	if out := m.must("logs", id); out != "here" {
		m.t.Errorf("its log from afar: %q", out)
	}
	for node, id := range at {
		if out := m.must("exec", id, "--", "/bin/program", "env", "ESCHER_NODE"); out != node {
			m.t.Errorf("exec on %s: %q", node, out)
		}
	}
}

// survivesItsAgent kills and restarts the agent of a.
func (m *machines) survivesItsAgent(id string) {
	m.t.Helper()
	before := m.processes("a", "program work")
	m.end(m.agents["a"], syscall.SIGKILL)
	m.agent("a")
	m.await("it answers", func() bool { return m.escher("exec", id, "--", "/bin/program", "echo", "back").out == "back\n" })
	if x := m.task(id); x.Attempt != 1 || x.Phase != "running" {
		m.t.Errorf("after its agent was killed: %+v", x)
	}
	if now := m.processes("a", "program work"); len(before) == 0 || fmt.Sprint(now) != fmt.Sprint(before) {
		m.t.Errorf("processes %v became %v", before, now)
	}
}

// survivesACable pulls the cable of b: its tasks run elsewhere, and no longer on b by then.
func (m *machines) survivesACable(id string) {
	m.t.Helper()
	// The capacity it needs is free on one of the others at once.
	m.must("stop", "--grace", "1s", m.must("run", "-d", "--request", "node/c=1", image, "--", "program", "work", "1h"))
	m.agent("d")
	m.must("image", "make", image, built.program, built.escher)
	m.net.plug(m.hosts["b"], false)
	m.await("a second attempt", func() bool {
		x := m.task(id)
		return x.Attempt == 2 && x.Phase == "running"
	})
	if left := m.processes("b", "program work"); len(left) > 0 {
		m.t.Errorf("cut off, b still runs %v while the second attempt does", left)
	}
	if x := m.task(id); x.Node != "d" {
		m.t.Errorf("the second attempt is on %s", x.Node)
	}
	m.net.plug(m.hosts["b"], true)
	m.await("b is back", func() bool {
		var nodes []struct{ Name, Status string }
		out := m.must("nodes", "-o", "json")
		if err := json.NewDecoder(strings.NewReader(out)).Decode(&nodes); err != nil && err != io.EOF {
			m.t.Fatal(err)
		}
		return m.escher("run", "--request", "node/b=1", image, "--", "program", "echo", "hello").out == "hello\n"
	})
}
