package bench

import (
	"context"
	"time"

	"github.com/escher-sched/escher/controlplane/etcdstore"
	"github.com/escher-sched/escher/e2e/bench/agents"
)

const (
	// agentConnections is the number of connections that all hollow agents share.
	agentConnections = 100
	// agentTTL is the time to live of their sessions.
	agentTTL = 15 * time.Second
)

// runAgents measures binding while an agent for each node watches its bindings and renews its
// session; the agents start nothing.
func runAgents(ctx context.Context, cfg Config) ([]Row, error) {
	shape := new(txnShape)
	s, err := interleave(ctx, cfg, binding{name: "bind", shape: shape}.arm(), binding{name: "agents", draw: newAbsent, prepare: attend}.arm(), floorArm("floor", 0, shape))
	if err != nil {
		return nil, err
	}
	row := bindRow(cfg, s, "agents", "bind").detail("of_floor", ratios(s.of("agents", rate), s.of("floor", rate)))
	return []Row{*row.require(cfg.Must, target{figure: ratio, must: 0.6, aim: 0.8})}, nil
}

// newAbsent draws a cluster in which no node is alive yet.
func newAbsent(cfg Config) (*hollow, error) {
	h, err := newHollow(cfg)
	if err != nil {
		return nil, err
	}
	h.absent = true
	return h, nil
}

// attend starts an agent for each node, which ends with the cluster, and waits until all are alive.
func attend(ctx context.Context, c *cluster, h *hollow) error {
	cfg := agents.Config{TTL: agentTTL}
	for i := range h.nodes {
		cfg.Nodes = append(cfg.Nodes, nodeName(i))
	}
	for range min(agentConnections, len(h.nodes)) {
		s, err := c.dial(etcdstore.SharedWatches())
		if err != nil {
			return err
		}
		c.atEnd = append(c.atEnd, s.Close)
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
	c.atEnd = append(c.atEnd, func() error {
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
