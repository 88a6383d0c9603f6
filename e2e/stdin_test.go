package e2e

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/creack/pty"
)

// TestStdin covers the input and the terminal of attached runs.
func TestStdin(t *testing.T) {
	t.Parallel() // it mostly waits
	c := newCluster(t)
	c.start("--nodes", "1")
	c.must("image", "load", shellArchive(t))

	in := bytes.Repeat([]byte("0123456789abcde\n"), 200_000)
	if o := c.with(bytes.NewReader(in), "run", "-i", shell, "--", "cat"); o.code != 0 || o.out != string(in) {
		t.Errorf("%d of %d bytes came back: code %d, %s", len(o.out), len(in), o.code, o.err)
	}
	if o := c.with(strings.NewReader("x\n"), "run", "-i", shell, "--", "sh", "-c", "read a; echo got $a; exit 7"); o.code != 7 || o.out != "got x\n" {
		t.Errorf("%+v", o)
	}
	if o := c.with(nil, "run", "-i", shell, "--", "cat"); o.code != 0 || o.out != "" {
		t.Errorf("an empty input: %+v", o)
	}
	if o := c.with(strings.NewReader("x\n"), "run", shell, "--", "cat"); o.code != 0 || o.out != "" {
		t.Errorf("without -i: %+v", o)
	}
	inputUnread(t, c)
	clientGoes(t, c)
	interrupts(t, c)
	runTerminal(t, c)
	terminalGoes(t, c)
	attaches(t, c)
	badInteractive(t, c)
	c.must("audit")
}

// with runs a command with an input.
func (c *cluster) with(in io.Reader, args ...string) outcome {
	c.t.Helper()
	cmd, out, errs := c.command(args...)
	cmd.Stdin = in
	err := cmd.Run()
	if exit, ok := errors.AsType[*exec.ExitError](err); !ok && err != nil {
		c.t.Fatal(err)
	} else if ok {
		return outcome{code: exit.ExitCode(), out: out.String(), err: errs.String()}
	}
	return outcome{out: out.String(), err: errs.String()}
}

// command returns a command that has not begun, with what it will print.
func (c *cluster) command(args ...string) (cmd *exec.Cmd, out, errs *bytes.Buffer) {
	cmd, out, errs = exec.CommandContext(c.t.Context(), built.escher, args...), new(bytes.Buffer), new(bytes.Buffer)
	cmd.Env = append(os.Environ(), "ESCHER_DIR="+c.dir)
	cmd.Stdout, cmd.Stderr = out, errs
	return cmd, out, errs
}

// inputUnread gives an endless input to tasks that do not read it: one ends, and one runs while the
// client must not read on.
func inputUnread(t *testing.T, c *cluster) {
	for script, code := range map[string]int{"exit 3": 3, "sleep 2; exit 4": 4} {
		cmd, _, errs := c.command("run", "-i", shell, "--", "sh", "-c", script)
		in, err := cmd.StdinPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		written := make(chan int, 1)
		go func() {
			total, piece := 0, make([]byte, 32<<10)
			for {
				n, err := in.Write(piece)
				total += n
				if err != nil {
					written <- total
					return
				}
			}
		}()
		err = cmd.Wait()
		if exit, ok := errors.AsType[*exec.ExitError](err); !ok || exit.ExitCode() != code {
			t.Errorf("%s: %v, want exit code %d: %s", script, err, code, errs)
		}
		if n := <-written; n > 2<<20 {
			t.Errorf("%s: the client read %d bytes for a task that reads none", script, n)
		}
	}
}

// clientGoes kills the client: the task gets what it sent, and the end of its input.
func clientGoes(t *testing.T, c *cluster) {
	cmd, _, _ := c.command("run", "-i", "--name", "alone", shell, "--", "sh", "-c", "echo begun; cat; echo over")
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	if _, err := io.WriteString(in, "sent\n"); err != nil {
		t.Fatal(err)
	}
	logged := func() bool { o := c.escher("logs", "alone"); return strings.Contains(o.out, "sent") }
	if !eventually(logged) {
		t.Fatal("the input does not arrive")
	}
	if err := cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = cmd.Wait() // it was killed
	if o := c.escher("wait", "alone"); o.code != 0 {
		t.Errorf("%+v", o)
	}
	if out := c.must("logs", "alone"); out != "begun\nsent\nover" {
		t.Errorf("the task wrote %q", out)
	}
	if o := c.escher("attach", "alone"); o.code != 125 || !strings.Contains(o.err, "does not run") {
		t.Errorf("attach to what has ended: %+v", o)
	}
}

// interrupts passes a Ctrl-C to a task without a raw terminal.
func interrupts(t *testing.T, c *cluster) {
	cmd, out, errs := c.command("run", "-i", "--name", "heeds", shell, "--", "sh", "-c", `trap 'echo caught; exit 9' INT; echo begun; while :; do sleep 0.1; done`)
	in, err := cmd.StdinPipe() // which stays open
	if err != nil {
		t.Fatal(err)
	}
	defer in.Close()
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	if !eventually(func() bool { return strings.Contains(c.escher("logs", "heeds").out, "begun") }) {
		t.Fatal("it does not begin")
	}
	if err := cmd.Process.Signal(syscall.SIGINT); err != nil {
		t.Fatal(err)
	}
	err = cmd.Wait()
	if exit, ok := errors.AsType[*exec.ExitError](err); !ok || exit.ExitCode() != 9 || out.String() != "begun\ncaught\n" || !strings.Contains(errs.String(), "sent SIGINT") {
		t.Errorf("%v: %q, %q", err, out, errs)
	}
}

// onTerminal begins a command on a terminal of 99 by 33 characters.
func (c *cluster) onTerminal(args ...string) (cmd *exec.Cmd, master, slave *os.File) {
	c.t.Helper()
	cmd, _, _ = c.command(args...)
	cmd.Env = append(cmd.Env, "TERM=vt100")
	master, slave, err := pty.Open()
	if err != nil {
		c.t.Fatal(err)
	}
	if err := pty.Setsize(master, &pty.Winsize{Rows: 33, Cols: 99}); err != nil {
		c.t.Fatal(err)
	}
	cmd.Stdin, cmd.Stdout, cmd.Stderr = slave, slave, slave
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Setctty: true}
	return cmd, master, slave
}

// runTerminal has a shell on a terminal: its size, keys, Ctrl-C, and exit code.
func runTerminal(t *testing.T, c *cluster) {
	cmd, master, slave := c.onTerminal("run", "-it", "--name", "screen", shell, "--", "sh", "-c",
		`trap 'echo interrupted' INT; echo $TERM; while :; do line=; read line; echo "got $line"; test "$line" = end && exit 5; done`)
	defer master.Close()
	defer slave.Close()
	before := settings(t, slave)
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	seen := new(bytes.Buffer)
	readUntil(t, master, seen, "vt100")
	say := func(keys string) {
		if _, err := master.WriteString(keys); err != nil {
			t.Fatal(err)
		}
	}
	say("hello\r")
	readUntil(t, master, seen, "got hello")
	if err := pty.Setsize(master, &pty.Winsize{Rows: 44, Cols: 111}); err != nil {
		t.Fatal(err)
	}
	resized := func() bool {
		return strings.Contains(c.must("exec", "screen", "--", "sh", "-c", "stty size < /proc/1/fd/0"), "44 111")
	}
	if !eventually(resized) {
		t.Error("the new size does not come")
	}
	say("\x03")
	readUntil(t, master, seen, "interrupted")
	say("end\r")
	readUntil(t, master, seen, "got end")
	go func() { _, _ = io.Copy(io.Discard, master) }()
	err := cmd.Wait()
	if exit, ok := errors.AsType[*exec.ExitError](err); !ok || exit.ExitCode() != 5 {
		t.Errorf("it ended with %v: %q", err, seen)
	}
	if now := settings(t, slave); now != before {
		t.Errorf("the terminal is left as %s, it was %s", now, before)
	}
}

// terminalGoes closes a terminal: the shell of the task gets the end of its own.
func terminalGoes(t *testing.T, c *cluster) {
	cmd, master, slave := c.onTerminal("run", "-it", "--name", "left", shell, "--", "sh", "-c", `trap 'echo hung up; exit 6' HUP; echo begun; while :; do sleep 0.1; done`)
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	slave.Close()
	readUntil(t, master, new(bytes.Buffer), "begun")
	master.Close()
	_ = cmd.Wait() // it got SIGHUP
	if o := c.escher("wait", "left"); o.code != 6 {
		t.Errorf("%+v", o)
	}
}

// attaches passes an input to a task from a file, once.
func attaches(t *testing.T, c *cluster) {
	path := filepath.Join(t.TempDir(), "console.yaml")
	text := "apiVersion: escher.dev/v1\nkind: Task\nname: console\nspec: {image: " + shell + ", command: [sh, -c, 'while read a; do echo got $a; done; exit 8'], stdin: true}\n"
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	c.must("apply", "-f", path)
	if o := c.with(strings.NewReader("x\n"), "attach", "console"); o.code != 8 || o.out != "got x\n" {
		t.Errorf("%+v", o)
	}
	id := c.must("run", "-d", "--name", "plain", shell, "--", "sleep", "3600")
	if o := c.escher("attach", id); o.code != 125 || !strings.Contains(o.err, "neither an input nor a terminal") {
		t.Errorf("%+v", o)
	}
	c.must("stop", "--wait", "--grace", "100ms", id)
}

func badInteractive(t *testing.T, c *cluster) {
	// The revision is no measure here: the agent and the server still write about what was stopped before.
	stored := func() string { return c.must("ps", "-a", "-o", "name") + "\n" + c.must("jobs", "-o", "name") }
	before := stored()
	for _, x := range []bad{
		{[]string{"run", "-i", "-d", shell}, 125, []string{"interactive", "--detach", "drop one"}},
		{[]string{"run", "-t", "-d", shell}, 125, []string{"tty", "--detach", "drop one"}},
		{[]string{"run", "-i", "--count", "2", shell}, 125, []string{"interactive", "for one task", "--count"}},
		{[]string{"run", "-t", "--gang", "2", shell}, 125, []string{"tty", "for one task"}},
		{[]string{"run", "-i", "--array", "0-3", shell}, 125, []string{"interactive", "for one task", "--array"}},
		{[]string{"run", "-it", shell}, 125, []string{"tty", "no terminal", "leave -t out"}},
		{[]string{"run", "-i", "--retries", "1", shell}, 125, []string{"stdin", "retries is 1", "leave out one"}},
		{[]string{"run", "-i", "--restart", "always", shell}, 125, []string{"stdin", "restart is always", "leave out one"}},
	} {
		o := c.escher(x.args...)
		for _, want := range x.says {
			if o.code != x.code || !strings.Contains(o.err, want) {
				t.Errorf("escher %s: code %d, want %d and %q: %s", strings.Join(x.args, " "), o.code, x.code, want, o.err)
			}
		}
	}
	if now := stored(); now != before {
		t.Errorf("they have written:\n%s\nbefore:\n%s", now, before)
	}
}

// TestStdinOutlivesAgent kills the agent, stops it in order, and replaces it, while a client passes
// numbered lines: the task gets each line once. A kill may hit a write: then the input is cut off and
// the client says so, and another task is tried.
func TestStdinOutlivesAgent(t *testing.T) {
	t.Parallel() // it mostly waits
	m := newMachines(t)
	m.begin(m.net.add(), "server", "--name", "server-1")
	m.agent("a")
	m.must("image", "load", shellArchive(t))
	for n := 1; m.restartsWhileReading(fmt.Sprintf("reads-%d", n)); n++ {
		if n == 8 {
			t.Fatal("each kill hit a write")
		}
	}
	m.await("its pipes are removed", func() bool {
		left, err := filepath.Glob(filepath.Join(m.dir, "a/*/fifo/*"))
		return err == nil && len(left) == 0
	})
}

// restartsWhileReading passes lines to a task while its agent is restarted, and compares what comes
// back. It reports whether a kill hit a write: what came until then is compared.
func (m *machines) restartsWhileReading(name string) (hit bool) {
	t := m.t
	cmd := exec.CommandContext(t.Context(), built.escher, append(m.flags, "run", "-i", "--name", name, shell, "--", "cat")...)
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	var out, errs bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errs
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	stop, fed := make(chan struct{}), make(chan int, 1)
	go func() { fed <- feed(in, stop) }()
	size := func() int { return len(m.escher("logs", name).out) }
	m.await("it reads", func() bool { return size() > 0 })
	for _, with := range []syscall.Signal{syscall.SIGKILL, syscall.SIGTERM, syscall.SIGKILL} {
		m.end(m.agents["a"], with)
		m.agent("a")
		before := size()
		m.await("it reads on", func() bool { hit = len(ended) > 0; return hit || size() > before })
	}
	close(stop)
	count, err := <-fed, <-ended
	if hit = err != nil && strings.Contains(errs.String(), "an agent was killed while it passed bytes"); err != nil && !hit {
		t.Fatalf("%v: %s", err, errs.String())
	}
	n := 0
	for line := range strings.Lines(out.String()) {
		want := fmt.Sprintf("%d %s\n", n, strings.Repeat("x", n%5000))
		if line != want && !(hit && strings.HasPrefix(want, line)) {
			t.Fatalf("line %d is %.40q, want %.40q", n, line, want)
		}
		n++
	}
	if hit {
		t.Logf("a kill hit a write: %s", errs.String())
	} else if n != count {
		t.Errorf("%d lines came, want %d", n, count)
	}
	return hit
}

// feed writes numbered lines until stop is closed or nothing reads them, and returns their number.
func feed(in io.WriteCloser, stop <-chan struct{}) int {
	defer in.Close()
	for n := 0; ; n++ {
		select {
		case <-stop:
			return n
		default:
		}
		// Longer than a pipe can take at once, now and then.
		if _, err := fmt.Fprintf(in, "%d %s\n", n, strings.Repeat("x", n%5000)); err != nil {
			return n
		}
		after(100 * time.Microsecond)
	}
}
