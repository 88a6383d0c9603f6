package e2e

import (
	"context"
	"net/http"
	"strings"
	"testing"
	"time"
)

// TestHealth covers health checks, warnings before the end, and an init process.
func TestHealth(t *testing.T) {
	t.Parallel() // it mostly waits
	c := started(t, "--cpu", "8")
	c.must("run", "-d", "--name", "web", "-p", "http", "--health-http", "http/healthz", "--health-interval", "1s", "--health-retries", "1",
		"--health-timeout", "20s", image, "--", "/bin/program", "serve")
	c.must("wait", "--until", "healthy", "web")
	if table := c.must("ps"); !strings.Contains(table, " running (healthy) ") {
		t.Errorf("ps says\n%s", table)
	}
	t.Run("ends", func(t *testing.T) {
		for name, x := range map[string]struct {
			args []string // of run, and after -- of the program
			out  string
			err  string
			code int
		}{
			"exec":    {[]string{"--health-cmd", `["/bin/program", "fail", "no", "disk"]`, "--health-interval", "1s", "--health-retries", "2", "--health-timeout", "20s", "--health-then", "restart", "--restart", "on-failure:1", "--restart-delay", "100ms", "--", "work", "1h"}, "began\nstopped\nbegan\nstopped\n", "unhealthy: check cmd: exit code 1: program: no disk, after 1 restart", 143},
			"hung":    {[]string{"--health-cmd", `["/bin/program", "work", "1h"]`, "--health-interval", "1s", "--health-retries", "1", "--health-timeout", "1s", "--health-then", "restart", "--", "work", "1h"}, "began\nstopped\n", "unhealthy: check cmd: did not end within 1s: began", 143},
			"tcp":     {[]string{"-p", "none", "--health-tcp", "none", "--health-interval", "1s", "--health-retries", "1", "--health-then", "restart", "--", "work", "1h"}, "began\nstopped\n", "connection refused", 143},
			"warned":  {[]string{"--max-run", "8s", "--signal", "USR1@5s", "--", "heed", "terminated"}, "began\ngot user defined signal 1\ngot terminated\n", "ran longer than 8s", -1},
			"heeded":  {[]string{"--max-run", "1h", "--signal", "USR1@3596s", "--", "heed", "user defined signal 1"}, "began\ngot user defined signal 1\n", "", 0},
			"code":    {[]string{"--init", "--", "exit", "7"}, "", "failed with exit code 7", 7},
			"signal":  {[]string{"--init", "--max-run", "4s", "--stop-signal", "SIGUSR1", "--", "heed", "user defined signal 1"}, "began\ngot user defined signal 1\n", "ran longer than 4s", -1},
			"reaped":  {[]string{"--init", "--", "litter"}, "0 zombies\n", "", 0},
			"left":    {[]string{"--", "litter"}, "2 zombies\n", "", 0},
			"missing": {[]string{"--init", "--", "/bin/none"}, "*", "exit code 127", 127},
		} {
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				args := []string{"run", "--name", name}
				for i, arg := range x.args {
					if i > 0 && x.args[i-1] == "--" {
						if !strings.HasPrefix(arg, "/") {
							args = append(args, "/bin/program")
						}
						arg = strings.Join(x.args[i:], "\x00")
						args = append(args, strings.Split(arg, "\x00")...)
						break
					}
					if arg == "--" {
						args = append(args, image)
					}
					args = append(args, arg)
				}
				o := command(t, []string{"ESCHER_DIR=" + c.dir}, args...)
				if x.out != "*" && o.out != x.out || !strings.Contains(o.err, x.err) || x.code >= 0 && o.code != x.code || x.code < 0 && o.code == 0 {
					t.Errorf("exit code %d, want %d; it printed %q, want %q; and said, want …%s…:\n%s", o.code, x.code, o.out, x.out, x.err, o.err)
				}
			})
		}
	})
	c.warnedOfItsStop()
	c.unhealthyAcrossKill()
	c.must("audit")
}

// warnedOfItsStop stops a task with a warning signal: the warning comes first, and the stop signal
// at once if the stop is urgent.
func (c *cluster) warnedOfItsStop() {
	c.t.Helper()
	c.must("run", "-d", "--name", "calm", "--signal", "USR1@2s", image, "--", "/bin/program", "heed", "terminated")
	c.must("run", "-d", "--name", "hurried", "--signal", "USR1@1h", image, "--", "/bin/program", "heed", "terminated")
	for _, name := range []string{"calm", "hurried"} {
		c.must("wait", "--until", "running", name)
		c.logged(name, "began")
		c.must("stop", name)
		c.logged(name, "began\ngot user defined signal 1")
	}
	c.must("stop", "--grace", "5s", "--wait", "hurried")
	c.escher("wait", "calm")
	for _, name := range []string{"calm", "hurried"} {
		if log := c.must("logs", name); log != "began\ngot user defined signal 1\ngot terminated" {
			c.t.Errorf("%s got %q", name, log)
		}
		if x := c.named(name); x.Phase != "cancelled" {
			c.t.Errorf("%+v", x)
		}
	}
}

// logged waits until the output of a task is exactly a text.
func (c *cluster) logged(name, text string) {
	c.t.Helper()
	var log string
	for range 200 {
		if log = c.must("logs", name); log == text {
			return
		}
		after(50 * time.Millisecond)
	}
	c.t.Fatalf("task %s has written %q, want %q", name, log, text)
}

// unhealthyAcrossKill kills everything but the containers, and breaks one meanwhile: the new agent
// continues its checks, and leaves it running.
func (c *cluster) unhealthyAcrossKill() {
	c.t.Helper()
	at := c.must("logs", "web")
	c.kill()
	req, err := http.NewRequestWithContext(context.Background(), http.MethodGet, "http://"+at+"/break", http.NoBody)
	if err != nil {
		c.t.Fatal(err)
	}
	answer, err := http.DefaultClient.Do(req)
	if err != nil {
		c.t.Fatal(err)
	}
	if err := answer.Body.Close(); err != nil {
		c.t.Error(err)
	}
	c.start()
	reason := c.reasonOf("web", func(x task) bool { return x.Reason != "" })
	if want := "check http: status 503: the disk is gone"; reason != want {
		c.t.Errorf("%q, want %q", reason, want)
	}
	if table := c.must("ps"); !strings.Contains(table, " running (unhealthy) ") {
		c.t.Errorf("ps says\n%s", table)
	}
	if why := c.must("why", "web"); !strings.Contains(why, "and is unhealthy: check http: status 503") {
		c.t.Errorf("why says\n%s", why)
	}
	if x := c.named("web"); x.Attempt != 1 || x.Phase != "running" {
		c.t.Errorf("%+v", x)
	}
	c.must("stop", "--wait", "web")
}
