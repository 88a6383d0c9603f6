package e2e

import (
	"bufio"
	"bytes"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
	"golang.org/x/sys/unix"

	nodeimage "github.com/escher-sched/escher/nodeagent/runtime/image"
)

// entry is an image of program with an entry point.
const entry = "escher.local/entry:latest"

// TestContainers sets up containers in all ways of docs/containers.md, and looks inside.
func TestContainers(t *testing.T) {
	t.Parallel() // it mostly waits
	c := started(t)
	c.must("image", "make", "--entrypoint", entry, built.program)
	t.Run("Entrypoint", func(*testing.T) { c.entrypoints() })
	t.Run("Memory", func(*testing.T) { c.memory() })
	t.Run("Healthcheck", func(*testing.T) { c.healthcheck() })
	t.Run("Forward", func(*testing.T) { c.forward() })
	t.Run("Kill", func(*testing.T) { c.signals() })
	t.Run("Pull", func(*testing.T) { c.unpullable() })
}

// unpullable asks for the output of a task whose image no registry has: the answer is why.
func (c *cluster) unpullable() {
	const nowhere = "127.0.0.1:1/none:1"
	id := c.must("run", "-d", nowhere)
	var o outcome
	if !eventually(func() bool {
		o = c.escher("logs", id)
		return o.code != 0 && strings.Contains(o.err, "its phase is bound: pull image "+nowhere)
	}) {
		c.t.Errorf("logs say %s", o.err)
	}
	c.must("rm", "--force", id)
}

// signals sends signals to a task, the last of which ends it.
func (c *cluster) signals() {
	id := c.must("run", "-d", image, "--", "program", "heed", "USR1")
	c.must("wait", "--until", "running", id)
	if !eventually(func() bool { return c.escher("logs", id).out != "" }) {
		c.t.Fatal("it does not begin")
	}
	before := c.must("logs", id)
	c.must("kill", "-s", "USR1", id)
	if !eventually(func() bool { return c.must("logs", id) != before }) {
		c.t.Errorf("it does not notice the signal: %q", before)
	}
	c.must("kill", id)
	if o := c.escher("wait", id); o.code != 137 {
		c.t.Errorf("it was killed: exit code %d, %s", o.code, o.err)
	}
}

// forward asks a task at a port of its name, through its node, until the task ends.
func (c *cluster) forward() {
	id := c.must("run", "-d", "-p", "http", image, "--", "program", "serve")
	c.must("wait", "--until", "running", id)
	if !eventually(func() bool { return strings.Contains(c.escher("logs", id).out, "127.0.0.1:") }) {
		c.t.Fatal("it does not listen")
	}
	// The task itself has the port of that number.
	cmd := exec.Command(built.escher, "port-forward", id, "http")
	cmd.Env = append(os.Environ(), "ESCHER_DIR="+c.dir)
	var errs bytes.Buffer
	cmd.Stderr = &errs
	out, err := cmd.StdoutPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		c.t.Fatal(err)
	}
	line, _ := bufio.NewReader(out).ReadString('\n')
	local, _, _ := strings.Cut(line, " -> "+id)
	for range 3 {
		res, err := http.Get("http://" + local + "/healthz")
		if err != nil {
			c.t.Fatalf("through %q: %v; %s", line, err, errs.String())
		}
		if res.Body.Close(); res.StatusCode != http.StatusOK {
			c.t.Errorf("status %d", res.StatusCode)
		}
	}
	c.must("stop", "--wait", id)
	if _, err := http.Get("http://" + local + "/healthz"); err == nil {
		c.t.Error("it answers after its end")
	}
	if err := cmd.Wait(); err == nil || !strings.Contains(errs.String(), "does not run any more") {
		c.t.Errorf("port-forward ends with %v: %s", err, errs.String())
	}
	if !strings.Contains(errs.String(), "of this machine is in use") {
		c.t.Errorf("it does not say why it listens at %s: %s", local, errs.String())
	}
}

// memory looks at the shared memory, a tmpfs and the limits of processes.
func (c *cluster) memory() {
	for want, args := range map[string][]string{
		"/dev/shm 65536\n":                {image, "--", "program", "setup"},
		"/dev/shm 131072\n":               {"--memory", "256Mi", image, "--", "program", "setup"},
		"/dev/shm 1024\n/x 2048\n":        {"--memory", "256Mi", "--shm-size", "1m", "--tmpfs", "/x:size=2m", image, "--", "program", "setup", "/x"},
		"\nmemlock 65536 131072":          {"--ulimit", "memlock=65536:131072", image, "--", "program", "setup"},
		"locked 32":                       {"--ulimit", "memlock=65536", image, "--", "program", "lock", "32"},
		"/dev/shm 131072\n/x 131072\nmem": {"--memory", "256Mi", "--tmpfs", "/x", image, "--", "program", "setup", "/x"},
	} {
		if out := c.must(append([]string{"run"}, args...)...); !strings.Contains("\n"+out, want) {
			c.t.Errorf("run %q: %q, want %q in it", args, out, want)
		}
	}
	if o := c.escher("run", "--ulimit", "memlock=65536", image, "--", "program", "lock", "128"); o.code != 1 || !strings.Contains(o.out+o.err, "cannot allocate memory") {
		c.t.Errorf("128 KiB locked of 64: exit code %d, %s%s", o.code, o.out, o.err)
	}
	// The namespace adds the memory, which the client does not know.
	c.must("namespace", "create", "small", "--default", "memory=64Mi")
	o := c.escher("run", "-n", "small", "--shm-size", "128Mi", image, "--", "program", "setup")
	if o.code != 126 || !strings.Contains(o.err, "shm: 128Mi is larger than the memory of the task, which is 64Mi") {
		c.t.Errorf("more shared memory than the namespace gives: exit code %d, %s", o.code, o.err)
	}
}

// healthcheck runs an image with a HEALTHCHECK, which kills nothing and declines nothing.
func (c *cluster) healthcheck() {
	archive := filepath.Join(c.dir, "checked.tar")
	checked := c.checkedImage(archive)
	c.must("image", "load", archive)
	good := c.must("run", "-d", checked, "--", "work", "1h")
	c.must("wait", "--until", "healthy", "--timeout", "60s", good)
	c.must("exec", good, "--", "/bin/program", "touch", "/tmp/bad")
	if !eventually(func() bool { return strings.Contains(c.must("describe", good), "unhealthy") }) {
		c.t.Errorf("it does not become unhealthy:\n%s", c.must("describe", good))
	}
	without := c.must("run", "-d", "--no-healthcheck", checked, "--", "work", "1h")
	c.must("wait", "--until", "running", without)
	if out := c.must("describe", without); strings.Contains(out, "Health") {
		c.t.Errorf("it declined the check, and has one:\n%s", out)
	}
	c.must("stop", good, without)
}

// checkedImage writes an image of program whose check fails once /tmp/bad exists, and returns its
// name.
func (c *cluster) checkedImage(archive string) string {
	c.t.Helper()
	img, err := nodeimage.Build(nodeimage.Spec{Name: "escher.local/checked:v1", Entrypoint: []string{"/bin/program"}, Files: map[string]string{"/bin/program": built.program}})
	if err != nil {
		c.t.Fatal(err)
	}
	conf, err := img.ConfigFile()
	if err != nil {
		c.t.Fatal(err)
	}
	conf = conf.DeepCopy()
	conf.Config.Healthcheck = &v1.HealthConfig{Test: []string{"CMD", "/bin/program", "absent", "/tmp/bad"}, Interval: time.Second, Retries: 1}
	if img, err = mutate.ConfigFile(img, conf); err != nil {
		c.t.Fatal(err)
	}
	tag, err := name.NewTag("escher.local/checked:v1")
	if err == nil {
		err = tarball.WriteToFile(archive, tag, img)
	}
	if err != nil {
		c.t.Fatal(err)
	}
	return tag.Name()
}

// entrypoints runs images with and without an entry point.
func (c *cluster) entrypoints() {
	for want, args := range map[string][]string{
		"of the entry point": {entry, "--", "echo", "of the entry point"},
		"another":            {"--entrypoint", "/bin/program", image, "--", "echo", "another"},
		"none":               {"--entrypoint", "", entry, "--", "/bin/program", "echo", "none"},
		"the command":        {image, "--", "program", "echo", "the command"},
	} {
		if out := c.must(append([]string{"run"}, args...)...); out != want {
			c.t.Errorf("run %q: %q, want %q", args, out, want)
		}
	}
	o := c.escher("run", "--entrypoint", "/bin/no-entry", entry, "--", "echo", "x")
	if o.code != 127 || !strings.Contains(o.err, "/bin/no-entry") {
		c.t.Errorf("a missing entry point: exit code %d, %s", o.code, o.err)
	}
	file := filepath.Join(c.dir, "entry.yaml")
	text := `apiVersion: escher.dev/v1
kind: Task
name: entry
spec: {image: escher.local/entry, command: [echo, x]}
`
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		c.t.Fatal(err)
	}
	if out := c.must("plan", "-f", file); !strings.Contains(out, "arguments of the entry point of image escher.local/entry:latest, which is /bin/program") {
		c.t.Errorf("the plan is\n%s", out)
	}
}

// infiniband describes two adapters, as a vendor's tool or an administrator does.
const infiniband = `cdiVersion: "0.5.0"
kind: rdma.example/hca
devices:
- name: mlx5_0
  containerEdits:
    deviceNodes: [{path: /dev/infiniband/uverbs0, hostPath: %[1]s/uverbs0}]
- name: mlx5_1
  containerEdits:
    deviceNodes: [{path: /dev/infiniband/uverbs1, hostPath: %[1]s/uverbs1}]
containerEdits:
  deviceNodes: [{path: /dev/infiniband/rdma_cm, hostPath: %[1]s/rdma_cm}]
`

// TestInfiniBand gives a whole adapter to a task, and parts of one to two tasks, with locked memory.
func TestInfiniBand(t *testing.T) {
	t.Parallel() // it mostly waits
	dir := t.TempDir()
	for _, name := range []string{"uverbs0", "uverbs1", "rdma_cm"} {
		// Copies of /dev/zero, which open without a driver.
		if err := unix.Mknod(filepath.Join(dir, name), unix.S_IFCHR|0o666, int(unix.Mkdev(1, 5))); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.WriteFile(filepath.Join(dir, "rdma.yaml"), fmt.Appendf(nil, infiniband, dir), 0o600); err != nil {
		t.Fatal(err)
	}
	m := newMachines(t)
	m.begin(m.net.add(), "server", "--name", "server-1")
	m.agentWith("ib", "--cdi-dir", dir, "--gpus", "none", "--device", "rdma.example/hca=*")
	m.must("image", "make", image, built.program)
	run := func(amount string) string {
		return m.must("run", "-d", "--request", "rdma.example/hca="+amount, "--ulimit", "memlock=1048576", image, "--", "program", "setup", "hold")
	}
	whole, half, other := run("1"), run("0.5"), run("0.5")
	for _, id := range []string{whole, half, other} {
		m.await(id+" to print its devices", func() bool { return strings.Contains(m.escher("logs", id).out, "rdma_cm") })
	}
	of := func(id string) string {
		out := m.must("logs", id)
		if !strings.Contains(out, "memlock 1048576 1048576") {
			t.Errorf("%s may lock another amount of memory: %s", id, out)
		}
		return fmt.Sprint(strings.Contains(out, "uverbs0"), strings.Contains(out, "uverbs1"))
	}
	if of(whole) == of(half) || of(half) != of(other) || of(half) == "true true" {
		t.Errorf("the whole one sees %s, the halves %s and %s", of(whole), of(half), of(other))
	}
	m.must("stop", "--grace", "100ms", whole, half, other)
}
