package containerdtest

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// checkNothingLeft fails the test for each process, mount and cgroup of the host that outlives its
// containers.
func (h *Host) checkNothingLeft(t *testing.T) {
	t.Helper()
	mounts, err := os.ReadFile("/proc/self/mounts")
	must(t, err)
	for line := range strings.Lines(string(mounts)) {
		if strings.Contains(line, h.Dir) {
			t.Errorf("left mounted: %s", line)
		}
	}
	for _, pattern := range []string{"/sys/fs/cgroup/", "/sys/fs/cgroup/*/", "/run/containerd/runc/"} {
		left, err := filepath.Glob(pattern + h.Namespace)
		must(t, err)
		for _, path := range left {
			t.Errorf("left behind: %s", path)
		}
	}
	for pid, command := range h.Processes(t, h.Namespace) {
		t.Errorf("left running: %s %s", pid, command)
	}
}

// Processes returns the command lines of all processes that contain text, by process id.
func (h *Host) Processes(t *testing.T, text string) map[string]string {
	t.Helper()
	paths, err := filepath.Glob("/proc/[0-9]*/cmdline")
	must(t, err)
	found := make(map[string]string)
	for _, path := range paths {
		raw, err := os.ReadFile(path)
		if err != nil {
			continue // It has ended.
		}
		command := strings.ReplaceAll(string(raw), "\x00", " ")
		if strings.Contains(command, text) {
			found[filepath.Base(filepath.Dir(path))] = command
		}
	}
	return found
}
