package rig

import (
	"context"
	"errors"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/escher-sched/escher/controlplane"
	"github.com/escher-sched/escher/controlplane/etcdstore"
	"github.com/escher-sched/escher/e2e/bench/agents"
	"github.com/escher-sched/escher/types"
)

const (
	// agentConnections is the number of connections that all hollow agents share.
	agentConnections = 100
	// agentsOnConnection is the number of hollow agents per connection, until the number of
	// connections reaches that limit.
	agentsOnConnection = 10
	// agentTTL is the time to live of their sessions.
	agentTTL = 15 * time.Second
)

// WithAgents runs f while each node has a hollow agent in this process.
func (c *Cluster) WithAgents(ctx context.Context, nodes []string, runFor func(controlplane.Key, *types.Binding) time.Duration, f func(context.Context) error) (err error) {
	var stores []controlplane.Store
	for range min(agentConnections, 1+len(nodes)/agentsOnConnection) {
		s, err := c.dialAs(c.gateway)
		if err != nil {
			return err
		}
		defer func() { err = errors.Join(err, s.Close()) }()
		stores = append(stores, s)
	}
	running, stop := context.WithCancel(ctx)
	defer stop()
	g, running := errgroup.WithContext(running)
	ready := make(chan struct{})
	g.Go(func() error {
		return agents.Run(running, agents.Config{
			Stores: stores, Nodes: nodes, TTL: agentTTL, RunFor: runFor, Ready: func() { close(ready) },
		})
	})
	g.Go(func() error {
		defer stop()
		select {
		case <-ready:
			return f(running)
		case <-running.Done():
			return context.Cause(running)
		}
	})
	if err := g.Wait(); err != nil && (ctx.Err() != nil || !errors.Is(err, context.Canceled)) {
		return err
	}
	return nil
}

// Attend starts an agent for each node, which ends with the cluster, and waits until all are alive.
func Attend(ctx context.Context, c *Cluster, h *Hollow) error {
	cfg := agents.Config{TTL: agentTTL}
	for i := range h.Nodes {
		cfg.Nodes = append(cfg.Nodes, NodeName(i))
	}
	for range min(agentConnections, len(h.Nodes)) {
		s, err := c.dialAs(c.gateway, etcdstore.SharedWatches())
		if err != nil {
			return err
		}
		c.AtEnd(s.Close)
		cfg.Stores = append(cfg.Stores, s)
	}
	ready, ended := make(chan struct{}), make(chan struct{})
	cfg.Ready = func() { close(ready) }
	ctx, stop := context.WithCancel(ctx)
	go func() {
		defer close(ended)
		if err := agents.Run(ctx, cfg); ctx.Err() == nil {
			c.failed(err)
		}
	}()
	c.AtEnd(func() error {
		stop()
		<-ended
		return nil
	})
	select {
	case <-ready:
		return nil
	case <-ended:
		return context.Cause(c.ctx)
	}
}
