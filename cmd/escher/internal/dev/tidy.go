package dev

import (
	"os"
	"path/filepath"
)

// tidy removes what containerd and runc leave behind of a containerd namespace when
// its last container has gone: forgotten shims, a directory for runc's state, and one
// in each hierarchy of cgroups. Directories that are not empty stay.
func (c *running) tidy() {
	namespace := c.info.ContainerdNamespace
	if !c.empty || namespace == "" {
		return
	}
	endShims(namespace, c.cfg.Log)
	for _, pattern := range []string{"/run/containerd/runc", "/sys/fs/cgroup", "/sys/fs/cgroup/*"} {
		// A pattern that is well-formed has no error.
		parents, _ := filepath.Glob(pattern)
		for _, parent := range parents {
			_ = os.Remove(filepath.Join(parent, namespace)) // in use, or not there
		}
	}
}
