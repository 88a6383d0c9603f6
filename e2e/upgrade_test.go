package e2e

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

// nextVersion is the version of the other binary of an upgrade.
const nextVersion = "v99.0.0-next"

// buildNext builds escher as nextVersion, and returns its path.
func buildNext(t *testing.T, dir string) string {
	t.Helper()
	source, err := filepath.Abs("../cmd/escher/internal/cli/cmdutil/buildinfo.go")
	if err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(source)
	if err != nil {
		t.Fatal(err)
	}
	const is = "func Version() string {\n"
	next := strings.Replace(string(text), is, is+"\tif true {\n\t\treturn \""+nextVersion+"\"\n\t}\n", 1)
	if next == string(text) {
		t.Fatalf("%s does not say the version as it did", source)
	}
	replaced, overlay, out := filepath.Join(dir, "buildinfo.go"), filepath.Join(dir, "overlay.json"), filepath.Join(dir, "next")
	mapping, err := json.Marshal(map[string]map[string]string{"Replace": {source: replaced}})
	if err != nil {
		t.Fatal(err)
	}
	for path, text := range map[string][]byte{replaced: []byte(next), overlay: mapping} {
		if err := os.WriteFile(path, text, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	cmd := exec.Command("go", "build", "-ldflags=-s -w", "-overlay", overlay, "-o", out, "../cmd/escher")
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
	if text, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("build the next version: %v\n%s", err, text)
	}
	return out
}

// install replaces a program, like a package manager: running processes keep their old program.
func install(t *testing.T, from, to string) {
	t.Helper()
	text, err := os.ReadFile(from)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(to+".new", text, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(to+".new", to); err != nil {
		t.Fatal(err)
	}
}

// startToken distinguishes a process from another one of the same number: its start time, in ticks
// since the boot.
func startToken(t *testing.T, pid int) string {
	t.Helper()
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return "gone"
	}
	// The name, in parentheses, may contain anything.
	fields := strings.Fields(string(stat[strings.LastIndexByte(string(stat), ')')+1:]))
	return fields[19]
}

// startTokens returns the start tokens of the processes of these commands, one of each. A new
// process is not the program yet for a moment.
func (m *machines) startTokens(node string, commands ...string) map[int]string {
	m.t.Helper()
	was := make(map[int]string)
	for try := 0; try < 100 && len(was) < len(commands); try++ {
		after(50 * time.Millisecond)
		for _, c := range commands {
			for _, pid := range m.processes(node, c) {
				was[pid] = startToken(m.t, pid)
			}
		}
	}
	if len(was) != len(commands) {
		m.t.Fatalf("%d processes run, want %d", len(was), len(commands))
	}
	return was
}

// TestUpgrade replaces the program of an agent under running tasks, with another version and back:
// in order, and with the agent killed. The processes continue, their output is there, and their
// ends are reported.
func TestUpgrade(t *testing.T) {
	t.Parallel() // it mostly waits
	m := newMachines(t)
	server := m.net.add()
	m.begin(server, "server", "--name", "server-1")
	next := buildNext(t, m.dir)
	m.program = filepath.Join(m.dir, "escher")
	install(t, built.escher, m.program)
	m.agent("a")
	end := m.follow()
	defer end()
	m.must("image", "make", image, built.program, built.escher)
	id := m.must("run", "-d", "--name", "ticks", image, "--", "program", "tick", "/done", "7")
	work := m.must("run", "-d", "--name", "work", image, "--", "program", "work", "1h")
	m.must("wait", "--until", "running", id, work)
	was := m.startTokens("a", "program tick", "program work")
	version := strings.Fields(m.must("version"))[1]
	if version == nextVersion {
		t.Fatalf("both are of version %s", version)
	}
	for i, step := range []struct {
		program, version string
		how              syscall.Signal
	}{{next, nextVersion, syscall.SIGTERM}, {built.escher, version, syscall.SIGKILL}} {
		install(t, step.program, m.program)
		m.end(m.agents["a"], step.how)
		m.agent("a")
		m.await("the node says its version", func() bool { return m.must("nodes", "-o", "jsonpath={.items[0].version}") == step.version })
		for pid, token := range was {
			if now := startToken(t, pid); now != token {
				t.Errorf("after upgrade %d process %d of %s is %s", i+1, pid, token, now)
			}
		}
		if x := m.task(work); x.Attempt != 1 || x.Phase != "running" {
			t.Errorf("after upgrade %d: %+v", i+1, x)
		}
		// Its socket belongs to the new agent.
		m.must("exec", work, "--", "escher", "set-resource", "upgrades", itoa(i+1))
		if step.version == nextVersion {
			m.seenByDoctor(version)
		}
	}
	if out := m.must("run", image, "--", "program", "echo", "new"); out != "new" {
		t.Errorf("what is new wrote %q", out)
	}
	m.escher("exec", id, "--", "/bin/program", "count", "/done", "0") // which ends with the task
	if o := m.escher("wait", "--timeout", "1m", id); o.code != 7 {
		t.Errorf("waited for with %+v", o)
	}
	if x := m.task(id); x.Attempt != 1 || x.ExitCode != 7 || x.Phase != "failed" {
		t.Errorf("its end was not reported: %+v", x)
	}
	lines := strings.Split(m.must("logs", id), "\n")
	for i, line := range lines {
		if line != fmt.Sprint(i+1) {
			t.Fatalf("line %d of what it wrote is %q: %q", i+1, line, lines)
		}
	}
	if len(lines) < 10 {
		t.Errorf("it wrote %q", lines)
	}
	m.must("stop", "--wait", "--grace", "1s", work)
	if left := m.processes("a", "program work"); len(left) != 0 {
		t.Errorf("left: %v", left)
	}
}

// seenByDoctor runs the doctor on the host of the agent, with the program of another version, and
// on an empty host.
func (m *machines) seenByDoctor(version string) {
	m.t.Helper()
	examine := func(node string) map[string]string {
		args := append([]string{built.escher, "node", "doctor", "-o", "json", "--node", node, "--containerd", filepath.Join(m.dir, "a", "containerd", "containerd.sock"),
			"--state-dir", filepath.Join(m.dir, node), "--tls-cert", m.certs.server, "--tls-key", m.certs.serverKey}, m.flags...)
		out, err := m.net.on(m.hosts["a"], args...).Output()
		var found []struct{ Check, Status, Message, Remedy string }
		if err := json.Unmarshal(out, &found); err != nil {
			m.t.Fatalf("the doctor said %s: %v", out, err)
		}
		seen, worst := make(map[string]string), ""
		for _, x := range found {
			seen[x.Check] += x.Status + ": " + x.Message + "\n"
			if x.Status == "problem" {
				worst = x.Status
			}
		}
		if (worst == "problem") != (err != nil) {
			m.t.Errorf("the doctor ended with %v, and said %s", err, out)
		}
		return seen
	}
	ofA := examine("a")
	for check, want := range map[string]string{
		// Certificates last an hour here.
		"etcd": "warning: the certificate of https://", "etcd credentials": "warning: the certificate shown to etcd expires", "servers": "ok: server-1 of cluster", "node": "ok: a is alive",
		"agent": "ok: process ", "watchdog": "ok: it runs", "containerd": "ok: version ", "runc": "ok: version ", "state dir": "ok: ", "images": "ok: ", "node api": "ok: it answers at ",
		"node certificate": "warning: the certificate of the node's API expires", "containers": "ok: ",
		"versions": "warning: the agent is of version " + nextVersion + ", and this program is " + version,
	} {
		if !strings.HasPrefix(ofA[check], want) {
			m.t.Errorf("the doctor said of %s: %q, want %q", check, ofA[check], want)
		}
	}
	seen := examine("b")
	if !strings.HasPrefix(seen["node api"], "problem: nothing can listen at :7421") || !strings.Contains(seen["containers"], "the agent of b leaves alone") {
		m.t.Errorf("of a second agent on the host of a the doctor said %q, %q", seen["node api"], seen["containers"])
	}
}
