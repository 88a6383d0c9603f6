//go:build linux

package dev

import (
	"context"
	"errors"
	"syscall"
	"time"

	"go.uber.org/zap"

	"github.com/escher-sched/escher/controlplane"
	"github.com/escher-sched/escher/nodeagent/runtime/containerd"
	"github.com/escher-sched/escher/types"
	"github.com/escher-sched/escher/types/words"
)

const (
	// stopGrace is how long tasks have between their stop signal and the kill when the cluster
	// stops.
	stopGrace = 5 * time.Second
	// stopWait is how long the cluster waits for tasks to end.
	stopWait = 30 * time.Second
	// removedEvery is how often runtimes are asked for remaining containers.
	removedEvery = 20 * time.Millisecond
)

// stopTasks ends running tasks; waiting tasks wait until the cluster runs again.
func (c *running) stopTasks(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), stopWait)
	defer cancel()
	if err := c.cordon(ctx); err != nil {
		return err
	}
	bindings, _, err := controlplane.ListAll(ctx, c.store, controlplane.ListOptions{Prefix: controlplane.Prefix(controlplane.Bindings)})
	if err != nil {
		return err
	}
	if len(bindings) > 0 {
		c.cfg.Progress("stopping %s; interrupt again to leave them running", words.Count(len(bindings), "task"))
	}
	stuck := make(map[string]bool)
	for _, kv := range bindings {
		k, ok := controlplane.Parse(kv.Key)
		if !ok {
			continue
		}
		stops, err := c.stopTask(ctx, k)
		if err == nil && !stops {
			stuck[kv.Key] = true
			err = c.kill(ctx, k)
		}
		if err != nil {
			return err
		}
	}
	idle := make(chan error, 1)
	go func() { idle <- awaitIdle(ctx, c.store, stuck) }()
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

// awaitRemoved returns when agents have removed ended containers. Without that wait, they would
// leave them to the next start.
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

// stopTask stops the task of a binding, and reports whether a scheduler will release it: not if the
// task, its status or its namespace is unreadable.
func (c *running) stopTask(ctx context.Context, k controlplane.Key) (stops bool, err error) {
	client, err := controlplane.New(c.store, k.Namespace)
	if err != nil {
		return false, err
	}
	state, err := client.Status(ctx, k.ID)
	if err == nil {
		err = client.Stop(ctx, k.ID, controlplane.StopOptions{Reason: stoppingReason, Grace: stopGrace})
	}
	if types.Is(err, types.NotFound) || err == nil && state.Status == nil {
		c.cfg.Log.Warn("a binding without a readable task and status: what runs is killed", zap.String("task", k.ID), zap.Error(err))
		return false, nil
	}
	return err == nil, err
}

// kill kills the process of an attempt that cannot be stopped gracefully.
func (c *running) kill(ctx context.Context, k controlplane.Key) error {
	for _, r := range c.runtimes {
		there, err := r.List(ctx)
		if err != nil {
			return err
		}
		for _, seen := range there {
			a := seen.Attempt
			if a.Node != k.Node || a.Namespace != k.Namespace || a.Task != k.ID || a.Number != k.Attempt {
				continue
			}
			if err := r.Signal(ctx, seen.ID, syscall.SIGKILL); err != nil && !types.Is(err, types.NotFound) {
				return err
			}
		}
	}
	return nil
}
