// Package e2e tests the real binary, with real etcd and real containers.
package e2e

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
)

// binaries are built once.
type binaries struct{ escher, program string }

var built binaries

func TestMain(m *testing.M) {
	if os.Getuid() != 0 {
		fmt.Fprintln(os.Stderr, "e2e: containers take root: run the tests as root")
		os.Exit(1)
	}
	// The programs collect garbage as in production, however make test runs the tests.
	if err := os.Unsetenv("GOGC"); err != nil {
		fmt.Fprintln(os.Stderr, "e2e:", err)
		os.Exit(1)
	}
	// Most tests wait most of the time: more of them than cores at once.
	if err := flag.Set("test.parallel", strconv.Itoa(2*runtime.GOMAXPROCS(0))); err != nil {
		fmt.Fprintln(os.Stderr, "e2e:", err)
		os.Exit(1)
	}
	dir, err := os.MkdirTemp("", "escher-e2e-")
	if err == nil {
		built, err = build(dir)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "e2e:", err)
		os.Exit(1)
	}
	code := m.Run()
	if err := os.RemoveAll(dir); err != nil {
		fmt.Fprintln(os.Stderr, "e2e:", err)
	}
	os.Exit(code)
}

func build(dir string) (binaries, error) {
	b := binaries{filepath.Join(dir, "escher"), filepath.Join(dir, "program")}
	for out, pkg := range map[string]string{b.escher: "../cmd/escher", b.program: "./program"} {
		cmd := exec.Command("go", "build", "-ldflags=-s -w", "-o", out, pkg)
		cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
		if text, err := cmd.CombinedOutput(); err != nil {
			return b, fmt.Errorf("build %s: %w\n%s", pkg, err, text)
		}
	}
	return b, nil
}

// image is the image of the tests' containers: program, and escher itself where a test needs it
// there. Escher is seven times as large.
const image = "escher.local/e2e:latest"

// cluster is an escher dev in its own directory.
type cluster struct {
	// audit follows every revision; findings is its output.
	audit    *exec.Cmd
	findings *bytes.Buffer

	t   *testing.T
	dir string
	cmd *exec.Cmd
	// ended receives the error of the ended process.
	ended  chan error
	stderr *bytes.Buffer
	// over reports whether end ran.
	over bool
}

// newCluster makes the directory; the end of the test removes it completely.
func newCluster(t *testing.T) *cluster {
	t.Helper()
	dir, err := os.MkdirTemp("/tmp", "esc-")
	if err != nil {
		t.Fatal(err)
	}
	c := &cluster{t: t, dir: dir}
	t.Cleanup(c.remove)
	return c
}

// started is a cluster that has the image of the tests, without escher.
func started(t *testing.T, args ...string) *cluster {
	t.Helper()
	c := newCluster(t)
	c.start(args...)
	c.must("image", "make", image, built.program)
	return c
}

// start starts escher dev and returns when it is ready.
func (c *cluster) start(args ...string) {
	c.t.Helper()
	select {
	case <-c.launch(args...):
		c.followAudit()
	case err := <-c.ended:
		c.t.Fatalf("escher dev did not start: %v\n%s", err, c.stderr)
	}
}

// launch starts escher dev; the channel is closed when it is ready.
func (c *cluster) launch(args ...string) <-chan struct{} {
	c.t.Helper()
	args = append([]string{"dev", "--dir", c.dir, "--containerd", "private"}, args...)
	c.cmd = exec.Command(built.escher, args...)
	c.stderr = new(bytes.Buffer)
	c.cmd.Stderr = c.stderr
	out, err := c.cmd.StdoutPipe()
	if err != nil {
		c.t.Fatal(err)
	}
	if err := c.cmd.Start(); err != nil {
		c.t.Fatal(err)
	}
	ready, ended := make(chan struct{}), make(chan error, 1)
	c.ended = ended
	cmd := c.cmd
	go func() {
		for lines := bufio.NewScanner(out); lines.Scan(); {
			if strings.HasPrefix(lines.Text(), "ready") {
				close(ready)
			}
		}
		ended <- cmd.Wait()
	}()
	return ready
}

// followAudit audits every revision from the first start on, across kills and restarts.
func (c *cluster) followAudit() {
	c.t.Helper()
	if c.audit != nil {
		return
	}
	c.audit, c.findings = exec.Command(built.escher, "audit", "-f", "--dir", c.dir), new(bytes.Buffer)
	c.audit.Stdout, c.audit.Stderr = c.findings, c.findings
	if err := c.audit.Start(); err != nil {
		c.t.Fatal(err)
	}
}

// endAudit ends the audit and checks its findings.
func (c *cluster) endAudit() {
	c.t.Helper()
	if c.audit == nil {
		return
	}
	if err := c.audit.Process.Signal(syscall.SIGINT); err != nil {
		c.t.Error(err)
	}
	if err := c.audit.Wait(); err != nil {
		c.t.Errorf("the audit at every revision: %v\n%s", err, c.findings)
	}
	c.t.Logf("%s", c.findings)
}

// kill kills only the process.
func (c *cluster) kill() {
	c.t.Helper()
	if err := c.cmd.Process.Kill(); err != nil {
		c.t.Fatal(err)
	}
	if err := <-c.ended; err == nil {
		c.t.Error("killed, escher dev ended with 0")
	}
	c.cmd = nil
}

// stop stops escher dev in order.
func (c *cluster) stop() {
	c.t.Helper()
	if err := c.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		c.t.Fatal(err)
	}
	select {
	case err := <-c.ended:
		if err != nil {
			c.t.Errorf("escher dev did not stop in order: %v\n%s", err, c.stderr)
		}
	case <-time.After(time.Minute):
		c.t.Errorf("escher dev does not stop\n%s", c.stderr)
		_ = c.cmd.Process.Signal(syscall.SIGQUIT)
		c.t.Logf("%v\n%s", <-c.ended, c.stderr)
	}
	c.cmd = nil
}

// remove is end, and removes the directory.
func (c *cluster) remove() {
	c.end()
	if err := os.RemoveAll(c.dir); err != nil {
		c.t.Error(err)
	}
}

// end stops everything, once, and checks that only the directory is left.
func (c *cluster) end() {
	if c.over {
		return
	}
	c.over = true
	if c.t.Failed() {
		c.showLog()
	}
	if c.cmd == nil {
		// Processes left by a test that kills are adopted, and then stopped.
		if _, err := os.Stat(filepath.Join(c.dir, "containerd")); err == nil {
			c.start()
		}
	}
	if c.cmd != nil {
		c.stop()
	}
	c.endAudit()
	// A process told to end takes a moment.
	for range 60 {
		if len(leftovers(c.dir)) == 0 {
			return
		}
		after(50 * time.Millisecond)
	}
	for _, left := range leftovers(c.dir) {
		c.t.Errorf("left: %s", left)
	}
}

func (c *cluster) showLog() {
	text, err := os.ReadFile(filepath.Join(c.dir, "dev.log"))
	if err != nil {
		c.t.Log(err)
		return
	}
	lines := strings.Split(string(text), "\n")
	c.t.Logf("the end of the log:\n%s", strings.Join(lines[max(0, len(lines)-60):], "\n"))
}

// leftovers lists the processes and mounts of a directory.
func leftovers(dir string) []string {
	var left []string
	files, _ := filepath.Glob("/proc/[0-9]*/cmdline")
	for _, file := range files {
		if text, err := os.ReadFile(file); err == nil && strings.Contains(string(text), dir) {
			left = append(left, file+" "+strings.ReplaceAll(string(text), "\x00", " "))
		}
	}
	mounts, _ := os.ReadFile("/proc/self/mountinfo")
	for line := range strings.Lines(string(mounts)) {
		// The test's own file systems are mounted at the directory itself.
		if strings.Contains(line, dir+"/") {
			left = append(left, line)
		}
	}
	return left
}

// outcome is the result of a command.
type outcome struct {
	out, err string
	code     int
}

// escher runs a command against the cluster.
func (c *cluster) escher(args ...string) outcome {
	c.t.Helper()
	return command(c.t, []string{"ESCHER_DIR=" + c.dir}, args...)
}

func command(t *testing.T, env []string, args ...string) outcome {
	t.Helper()
	var out, errs bytes.Buffer
	cmd := exec.CommandContext(t.Context(), built.escher, args...)
	cmd.Env = append(os.Environ(), env...)
	cmd.Stdout, cmd.Stderr = &out, &errs
	err := cmd.Run()
	if exit, ok := errors.AsType[*exec.ExitError](err); ok {
		return outcome{out.String(), errs.String(), exit.ExitCode()}
	}
	if err != nil {
		t.Fatal(err)
	}
	return outcome{out.String(), errs.String(), 0}
}

// must runs a command that succeeds, and returns its output without the final newline.
func (c *cluster) must(args ...string) string {
	c.t.Helper()
	o := c.escher(args...)
	if o.code != 0 {
		c.t.Fatalf("escher %s: exit code %d\n%s%s", strings.Join(args, " "), o.code, o.out, o.err)
	}
	return strings.TrimSuffix(o.out, "\n")
}

// task is a task as ps prints it.
type task struct {
	ID       string `json:"id"`
	Phase    string `json:"phase"`
	Node     string `json:"node"`
	Attempt  int    `json:"attempt"`
	ExitCode int    `json:"exitCode"`
	Reason   string `json:"reason"`
}

// tasks returns all tasks by id.
func (c *cluster) tasks() map[string]task {
	c.t.Helper()
	var list []task
	if err := json.Unmarshal([]byte(c.must("ps", "-a", "-o", "json")), &list); err != nil {
		c.t.Fatal(err)
	}
	all := make(map[string]task)
	for _, x := range list {
		all[x.ID] = x
	}
	return all
}

// revision returns the revision of the store.
func (c *cluster) revision() int64 {
	c.t.Helper()
	var state struct{ Revision int64 }
	if err := json.Unmarshal([]byte(c.must("state", "-o", "json")), &state); err != nil {
		c.t.Fatal(err)
	}
	return state.Revision
}
