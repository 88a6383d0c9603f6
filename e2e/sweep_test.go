package e2e

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/escher-sched/escher/nodeagent/machine/cgroup"
	"github.com/escher-sched/escher/nodeagent/runtime/containerd"
)

// sweep ends the containers of the nodes below a directory, and every process with it in the
// command line, and removes it: nothing is left after a test, however it ended.
func sweep(t *testing.T, dir string) {
	t.Helper()
	groups := groupsBelow(dir)
	addresses, _ := filepath.Glob(filepath.Join(dir, tasksOf, "*/address"))
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	for _, group := range groups {
		// Without its shim, a container has no other mark.
		if err := cgroup.Kill(ctx, cgroup.DefaultRoot, "/"+group); err != nil {
			t.Error(err)
		}
	}
	for range 100 {
		pids := withCommand(dir)
		for _, pid := range pids {
			_ = syscall.Kill(pid, syscall.SIGKILL) // it may just have ended
		}
		if len(pids) == 0 {
			break
		}
		after(20 * time.Millisecond)
	}
	mounts, _ := os.ReadFile("/proc/self/mountinfo")
	for line := range strings.Lines(string(mounts)) {
		if at := strings.Fields(line)[4]; strings.HasPrefix(at, dir+"/") {
			_ = syscall.Unmount(at, syscall.MNT_DETACH) // remains are found below
		}
	}
	for _, address := range addresses {
		text, _ := os.ReadFile(address)                            // it may have ended in order
		_ = os.Remove(strings.TrimPrefix(string(text), "unix://")) // for a shim that cannot any more
	}
	for _, group := range groups {
		if err := os.RemoveAll(filepath.Join("/run/containerd/runc", group)); err != nil {
			t.Error(err)
		}
		// A process that a shim was about to start may still be active.
		if !eventually(func() bool {
			return errors.Join(cgroup.Kill(ctx, cgroup.DefaultRoot, "/"+group), containerd.DropCgroups(group)) == nil
		}) {
			t.Errorf("left: cgroup %s", group)
		}
	}
	if err := os.RemoveAll(dir); err != nil {
		t.Error(err)
	}
}

// tasksOf are the directories of private containerds for their namespaces, below the directory of a
// test, with one for each container.
const tasksOf = "*/containerd/*/io.containerd.runtime.v2.task/escher-*"

// groupsBelow returns the cgroups of the containers of private containerds below a directory. They
// have the names of containerd's namespaces, for each of which containerd keeps a directory,
// whether it runs or not.
func groupsBelow(dir string) []string {
	found, _ := filepath.Glob(filepath.Join(dir, tasksOf))
	for i, path := range found {
		found[i] = filepath.Base(path)
	}
	slices.Sort(found)
	return slices.Compact(found)
}

// TestSweep ends a process whose only mark is its cgroup.
func TestSweep(t *testing.T) {
	dir, err := os.MkdirTemp("/tmp", "escs-")
	if err != nil {
		t.Fatal(err)
	}
	group, root := filepath.Base(strings.Replace(dir, "escs-", "escher-e2e-", 1)), cgroup.DefaultRoot
	if !cgroup.Unified(root) {
		root = filepath.Join(root, "pids")
	}
	at := filepath.Join(root, group, "x")
	for _, path := range []string{at, filepath.Join(dir, "a/containerd/state/io.containerd.runtime.v2.task", group, "x")} {
		if err := os.MkdirAll(path, 0o700); err != nil {
			t.Fatal(err)
		}
	}
	orphan := exec.Command(built.program, "work", "1h")
	if err := orphan.Start(); err != nil {
		t.Fatal(err)
	}
	err = os.WriteFile(filepath.Join(at, "cgroup.procs"), []byte(strconv.Itoa(orphan.Process.Pid)), 0o600)
	if sweep(t, dir); err != nil {
		t.Error(err)
	}
	left, err := cgroup.Dirs(cgroup.DefaultRoot, "/"+group)
	if err != nil || len(left) > 0 {
		t.Errorf("left: %v, %v", left, err)
	}
	_ = orphan.Process.Signal(syscall.SIGTERM) // it ends by this if it still runs
	if err := orphan.Wait(); err == nil || err.Error() != "signal: killed" {
		t.Errorf("it ended with %v", err)
	}
}

// TestNetworkOverAnother makes a network over the remains of one whose host has processes.
func TestNetworkOverAnother(t *testing.T) {
	left := numbered(t, 0)
	orphan := left.on(left.add(), built.program, "work", "1h")
	if err := orphan.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _, _ = orphan.Process.Kill(), orphan.Wait() })
	if !eventually(func() bool {
		own, errOwn := os.Stat("/proc/self/ns/net")
		its, err := os.Stat("/proc/" + strconv.Itoa(orphan.Process.Pid) + "/ns/net")
		return errOwn == nil && err == nil && !os.SameFile(own, its)
	}) {
		t.Fatal("nothing runs on the host")
	}
	n := numbered(t, 0)
	n.add()
}
