//go:build linux

package dev

import (
	"context"
	"slices"

	"github.com/escher-sched/escher/nodeagent"
)

// retired returns the nodes that ran here before and do not now.
func (c *running) retired() ([]string, error) {
	before, err := c.cfg.Dir.formerNodes()
	if err != nil {
		return nil, err
	}
	return slices.DeleteFunc(before, func(node string) bool { return contains(c.cfg.nodes(), node) }), nil
}

// retire ends the containers of such nodes. No other process would, and their tasks run elsewhere
// once the nodes are lost.
func (c *running) retire(ctx context.Context) error {
	nodes, err := c.retired()
	if err != nil {
		return err
	}
	for _, node := range nodes {
		r, closeRuntime, err := c.runtime(node)
		if err != nil {
			return err
		}
		if err := removeAll(ctx, r); err != nil {
			return err
		}
		if err := closeRuntime(); err != nil {
			return err
		}
	}
	return nil
}

func removeAll(ctx context.Context, r nodeagent.Runtime) error {
	left, err := r.List(ctx)
	if err != nil {
		return err
	}
	for _, x := range left {
		if err := r.Remove(ctx, x.ID); err != nil {
			return err
		}
	}
	return nil
}
