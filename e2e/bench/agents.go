package bench

import (
	"context"
	"errors"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/escher-sched/escher/controlplane"
	"github.com/escher-sched/escher/e2e/bench/agents"
	"github.com/escher-sched/escher/types"
)

// agentsOnConnection is the number of hollow agents per connection, until the number of connections
// reaches its limit.
const agentsOnConnection = 10

// withAgents runs f while each node has a hollow agent in this process.
func (c *cluster) withAgents(ctx context.Context, nodes []string, runFor func(controlplane.Key, *types.Binding) time.Duration, f func(context.Context) error) (err error) {
	var stores []controlplane.Store
	for range min(agentConnections, 1+len(nodes)/agentsOnConnection) {
		s, err := c.dial()
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
