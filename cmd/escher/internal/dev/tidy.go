package dev

import (
	"os"
	"path/filepath"
)

// tidy removes what runc leaves behind of a containerd namespace when its last
// container has gone: a directory for its state, and one in each hierarchy of
// cgroups. Those that are not empty stay.
func (c *running) tidy() {
	namespace := c.info.ContainerdNamespace
	if namespace == "" {
		return
	}
	for _, pattern := range []string{"/run/containerd/runc", "/sys/fs/cgroup", "/sys/fs/cgroup/*"} {
		// A pattern that is well-formed has no error.
		parents, _ := filepath.Glob(pattern)
		for _, parent := range parents {
			_ = os.Remove(filepath.Join(parent, namespace)) // in use, or not there
		}
	}
}
