//go:build linux

package dev

import (
	"context"
	"net"
	"path/filepath"

	"github.com/escher-sched/escher/api/secrets"
	"github.com/escher-sched/escher/cmd/escher/internal/ops"
	"github.com/escher-sched/escher/cmd/escher/internal/parts"
	"github.com/escher-sched/escher/nodeagent"
	"github.com/escher-sched/escher/nodeagent/machine/usage"
	"github.com/escher-sched/escher/nodeagent/runtime/containerd"
	"github.com/escher-sched/escher/types"
)

// agents starts the nodes.
func (c *running) agents(context.Context) error {
	capacity, err := parts.Capacity(c.cfg.Capacity)
	if err != nil {
		return err
	}
	if err := c.gpus(); err != nil {
		return err
	}
	metrics := nodeagent.NewMetrics()
	if err := c.registry.Register(metrics); err != nil {
		return err
	}
	used := usage.NewMetrics()
	if err := c.registry.Register(used); err != nil {
		return err
	}
	for i, node := range c.cfg.nodes() {
		if err := c.agent(node, capacity, c.cfg.ports(i), metrics, used); err != nil {
			return err
		}
	}
	return nil
}

// agent starts one node.
func (c *running) agent(node string, capacity types.Requests, ports nodeagent.PortRange, metrics *nodeagent.Metrics, used *usage.Metrics) error {
	runtime, closeRuntime, err := c.runtime(node)
	if err != nil {
		return err
	}
	c.runtimes = append(c.runtimes, runtime)
	service := secrets.Service{Store: c.store, Keys: c.secrets}
	return parts.Agent{
		Config: nodeagent.Config{
			Store: c.store, Runtime: runtime, Cluster: c.info.Cluster, Node: node, Version: c.cfg.Version, Host: "127.0.0.1",
			Capacity: capacity, Devices: c.devices(node), Labels: c.cfg.Labels[node], Ports: ports, AllowMounts: c.cfg.AllowMounts, Permissions: c.cfg.Permissions,
			StateDir: c.cfg.Dir.agent(node), Secrets: parts.OwnSecrets(service), Login: parts.OwnLogins(service), Metrics: metrics, Logger: c.cfg.Log.Named("agent"),
		},
		Usage: usage.Config{Metrics: used},
		Close: closeRuntime,
		Listen: func(sockets string) (net.Listener, string, error) {
			address := "unix://" + filepath.Join(sockets, apiSocket)
			l, err := ops.Listen("api", address)
			return l, address, err
		},
		Health: c.health, Metrics: c.metrics(),
	}.Start(c.stack)
}

// apiSocket is the file of the socket for a node's API, in the node's directory for sockets.
const apiSocket = "api.sock"

// runtime makes the container runtime of a node.
func (c *running) runtime(node string) (r nodeagent.Runtime, closeIt func() error, err error) {
	if c.cfg.Runtimes != nil {
		r, err = c.cfg.Runtimes(node)
		return r, func() error { return nil }, err
	}
	conf := c.info.runtime(node, c.cfg.Logger)
	conf.Pulls, conf.CDIDirs = &c.pulls, c.cdiDirs()
	real, err := containerd.New(conf)
	if err != nil {
		return nil, nil, err
	}
	return real, real.Close, nil
}
