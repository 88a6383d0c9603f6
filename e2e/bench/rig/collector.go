package rig

import (
	"context"
	"time"

	"github.com/escher-sched/escher/controlplane/server"
)

const (
	// keepFinished is how long the collector keeps finished tasks, and compactEvery its compaction
	// interval: short enough for all of it to happen within a measurement.
	keepFinished = 8 * time.Second
	compactEvery = 4 * time.Second
)

// StartCollector starts the collector, which keeps finished tasks briefly.
func (c *Cluster) StartCollector(ctx context.Context) error {
	policy := server.DefaultPolicy()
	policy.Interval, policy.KeepMin, policy.KeepAge = compactEvery, keepFinished, keepFinished
	policy.SpecGrace, policy.OrphanGrace = time.Minute, time.Minute
	p, err := c.Start(roleCollector, roleCollector, RoleConfig{Endpoint: c.Endpoint, Ops: c.Config.Ops, Policy: &policy})
	if err != nil {
		return err
	}
	_, err = p.Ready(ctx)
	return err
}
