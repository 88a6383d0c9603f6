//go:build linux

package dev

import (
	"context"

	"github.com/escher-sched/escher/cmd/escher/internal/parts"
	"github.com/escher-sched/escher/nodeagent/fence/watchdog"
	"github.com/escher-sched/escher/nodeagent/machine/cgroup"
)

// watchdog starts one for all nodes. With Keep, it leaves tasks alone: no other cluster has them,
// and the next run adopts them.
func (c *running) watchdog(ctx context.Context) error {
	if c.cfg.Runtimes != nil {
		return nil // There are no processes.
	}
	k := watchdog.Keeper{
		Config: watchdog.Config{Dir: string(c.cfg.Dir)}, Program: c.cfg.Logger,
		Leave: func() bool { return c.cfg.Keep }, Logger: c.cfg.Log.Named("watchdog"),
	}
	for _, node := range c.cfg.nodes() {
		layout, err := c.cgroups(node)
		if err != nil {
			return err
		}
		k.Nodes = append(k.Nodes, watchdog.Node{Name: node, StateDir: c.cfg.Dir.agent(node), Cgroups: layout, Shared: true})
	}
	return parts.StartWatchdog(ctx, c.stack, k)
}

// cgroups returns the cgroups of the containers of a node.
func (c *running) cgroups(node string) (cgroup.Layout, error) {
	r, closeRuntime, err := c.runtime(node)
	if err != nil {
		return cgroup.Layout{}, err
	}
	var layout cgroup.Layout
	if real, ok := r.(interface{ Cgroups() cgroup.Layout }); ok {
		layout = real.Cgroups()
	}
	return layout, closeRuntime()
}
