package dev

import (
	"context"
	"errors"
	"time"

	"go.uber.org/zap"

	"github.com/escher-sched/escher/controlplane"
	"github.com/escher-sched/escher/nodeagent/containerd"
	"github.com/escher-sched/escher/types"
)

const (
	// stopGrace is how long tasks have between their stop signal and the kill
	// when the cluster is stopped.
	stopGrace = 5 * time.Second
	// stopWait is when the cluster is stopped although tasks have not ended.
	stopWait = 30 * time.Second
	// removedEvery is how often runtimes are asked what is left.
	removedEvery = 20 * time.Millisecond
)

// stopTasks ends what runs; what waits goes on waiting until the cluster runs again.
func (c *running) stopTasks(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), stopWait)
	defer cancel()
	if err := c.cordon(ctx); err != nil {
		return err
	}
	bindings, _, err := controlplane.ListAll(ctx, c.store, controlplane.ListOptions{Prefix: controlplane.Prefix(controlplane.Bindings), KeysOnly: true})
	if err != nil {
		return err
	}
	if len(bindings) > 0 {
		c.cfg.Progress("stopping %d tasks; interrupt again to leave them running", len(bindings))
	}
	for _, kv := range bindings {
		k, ok := controlplane.Parse(kv.Key)
		if !ok {
			continue
		}
		if err := c.stopTask(ctx, k); err != nil {
			return err
		}
	}
	idle := make(chan error, 1)
	go func() { idle <- awaitIdle(ctx, c.store) }()
	select {
	case err = <-idle:
	case err = <-c.stack.Failed:
		cancel()
		err = errors.Join(err, <-idle)
	}
	if err == nil {
		return c.awaitRemoved(ctx)
	}
	if ctx.Err() != nil && types.ClassOf(err) != types.Precondition {
		return types.Errorf(types.Unavailable, "stop tasks: some have not ended after %s: they are left running, and adopted when the cluster is started again", stopWait)
	}
	return err
}

// awaitRemoved returns when agents have removed what has ended: interrupted in that,
// they would leave it to the next start.
func (c *running) awaitRemoved(ctx context.Context) error {
	tick := time.NewTicker(removedEvery)
	defer tick.Stop()
	for _, r := range c.runtimes {
		for {
			if left, err := r.List(ctx); err == nil && len(left) == 0 {
				break
			}
			select {
			case <-ctx.Done():
				c.cfg.Log.Warn("containers are left; the next start removes them")
				return nil
			case err := <-c.stack.Failed:
				return err
			case <-tick.C:
			}
		}
	}
	if c.cfg.Runtimes != nil {
		return nil
	}
	return containerd.EndForgotten(ctx, c.info.Containerd, c.info.ContainerdNamespace)
}

func (c *running) stopTask(ctx context.Context, k controlplane.Key) error {
	client, err := controlplane.New(c.store, k.Namespace)
	if err != nil {
		return err
	}
	err = client.Stop(ctx, k.ID, controlplane.StopOptions{Reason: stoppingReason, Grace: stopGrace})
	if types.Is(err, types.NotFound) {
		c.cfg.Log.Warn("binding without a task", zap.String("task", k.ID))
		return nil
	}
	return err
}
