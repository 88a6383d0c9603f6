package e2e

import (
	"strings"
	"testing"
	"time"
)

// TestDrain empties nodes with real containers: tasks moved with a grace of the operator, stopped
// for good, and left to finish until a deadline.
func TestDrain(t *testing.T) {
	t.Parallel() // it mostly waits
	c := started(t, "--nodes", "2", "--cpu", "8")
	t.Run("move", c.drainMoves)
	t.Run("stop", c.drainStops)
	t.Run("finish", c.drainFinishes)
	c.must("audit")
}

// on runs a task that is first eligible for one node, and later for any.
func (c *cluster) on(t *testing.T, node string, args ...string) string {
	t.Helper()
	other := map[string]string{"node-1": "node-2", "node-2": "node-1"}[node]
	c.must("node", "cordon", other)
	id := c.must(append([]string{"run", "-d"}, args...)...)
	c.must("wait", id, "--until", "running")
	if x := c.tasks()[id]; x.Node != node {
		t.Fatalf("%+v is not on %s", x, node)
	}
	// It handles signals once it has written, and is told to end only then.
	for range 200 {
		if c.must("logs", id) != "" {
			break
		}
		after(50 * time.Millisecond)
	}
	c.must("node", "uncordon", other)
	return id
}

// drainMoves drains a task that heeds its stop signal, and one that has an hour for that and does
// not: both run elsewhere soon.
func (c *cluster) drainMoves(t *testing.T) {
	heeds := c.on(t, "node-1", "--name", "heeds", image, "--", "/bin/program", "work", "1h")
	deaf := c.on(t, "node-1", "--name", "deaf", "--grace", "1h", image, "--", "/bin/program", "heed", "nothing")
	o := c.escher("node", "drain", "node-1", "--mode", "move", "--grace", "1s", "--reason", "new disk")
	if o.code != 0 || o.out != "node-1\n" || !strings.Contains(o.err, "left on node-1: ") || !strings.Contains(o.err, "default/"+deaf) {
		t.Errorf("%+v", o)
	}
	if out := c.must("nodes"); !strings.Contains(out, "drained") {
		t.Errorf("nodes:\n%s", out)
	}
	for id, heard := range map[string]string{heeds: "began\nstopped", deaf: "began\ngot terminated"} {
		c.must("wait", id, "--until", "running", "--timeout", "1m")
		if x := c.tasks()[id]; x.Node != "node-2" || x.Attempt != 2 {
			t.Errorf("%+v", x)
		}
		if log := c.must("logs", "--attempt", "1", id); !strings.HasPrefix(log, heard) {
			t.Errorf("in its first attempt %s wrote %q, want %q", id, log, heard)
		}
	}
	c.must("node", "uncordon", "node-1")
}

// drainStops ends the same tasks for good.
func (c *cluster) drainStops(t *testing.T) {
	o := c.escher("node", "drain", "node-2", "--mode", "stop", "--grace", "0s", "--reason", "sold")
	if o.code != 0 || o.out != "node-2\n" {
		t.Errorf("%+v", o)
	}
	for _, name := range []string{"heeds", "deaf"} {
		if x := c.named(name); x.Phase != "cancelled" || x.Reason != "node node-2 is drained: sold" || x.Attempt != 2 {
			t.Errorf("%+v", x)
		}
	}
	c.must("node", "uncordon", "node-2")
}

// drainFinishes lets tasks end that do so in time, and moves the rest at the deadline.
func (c *cluster) drainFinishes(t *testing.T) {
	long := c.on(t, "node-1", "--name", "long", image, "--", "/bin/program", "work", "1h")
	short := c.on(t, "node-1", "--name", "short", image, "--", "/bin/program", "tick", "/done", "0")
	c.must("node", "drain", "node-1", "--detach", "--deadline", "1h")
	if out := c.must("nodes"); !strings.Contains(out, "draining (2 left, until ") {
		t.Errorf("nodes:\n%s", out)
	}
	c.escher("exec", short, "--", "/bin/program", "count", "/done", "0") // which ends with the task
	c.must("wait", short, "--timeout", "1m")
	if x := c.tasks()[long]; x.Node != "node-1" || x.Attempt != 1 || x.Phase != "running" {
		t.Errorf("before the deadline: %+v", x)
	}
	// The last command decides: the deadline comes soon.
	if o := c.escher("node", "drain", "node-1", "--deadline", "1s"); o.code != 0 || o.out != "node-1\n" || !strings.Contains(o.err, "1 left on node-1: default/"+long) {
		t.Errorf("%+v", o)
	}
	c.must("wait", long, "--until", "running", "--timeout", "1m")
	if x := c.tasks()[long]; x.Node != "node-2" || x.Attempt != 2 {
		t.Errorf("after the deadline: %+v", x)
	}
	if x := c.tasks()[short]; x.Attempt != 1 || x.Phase != "succeeded" {
		t.Errorf("what ended in time: %+v", x)
	}
	c.must("stop", "--grace", "0s", "--wait", long)
	c.must("node", "uncordon", "node-1")
}
