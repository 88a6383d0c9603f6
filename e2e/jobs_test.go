package e2e

import (
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
)

// TestJobs covers a user's work with files: what runs is what they say.
func TestJobs(t *testing.T) {
	t.Parallel() // it mostly waits
	c := started(t, "--nodes", "2", "--cpu", "1")

	applied(t, c)
	onFullDisk(t, c)
	brokenOff(t, c)
	runFlags(t, c)
	c.must("audit")
}

// write writes a file of documents, and returns its path.
func write(t *testing.T, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "app.yaml")
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// app needs a resource that it sets itself, and uses most fields of a task.
const app = `
apiVersion: escher.dev/v1
kind: Resource
name: slot
capacity: 1
where: {}
---
apiVersion: escher.dev/v1
kind: Task
name: web
requests: {slot: 1, cpu: 100m}
spec:
  image: escher.local/e2e:latest
  command: [/bin/program, work, 1h]
  ports: [{name: http}]
  mounts: [{target: /scratch}]
  stopSignal: SIGINT
  grace: 3s
---
apiVersion: escher.dev/v1
kind: Job
name: crunch
count: 3
template:
  requests: {cpu: 100m}
  spec: {image: escher.local/e2e:latest, command: [/bin/program, env, ESCHER_NODE]}
`

func applied(t *testing.T, c *cluster) {
	path := write(t, app)
	plan := c.must("plan", "-f", path)
	_, condition, ok := strings.Cut(plan, "--if-revision ")
	if !ok || !strings.Contains(plan, "task/web  ") || len(c.tasks()) != 0 {
		t.Fatalf("the plan:\n%s", plan)
	}
	c.must("apply", "-f", path, "--if-revision", strings.TrimSpace(condition))
	c.must("wait", "web", "--until", "running")
	job := strings.Fields(c.must("jobs", "-a", "-o", "name"))[0]
	for id := range c.tasks() {
		if strings.HasPrefix(id, "crunch-") {
			c.must("wait", id)
		}
	}
	if again := c.must("apply", "-f", path); strings.Count(again, " unchanged ") != 3 {
		t.Errorf("applied again:\n%s", again)
	}
	port := c.must("describe", "web", "-o", "jsonpath={.ports.http}")
	if n, err := strconv.Atoi(port); err != nil || n < 20000 {
		t.Errorf("port %q", port)
	}
	if o := c.escher("rm", "web"); o.code != 6 || !strings.Contains(o.err, "stop it first") {
		t.Errorf("%+v", o)
	}
	c.must("rm", "--force", "web")
	c.must("rm", job)
	if o := c.escher("apply", "-f", path, "--if-revision", strings.TrimSpace(condition)); o.code != 5 || !strings.Contains(o.err, "look at escher plan again") {
		t.Errorf("applied after a change: %+v", o)
	}
	if left := c.tasks(); len(left) != 0 {
		t.Errorf("left: %v", left)
	}
}

// brokenOff interrupts a submission half-way: nothing of it is left.
func brokenOff(t *testing.T, c *cluster) {
	path := write(t, "apiVersion: escher.dev/v1\nkind: Task\nname: many\nrequests: {never: 1}\nspec: {image: x}\n")
	cmd := exec.Command(built.escher, "submit", "-f", path, "--count", "100000")
	cmd.Env = append(os.Environ(), "ESCHER_DIR="+c.dir)
	before := c.revision()
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	for c.revision() < before+3 {
	}
	if err := cmd.Process.Signal(os.Interrupt); err != nil {
		t.Fatal(err)
	}
	if err := cmd.Wait(); err == nil {
		t.Error("it was not broken off")
	}
	if n, jobs := len(c.tasks()), c.must("jobs", "-a", "-o", "name"); n != 0 || jobs != "" {
		t.Errorf("%d tasks are left, and jobs %q", n, jobs)
	}
}

// runFlags runs tasks with flags, also inside a container with its own image.
func runFlags(t *testing.T, c *cluster) {
	o := c.escher("run", "-e", "X=y", "-w", "/tmp", "-u", "0:0", "-p", "http", "--scratch", "/tmp/s", image, "--", "/bin/program", "env", "PORT")
	if n, err := strconv.Atoi(strings.TrimSpace(o.out)); err != nil || n < 20000 || o.code != 0 {
		t.Errorf("%+v", o)
	}
	c.must("image", "make", image, built.program, built.escher)
	if o := c.escher("run", image, "--", "/bin/escher", "run", "--", "/bin/program", "exit", "5"); o.code != 5 {
		t.Errorf("its own image: %+v", o)
	}
	if o := c.escher("run", "--restart", "on-failure:2", "--restart-delay", "10ms", image, "--", "/bin/program", "exit", "3"); o.code != 3 {
		t.Errorf("%+v", o)
	}
}

// onFullDisk writes a list to a full device.
func onFullDisk(t *testing.T, c *cluster) {
	t.Helper()
	full, err := os.OpenFile("/dev/full", os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = full.Close() }() // nothing is in it
	id := c.must("run", "-d", image, "--", "/bin/program", "env", "ESCHER_NODE")
	c.must("wait", id)
	for _, args := range [][]string{
		{"ps", "-a"}, {"ps", "-a", "-o", "json"}, {"ps", "-w"}, {"jobs", "-a"}, {"logs", id}, {"logs", "-f", id}, {"describe", id}, {"why", id},
		{"events"}, {"events", "-f"}, {"audit"}, {"state"}, {"nodes"}, {"nodes", "-o", "yaml"}, {"resources"}, {"top", "--once"}, {"policies", "ls"}, {"version"},
	} {
		var said strings.Builder
		cmd := exec.CommandContext(t.Context(), built.escher, args...)
		cmd.Env, cmd.Stdout, cmd.Stderr = append(os.Environ(), "ESCHER_DIR="+c.dir), full, &said
		_ = cmd.Run() // its result is checked next
		want := 6
		if args[0] == "logs" && args[1] == "-f" {
			want = 125
		}
		if code := cmd.ProcessState.ExitCode(); code != want || !strings.Contains(said.String(), "write output: no space left on device") || strings.Contains(said.String(), "should not happen") {
			t.Errorf("escher %v: exit code %d: %s", args, code, &said)
		}
	}
	c.must("rm", id)
}
