package cgroup_test

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"testing"
	"time"

	"github.com/escher-sched/escher/nodeagent/machine/cgroup"
	"github.com/escher-sched/escher/types"
)

// machine makes a cgroup on this machine, in each tree that accepts processes at once.
func machine(t *testing.T) (path string, dirs []string) {
	t.Helper()
	path = "/escher-test-" + strconv.Itoa(os.Getpid()) + "/" + t.Name()
	trees := []string{cgroup.DefaultRoot}
	if !cgroup.Unified(cgroup.DefaultRoot) {
		trees = []string{filepath.Join(cgroup.DefaultRoot, "pids"), filepath.Join(cgroup.DefaultRoot, "freezer")}
	}
	for _, tree := range trees {
		dir := filepath.Join(tree, path)
		if err := os.MkdirAll(dir, 0o755); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			for _, d := range []string{filepath.Join(dir, "inner"), dir, filepath.Dir(dir)} {
				_ = os.Remove(d) // The last may be that of another test.
			}
		})
		dirs = append(dirs, dir)
	}
	return path, dirs
}

func join(t *testing.T, dirs []string, pid int) {
	t.Helper()
	for _, dir := range dirs {
		if err := os.WriteFile(filepath.Join(dir, "cgroup.procs"), []byte(strconv.Itoa(pid)), 0o600); err != nil {
			t.Fatal(err)
		}
	}
}

// shell starts a script that waits for a line, and moves it into dirs before.
func shell(t *testing.T, dirs []string, script string) *exec.Cmd {
	t.Helper()
	cmd := exec.Command("sh", "-c", "read go; "+script)
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = cmd.Process.Kill() })
	join(t, dirs, cmd.Process.Pid)
	if _, err := in.Write([]byte("\n")); err != nil {
		t.Fatal(err)
	}
	return cmd
}

func kill(t *testing.T, path string, what ...*exec.Cmd) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	if err := cgroup.Kill(ctx, cgroup.DefaultRoot, path); err != nil {
		t.Fatal(err)
	}
	for _, cmd := range what {
		if err := cmd.Wait(); err == nil || cmd.ProcessState.ExitCode() != -1 {
			t.Errorf("ended with %v, want it killed", err)
		}
	}
	if left, err := cgroup.Procs(cgroup.DefaultRoot, path); err != nil || len(left) > 0 {
		t.Errorf("left are %v, %v", left, err)
	}
}

// TestKillForking kills a process that replaces itself as fast as it can.
func TestKillForking(t *testing.T) {
	path, dirs := machine(t)
	limit := filepath.Join(dirs[0], "pids.max")
	if err := os.WriteFile(limit, []byte("40"), 0o600); err != nil && !cgroup.Unified(cgroup.DefaultRoot) {
		t.Fatal(err)
	}
	// A shell that cannot fork ends, so no more is forked at a time than the limit allows.
	kill(t, path, shell(t, dirs, `f() { while :; do ( (:) ); done; }; f & f & f & exec sleep 1000`))
}

// TestKillFrozen kills frozen processes, and processes in cgroups below.
func TestKillFrozen(t *testing.T) {
	path, dirs := machine(t)
	var inner []string
	for _, dir := range dirs {
		d := filepath.Join(dir, "inner")
		if err := os.Mkdir(d, 0o755); err != nil {
			t.Fatal(err)
		}
		inner = append(inner, d)
	}
	outside, inside := shell(t, dirs, "sleep 1000"), shell(t, inner, "sleep 1000")
	for file, word := range map[string]string{"freezer.state": "FROZEN", "cgroup.freeze": "1"} {
		for _, d := range inner {
			if f, err := os.OpenFile(filepath.Join(d, file), os.O_WRONLY, 0); err == nil {
				_, _ = f.WriteString(word)
				_ = f.Close()
			}
		}
	}
	kill(t, path, outside, inside)
}

// TestKillGivesUp tests that the error has the remaining processes when the time is over.
func TestKillGivesUp(t *testing.T) {
	cmd := exec.Command("sleep", "1000")
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() { _ = cmd.Process.Kill(); _ = cmd.Wait() }()
	// This is not the kernel's file: the process never leaves it.
	root := fixture(t, map[string]string{"pids/escher/web-1/cgroup.procs": strconv.Itoa(cmd.Process.Pid) + "\n"})
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := cgroup.Kill(ctx, root, "/escher/web-1"); !types.Is(err, types.Unavailable) {
		t.Errorf("kill: %v, want unavailable", err)
	}
}
