//go:build linux

package dev

import "github.com/escher-sched/escher/nodeagent/runtime/containerd"

// runtime returns the configuration of the runtime of a node.
func (i Info) runtime(node, logger string) containerd.Config {
	return containerd.Config{
		Address: i.Containerd, Namespace: i.ContainerdNamespace, Cluster: i.Cluster, Node: node,
		Logger: containerd.Logger{Path: logger, Subcommand: LoggerSubcommand},
	}
}
