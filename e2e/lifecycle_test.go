package e2e

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// TestLifecycle covers the events in the life of a process.
func TestLifecycle(t *testing.T) {
	t.Parallel() // it mostly waits
	open, closed := t.TempDir(), t.TempDir()
	if err := os.Symlink(closed, filepath.Join(open, "out")); err != nil {
		t.Fatal(err)
	}
	c := started(t, "--cpu", "8", "--allow-mount", open)
	t.Run("ends", func(t *testing.T) {
		for name, x := range map[string]struct {
			args string // of run, and after -- of the program
			out  string // "*" means any
			err  string
			code int
		}{
			"on-failure": {"--restart on-failure:2 --restart-delay 100ms --scratch /s -- count /s/x 4", "1\n2\n3\n", "after 2 restarts", 4},
			"succeeds":   {"--restart on-failure:2 --restart-delay 100ms --scratch /s -- count /s/x 0", "1\n", "", 0},
			"always":     {"--restart always:2 --restart-delay 100ms --scratch /s -- count /s/x 0", "1\n2\n3\n", "", 0},
			"memory":     {"--memory 32Mi -- grow", "", "out of memory: its limit is 32Mi", 137},
			"child":      {"--memory 32Mi -- grow child", "", "program: signal: killed\n…out of memory: its limit is 32Mi", 1},
			"overran":    {"--max-run 1s -- work 1h", "began\nstopped\n", "ran longer than 1s", 143},
			"deadline":   {"--deadline 3s -- work 1h", "began\nstopped\n", "its deadline passed", 143},
			"deaf":       {"--max-run 1s --grace 1s -- heed nothing", "began\ngot terminated\n", "ran longer than 1s", 137},
			"signal":     {"--max-run 1s --stop-signal SIGUSR1 -- heed user defined signal 1", "began\ngot user defined signal 1\n", "ran longer than 1s", -1},
			"command":    {"-- /bin/missing", "*", "/bin/missing", 127},
			"mount":      {"--mount " + open + ":/data -- count /data/x 0", "1\n", "", 0},
			"closed":     {"--mount " + closed + ":/data -- count /data/x 0", "", "--allow-mount " + closed, 126},
			"link":       {"--mount " + open + "/out:/data -- count /data/x 0", "", "does not allow " + closed, 126},
			"missing":    {"--mount " + open + "/missing:/data -- count /data/x 0", "", "there is nothing of that name", 126},
			"port":       {"--port web-ui=18080 --port m -- env ESCHER_PORT_WEB_UI", "18080\n", "", 0},
			"first port": {"--port m=18082 --port web=18081 -- env PORT", "18082\n", "", 0},
		} {
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				flags, program, _ := strings.Cut(x.args, "-- ")
				args := append([]string{"run", "--name", strings.ReplaceAll(name, " ", "-")}, strings.Fields(flags)...)
				args = append(args, image, "--")
				if !strings.HasPrefix(program, "/") {
					args = append(args, "/bin/program")
				}
				o := command(t, []string{"ESCHER_DIR=" + c.dir}, append(args, splitProgram(program)...)...)
				said := true
				for _, part := range strings.Split(x.err, "…") {
					said = said && strings.Contains(o.err, part)
				}
				if x.out != "*" && o.out != x.out || !said || x.code >= 0 && o.code != x.code || x.code < 0 && o.code == 0 {
					t.Errorf("exit code %d, want %d; it printed %q, want %q; and said, want …%s…:\n%s", o.code, x.code, o.out, x.out, x.err, o.err)
				}
			})
		}
	})
	stoppedWhileRestarting(t, c)
	restartedAcrossKill(t, c)
	// The agent removes the last one after the task has ended for its clients.
	var left []os.DirEntry
	if !eventually(func() bool {
		var err error
		left, err = os.ReadDir(filepath.Join(c.dir, "agents", "node-1", "scratch"))
		return err == nil && len(left) == 0
	}) {
		t.Errorf("scratch directories left: %v", left)
	}
	c.must("audit")
}

// splitProgram splits the arguments of the program: the first word, and for heed all others as one.
func splitProgram(text string) []string {
	if name, rest, ok := strings.Cut(text, " "); ok && name == "heed" {
		return []string{name, rest}
	}
	return strings.Fields(text)
}

// stoppedWhileRestarting stops a task without a process, as it waits for its restart.
func stoppedWhileRestarting(t *testing.T, c *cluster) {
	c.must("run", "-d", "--name", "crashing", "--restart", "always", "--restart-delay", "1h", "--restart-max-delay", "1h", image, "--", "/bin/program", "exit", "3")
	reason := c.reasonOf("crashing", func(x task) bool { return strings.Contains(x.Reason, "restarts in 1h") })
	if want := "exit code 3: restarts in 1h0m0s (restart 1)"; reason != want {
		t.Errorf("%q, want %q", reason, want)
	}
	c.must("stop", "crashing")
	c.escher("wait", "crashing")
	if x := c.named("crashing"); x.Phase != "cancelled" || x.Attempt != 1 {
		t.Errorf("%+v", x)
	}
}

// restartedAcrossKill kills everything but the containers while one waits for its restart: the new
// agent restarts it, once.
func restartedAcrossKill(t *testing.T, c *cluster) {
	c.must("run", "-d", "--name", "survivor", "--scratch", "/s", "--restart", "on-failure:2", "--restart-delay", "2s", "--restart-max-delay", "2s", image, "--", "/bin/program", "count", "/s/x", "5")
	c.reasonOf("survivor", func(x task) bool { return strings.Contains(x.Reason, "1 of 2") })
	c.kill()
	c.start()
	c.escher("wait", "survivor")
	if x := c.named("survivor"); x.ExitCode != 5 || x.Reason != "after 2 restarts" || x.Attempt != 1 {
		t.Errorf("%+v", x)
	}
	if log := c.must("logs", "survivor"); log != "1\n2\n3" {
		t.Errorf("it wrote %q: one line for each run", log)
	}
}

// named returns the task whose id begins with a name.
func (c *cluster) named(name string) task {
	c.t.Helper()
	for id, x := range c.tasks() {
		if strings.HasPrefix(id, name+"-") {
			return x
		}
	}
	c.t.Fatalf("there is no task %s", name)
	return task{}
}

// reasonOf waits until a condition holds for a task, and returns its reason.
func (c *cluster) reasonOf(name string, is func(task) bool) string {
	c.t.Helper()
	for range 200 {
		if x := c.named(name); is(x) {
			return x.Reason
		}
		after(50 * time.Millisecond)
	}
	text, err := json.Marshal(c.tasks())
	c.t.Fatalf("task %s: %s, %v", name, text, err)
	return ""
}
