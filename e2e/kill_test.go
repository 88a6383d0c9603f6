package e2e

import (
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"
)

// moments is how often the process is killed.
const moments = 20

// TestKilledAtAnyMoment kills escher dev with running containers, and restarts it on the same data.
// It adopts running containers, reports those that have ended meanwhile, and runs nothing twice.
// Every container logs its beginning and end.
func TestKilledAtAnyMoment(t *testing.T) {
	t.Parallel() // it mostly waits
	const seed = 7
	random := rand.New(rand.NewPCG(seed, seed))
	c := started(t, "--nodes", "3")
	// One task lives through all of it.
	survivor := c.must("run", "-d", "--name", "survivor", image, "--", "/bin/program", "work", "1h")
	c.must("wait", survivor, "--until", "running")

	accepted := []string{survivor}
	for i := range moments {
		// Some end before the kill, some without an agent, some after that.
		for _, d := range []string{"50ms", "400ms", "1s"} {
			o := c.escher("run", "-d", "--name", "short", image, "--", "/bin/program", "work", d)
			if o.code == 0 {
				accepted = append(accepted, strings.TrimSpace(o.out))
			}
		}
		after(time.Duration(random.IntN(1000)) * time.Millisecond)
		c.kill()
		if i%4 == 3 {
			// The kill may also hit the start.
			ready := c.launch("--nodes", "3")
			select {
			case <-ready:
			case <-time.After(time.Duration(random.IntN(1000)) * time.Millisecond):
			}
			c.kill()
		}
		c.start("--nodes", "3")
	}

	short := accepted[1:]
	c.must(append([]string{"wait", "--timeout", "1m"}, short...)...)
	c.stillRuns(survivor)
	c.must("stop", "--wait", survivor)
	all := c.tasks()
	if len(all) != len(accepted) {
		t.Errorf("%d tasks were accepted, %d are there", len(accepted), len(all))
	}
	for _, id := range slices.Sorted(maps.Keys(all)) {
		c.ranOnce(all[id], id == survivor)
	}
	if o := c.escher("audit"); o.code != 0 {
		t.Errorf("audit: %+v", o)
	}
}

// after waits for a duration, where there is no event to wait for.
func after(d time.Duration) {
	timer := time.NewTimer(d)
	<-timer.C
}

// stillRuns checks that a task was adopted each time: its one process is alive.
func (c *cluster) stillRuns(id string) {
	c.t.Helper()
	if x := c.tasks()[id]; x.Phase != "running" || x.Attempt != 1 {
		c.t.Errorf("the survivor: %+v", x)
	}
	if log := c.must("logs", id); log != "began" {
		c.t.Errorf("the survivor wrote %q", log)
	}
}

// ranOnce checks that there was one attempt with one run.
func (c *cluster) ranOnce(x task, stopped bool) {
	c.t.Helper()
	phase, log := "succeeded", "began\nended"
	if stopped {
		phase, log = "cancelled", "began\nstopped"
	}
	if x.Phase != phase || x.Attempt != 1 {
		c.t.Errorf("%+v", x)
	}
	if got := c.must("logs", x.ID); got != log {
		c.t.Errorf("%s wrote %q", x.ID, got)
	}
}

// TestKept leaves tasks running when it is stopped, and finds them again.
func TestKept(t *testing.T) {
	t.Parallel() // it mostly waits
	c := started(t)
	id := c.must("run", "-d", image, "--", "/bin/program", "work", "1h")
	c.must("wait", id, "--until", "running")
	c.stop()
	c.start()
	if x := c.tasks()[id]; x.Phase != "cancelled" || !strings.Contains(x.Reason, "stopping") {
		t.Errorf("stopped without --keep: %+v", x)
	}
	c.stop()

	c.start("--keep")
	kept := c.must("run", "-d", image, "--", "/bin/program", "work", "1h")
	c.must("wait", kept, "--until", "running")
	c.stop()
	c.start()
	c.stillRuns(kept)
}

// TestFewerNodes starts with fewer nodes than before. Tasks on the others are ended, as no agent
// watches them. Only their logs are left, which return with the node.
func TestFewerNodes(t *testing.T) {
	t.Parallel() // it mostly waits
	c := started(t, "--nodes", "2")
	id := c.must("run", "-d", "--request", "node/node-2=1", image, "--", "/bin/program", "work", "1h")
	c.must("wait", id, "--until", "running")
	c.kill()
	c.start("--nodes", "1")
	if o := c.escher("logs", id); o.code != 7 || !strings.Contains(o.err, "node-2") {
		t.Errorf("the node that has its log is not there: %+v", o)
	}
	for _, left := range leftovers(c.dir) {
		if strings.Contains(left, id) {
			t.Errorf("left: %s", left)
		}
	}
	// It waits for the loss of the node, and then for a node of that name.
	c.must("stop", id)
}
