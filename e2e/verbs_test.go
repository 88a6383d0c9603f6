package e2e

import (
	"bufio"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// TestVerbs covers a user's first minutes.
func TestVerbs(t *testing.T) {
	t.Parallel() // it mostly waits
	c := started(t, "--nodes", "2", "--cpu", "1", "--label", "node-1:zone=a")

	attached(t, c)
	noSuchImage(t, c)
	fromInside(t, c)
	stopped(t, c)
	followedLogs(t, c)
	places(t, c)
	interrupted(t, c)
	fromFile(t, c)
	c.must("audit")
}

// interrupted sends Ctrl-C to an attached command: it stops its task.
func interrupted(t *testing.T, c *cluster) {
	cmd := exec.Command(built.escher, "run", "--name", "foreground", image, "--", "/bin/program", "work", "1h")
	cmd.Env = append(os.Environ(), "ESCHER_DIR="+c.dir)
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	lines := bufio.NewScanner(out)
	if !lines.Scan() || lines.Text() != "began" {
		t.Fatalf("the task says %q", lines.Text())
	}
	if err := cmd.Process.Signal(os.Interrupt); err != nil {
		t.Fatal(err)
	}
	err = cmd.Wait()
	exit, ok := errors.AsType[*exec.ExitError](err)
	if !ok || exit.ExitCode() != 130 {
		t.Errorf("it ended with %v", err)
	}
	if log := c.must("logs", "foreground"); log != "began\nstopped" {
		t.Errorf("the task wrote %q", log)
	}
}

// fromFile submits tasks that a file describes.
func fromFile(t *testing.T, c *cluster) {
	path := filepath.Join(t.TempDir(), "job.yaml")
	write := func(text string) {
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	const job = `
apiVersion: escher.dev/v1
kind: Job
name: pair
tasks:
- name: leader
  provides: [{name: lead, amount: "1", when: bound}]
  spec: {image: escher.local/e2e:latest, command: [/bin/program, echo, one]}
- name: follower
  requests: {lead: 1, cpu: 100m}
  spec: {image: escher.local/e2e:latest, command: [/bin/program, echo, two]}
`
	write(job)
	if o := c.escher("submit", "-f", path, "--attach"); o.code != 0 || !strings.Contains(o.out, " | one\n") || !strings.Contains(o.out, " | two\n") {
		t.Errorf("%+v", o)
	}
	// The revision still moves: the scheduler releases ended tasks.
	written := func() string { return c.must("jobs", "-o", "name") + c.must("ps", "-a", "-o", "name") }
	before := written()
	write(strings.Replace(job, "provides", "provide", 1))
	if o := c.escher("submit", "-f", path, "--attach"); o.code != 125 || !strings.Contains(o.err, path+":7: tasks[0].provide: is unknown: did you mean provides?") {
		t.Errorf("unknown field: %+v", o)
	}
	if now := written(); now != before {
		t.Errorf("it has written %s, before %s", now, before)
	}
}

func attached(t *testing.T, c *cluster) {
	o := c.escher("run", image, "--", "/bin/program", "echo", "hello", "world")
	if o.code != 0 || o.out != "hello world\n" {
		t.Errorf("%+v", o)
	}
	if o := c.escher("run", image, "--", "/bin/program", "exit", "7"); o.code != 7 {
		t.Errorf("the exit code of the task is not that of run: %+v", o)
	}
	if o := c.escher("run", "-e", "X=y z", image, "--", "/bin/program", "env", "X"); o.out != "y z\n" {
		t.Errorf("environment: %+v", o)
	}
	if o := c.escher("run", "--binary", built.program, "--", "echo", "own"); o.out != "own\n" {
		t.Errorf("binary: %+v", o)
	}
}

func noSuchImage(t *testing.T, c *cluster) {
	o := c.escher("run", "escher.local/none:latest")
	if o.code == 0 || !strings.Contains(o.err, "escher.local/none:latest") {
		t.Errorf("%+v", o)
	}
}

func fromInside(t *testing.T, c *cluster) {
	waits := c.must("run", "-d", "--name", "waits", "--request", "beacon=1", image, "--", "/bin/program", "echo", "came")
	if why := c.must("why", waits); !strings.Contains(why, "beacon") {
		t.Errorf("why says %q", why)
	}
	// The binary works in there unchanged.
	c.must("image", "make", image, built.program, built.escher)
	if o := c.escher("run", "--request", "node/node-2=1", image, "--", "/bin/escher", "set-resource", "beacon", "1", "--lifetime", ""); o.code != 0 {
		t.Errorf("set-resource inside: %+v", o)
	}
	c.must("wait", waits)
	if x := c.tasks()[waits]; x.Node != "node-2" || c.must("logs", waits) != "came" {
		t.Errorf("it ran on %s, and wrote %q", x.Node, c.must("logs", waits))
	}
	if state := c.escher("run", image, "--", "/bin/escher", "state"); !strings.Contains(state.out, "beacon") || !strings.Contains(state.out, "node-1") {
		t.Errorf("state inside: %+v", state)
	}
	if o := c.escher("run", image, "--", "/bin/escher", "run", image, "--", "/bin/program", "exit", "5"); o.code != 5 {
		t.Errorf("run inside does not end with the exit code of the task: %+v", o)
	}
	c.must("set-resource", "beacon", "0", "--all")
}

func stopped(t *testing.T, c *cluster) {
	id := c.must("run", "-d", image, "--", "/bin/program", "work", "1h")
	c.must("wait", id, "--until", "running")
	c.must("stop", "--wait", id)
	x := c.tasks()[id]
	if x.Phase != "cancelled" || c.must("logs", id) != "began\nstopped" {
		t.Errorf("%+v wrote %q", x, c.must("logs", id))
	}
	if o := c.escher("wait", id); o.code != x.ExitCode {
		t.Errorf("wait ended with %d, the task with %d", o.code, x.ExitCode)
	}
}

func followedLogs(t *testing.T, c *cluster) {
	id := c.must("run", "-d", image, "--", "/bin/program", "work", "300ms")
	if o := c.escher("logs", "-f", id); o.code != 0 || o.out != "began\nended\n" {
		t.Errorf("%+v", o)
	}
}

func places(t *testing.T, c *cluster) {
	c.must("set-resource", "slot", "2", "--selector", "zone=a")
	if out := c.must("resources"); !strings.Contains(out, "slot") || strings.Contains(out, "node-2") {
		t.Errorf("resources:\n%s", out)
	}
	ids := strings.Fields(c.must("run", "-d", "--count", "2", "--request", "slot=1", image, "--", "/bin/program", "work", "1h"))
	c.must(append([]string{"wait", "--until", "running"}, ids...)...)
	for _, id := range ids {
		if x := c.tasks()[id]; x.Node != "node-1" {
			t.Errorf("%+v", x)
		}
	}
	c.must(append([]string{"stop", "--wait"}, ids...)...)
	c.must("set-resource", "slot", "0", "--all")
}
