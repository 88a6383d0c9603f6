package dev

import (
	"context"
	"errors"
	"os"

	"github.com/escher-sched/escher/controlplane/server"
	"github.com/escher-sched/escher/nodeagent"
	"github.com/escher-sched/escher/nodeagent/containerd"
	"github.com/escher-sched/escher/types"
)

// LogPath returns the log of an attempt.
func (d Dir) LogPath(node, ns, id string, attempt int) string {
	return nodeagent.LogPath(d.agent(node), ns, id, attempt)
}

// agents starts the nodes.
func (c *running) agents(context.Context) error {
	capacity, err := c.cfg.capacity()
	if err != nil {
		return err
	}
	for _, node := range c.cfg.nodes() {
		if err := c.agent(node, capacity); err != nil {
			return err
		}
	}
	return nil
}

// agent starts one node.
func (c *running) agent(node string, capacity types.Requests) error {
	runtime, closeRuntime, err := c.runtime(node)
	if err != nil {
		return err
	}
	state := c.cfg.Dir.agent(node)
	if err := os.MkdirAll(state, 0o700); err != nil {
		return types.Errorf(types.Precondition, "make the directory of %s: %w", node, err)
	}
	sockets, err := server.MakeSocketDir(state)
	if err != nil {
		return err
	}
	agent, err := nodeagent.New(nodeagent.Config{
		Store: c.store, Runtime: runtime,
		Cluster: c.info.Cluster, Node: node, Address: "dev", Version: c.cfg.Version,
		Capacity: capacity, Labels: c.cfg.Labels[node], StateDir: state, SocketDir: sockets,
		Logger: c.cfg.Log.Named("agent"),
	})
	if err != nil {
		return errors.Join(err, closeRuntime())
	}
	c.runtimes = append(c.runtimes, runtime)
	c.stack.start("agent "+node, func(ctx context.Context) error {
		return errors.Join(agent.Run(ctx), closeRuntime())
	})
	return nil
}

// runtime makes what runs the containers of a node.
func (c *running) runtime(node string) (r nodeagent.Runtime, closeIt func() error, err error) {
	if c.cfg.Runtimes != nil {
		r, err = c.cfg.Runtimes(node)
		return r, func() error { return nil }, err
	}
	real, err := containerd.New(c.info.runtime(node, c.cfg.Logger))
	if err != nil {
		return nil, nil, err
	}
	return real, real.Close, nil
}
