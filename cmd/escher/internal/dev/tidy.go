package dev

import "github.com/escher-sched/escher/nodeagent/runtime/containerd"

// tidy removes what runc leaves behind of a containerd namespace when its last
// container has gone.
func (c *running) tidy() {
	if namespace := c.info.ContainerdNamespace; namespace != "" {
		_ = containerd.DropCgroups(namespace) // what is in use stays
	}
}
