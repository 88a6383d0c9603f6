//go:build linux

package dev

import "github.com/escher-sched/escher/nodeagent/runtime/containerd"

// tidy removes the cgroups that runc leaves after the last container of a containerd namespace.
func (c *running) tidy() {
	if namespace := c.info.ContainerdNamespace; namespace != "" {
		_ = containerd.DropCgroups(namespace) // those in use stay
	}
}
