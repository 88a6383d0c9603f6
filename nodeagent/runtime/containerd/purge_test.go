package containerd_test

import (
	"errors"
	"os"
	"path/filepath"
	"strconv"
	"testing"

	"github.com/escher-sched/escher/nodeagent/runtime/containerd"
)

// TestDropCgroups makes the rest of an interrupted start: the cgroup of a container that never
// existed.
func TestDropCgroups(t *testing.T) {
	namespace := "escher-test-" + strconv.Itoa(os.Getpid())
	parent := "/sys/fs/cgroup"
	if _, err := os.Stat(filepath.Join(parent, "cgroup.controllers")); err != nil {
		parent = filepath.Join(parent, "pids")
	}
	if err := os.MkdirAll(filepath.Join(parent, namespace, "task-1-abc"), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := containerd.DropCgroups(namespace); err != nil {
		t.Error(err)
	}
	if _, err := os.Stat(filepath.Join(parent, namespace)); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("it is left: %v", err)
	}
}
