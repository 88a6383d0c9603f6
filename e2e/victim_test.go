package e2e

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/containerd/containerd/v2/client"

	"github.com/escher-sched/escher/controlplane/server/etcdtest"
)

// victim is a cluster of one node, each of whose processes can be killed alone: an etcd and a
// server that last, an agent, its containerd, and the shims of that.
type victim struct {
	t   *testing.T
	dir string
	// data is a directory that tasks may mount.
	data  string
	flags []string
	// options are flags of the agent.
	options []string
	// agent is nil while there is none.
	agent *exec.Cmd
	ended chan struct{}
	ready chan struct{}
	log   *os.File
}

// newVictim starts all of it. At the end of the test nothing of it is left.
func newVictim(t *testing.T, options ...string) *victim {
	t.Helper()
	dir, err := os.MkdirTemp("/tmp", "escv-")
	if err != nil {
		t.Fatal(err)
	}
	v := &victim{t: t, dir: dir, data: filepath.Join(dir, "data"), options: options}
	t.Cleanup(func() { sweep(t, dir) })
	if err := os.Mkdir(v.data, 0o700); err != nil {
		t.Fatal(err)
	}
	if v.log, err = os.Create(filepath.Join(dir, "agent.log")); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { v.log.Close() })
	v.flags = []string{"--endpoints", etcdtest.Start(t).Endpoint}
	server := exec.Command(built.escher, append([]string{"server", "--ops", "127.0.0.1:0"}, v.flags...)...)
	if err := server.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = server.Process.Kill() // nothing of it is kept
		_ = server.Wait()
	})
	v.start()
	v.must("image", "make", image, built.program, built.escher)
	return v
}

// launch starts the agent, and does not wait for it.
func (v *victim) launch() {
	v.t.Helper()
	args := append([]string{"agent", "--node", "n1", "--containerd", "private", "--state-dir", filepath.Join(v.dir, "n1"), "--listen", "127.0.0.1:0",
		"--capacity", "cpu=64,memory=64Gi", "--ttl", "1m", "--allow-mount", v.data}, v.options...)
	v.agent = exec.Command(built.escher, append(args, v.flags...)...)
	v.agent.Stderr = v.log
	out, err := v.agent.StdoutPipe()
	if err == nil {
		err = v.agent.Start()
	}
	if err != nil {
		v.t.Fatal(err)
	}
	agent, ready, ended := v.agent, make(chan struct{}), make(chan struct{})
	v.ready, v.ended = ready, ended
	go func() {
		defer close(ended)
		if n, _ := out.Read(make([]byte, 1)); n > 0 { // it prints nothing before it is ready
			close(ready)
		}
		_ = agent.Wait() // it is usually killed
	}()
}

// start starts the agent and returns when it is ready.
func (v *victim) start() {
	v.t.Helper()
	v.launch()
	select {
	case <-v.ready:
	case <-v.ended:
		v.t.Fatalf("the agent ended\n%s", v.said())
	case <-time.After(time.Minute):
		v.t.Fatalf("the agent is not ready\n%s", v.said())
	}
}

// said is the end of the agents' output.
func (v *victim) said() string {
	text, _ := os.ReadFile(v.log.Name())
	lines := strings.Split(string(text), "\n")
	return strings.Join(lines[max(0, len(lines)-80):], "\n")
}

// about is the output of agents and containerd about a text.
func (v *victim) about(text string) string {
	var found strings.Builder
	for _, path := range []string{v.log.Name(), filepath.Join(v.dir, "n1/containerd/containerd.log")} {
		all, _ := os.ReadFile(path)
		for line := range strings.Lines(string(all)) {
			if strings.Contains(line, text) {
				found.WriteString(line)
			}
		}
	}
	return found.String()
}

// killAgent kills the agent, if there is one.
func (v *victim) killAgent() {
	if v.agent == nil {
		return
	}
	_ = v.agent.Process.Kill() // it may just have ended
	<-v.ended
	v.agent = nil
}

// address is the socket of its containerd.
func (v *victim) address() string { return filepath.Join(v.dir, "n1/containerd/containerd.sock") }

// killDaemon kills its containerd, if one runs.
func (v *victim) killDaemon() {
	for _, pid := range withCommand("--config " + filepath.Join(v.dir, "n1/containerd/containerd.toml")) {
		_ = syscall.Kill(pid, syscall.SIGKILL)
	}
}

// shims returns the processes of shims by container.
func (v *victim) shims() map[string]int {
	found := make(map[string]int)
	for _, pid := range withCommand("-address " + v.address()) {
		text, _ := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid))
		args := strings.Split(string(text), "\x00")
		for i, arg := range args[:max(0, len(args)-1)] {
			if arg == "-id" {
				found[args[i+1]] = pid
			}
		}
	}
	return found
}

// taskOf returns the task of a container, which is named task-attempt-hash.
func taskOf(container string) string {
	parts := strings.Split(container, "-")
	return strings.Join(parts[:max(0, len(parts)-2)], "-")
}

// containerd returns a client, and the namespace of the node's containers.
func (v *victim) containerd() (*client.Client, string) {
	v.t.Helper()
	c, err := client.New(v.address())
	if err != nil {
		v.t.Fatal(err)
	}
	v.t.Cleanup(func() { _ = c.Close() })
	var own string
	if !eventually(func() bool {
		all, err := c.NamespaceService().List(context.Background())
		for _, name := range all {
			if strings.HasPrefix(name, "escher-") {
				own = name
			}
		}
		return err == nil && own != ""
	}) {
		v.t.Fatal("containerd has no namespace of the node")
	}
	return c, own
}

func (v *victim) escher(args ...string) outcome {
	v.t.Helper()
	return command(v.t, nil, append(v.flags, args...)...)
}

func (v *victim) must(args ...string) string {
	v.t.Helper()
	o := v.escher(args...)
	if o.code != 0 {
		v.t.Fatalf("escher %s: exit code %d\n%s%s\n%s", strings.Join(args, " "), o.code, o.out, o.err, v.said())
	}
	return strings.TrimSuffix(o.out, "\n")
}

// tasks returns all tasks by id.
func (v *victim) tasks() map[string]task {
	v.t.Helper()
	var list []task
	if err := json.Unmarshal([]byte(v.must("ps", "-a", "-o", "json")), &list); err != nil {
		v.t.Fatal(err)
	}
	all := make(map[string]task)
	for _, x := range list {
		all[x.ID] = x
	}
	return all
}

// audited audits every revision; the returned function ends it.
func (v *victim) audited() (end func()) {
	v.t.Helper()
	findings := new(bytes.Buffer)
	audit := exec.Command(built.escher, append([]string{"audit", "-f"}, v.flags...)...)
	audit.Stdout, audit.Stderr = findings, findings
	if err := audit.Start(); err != nil {
		v.t.Fatal(err)
	}
	return func() {
		err := errors.Join(audit.Process.Signal(syscall.SIGINT), audit.Wait())
		if err != nil {
			v.t.Errorf("the audit at every revision: %v\n%s", err, findings)
		}
	}
}
