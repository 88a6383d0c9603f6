//go:build linux

package dev

import (
	"context"

	"github.com/escher-sched/escher/cmd/escher/internal/parts"
	"github.com/escher-sched/escher/controlplane"
	"github.com/escher-sched/escher/types"
)

// awaitIdle returns when nothing is bound to any node.
func awaitIdle(ctx context.Context, store controlplane.Store, stuck map[string]bool) error {
	bound := make(map[string]bool)
	return parts.Await(ctx, store, controlplane.Prefix(controlplane.Bindings), func(u controlplane.Update) bool {
		for _, e := range u.Events {
			bound[e.Key] = !e.Delete && !stuck[e.Key] && controlplane.Read(e.KV, new(types.Binding))
		}
		return count(bound) == 0
	})
}

func count(m map[string]bool) int {
	n := 0
	for _, is := range m {
		if is {
			n++
		}
	}
	return n
}

// stoppingReason marks the cordons of a cluster that is being stopped.
const stoppingReason = "escher dev is stopping"

// welcome removes the cordons that stopping left.
func (c *running) welcome(ctx context.Context) error {
	cordons, _, err := controlplane.ListAll(ctx, c.store, controlplane.ListOptions{Prefix: controlplane.Prefix(controlplane.Cordons)})
	if err != nil {
		return err
	}
	for _, kv := range cordons {
		var cordon types.Cordon
		if !controlplane.Read(kv, &cordon) || cordon.Reason != stoppingReason {
			continue
		}
		change := controlplane.NewChange(controlplane.NewBatch())
		change.IfUnchanged(kv.Key, kv.ModRevision)
		change.Delete(kv.Key)
		if _, err := controlplane.Commit(ctx, c.store, change.Txn()); err != nil {
			return err
		}
	}
	return nil
}

// cordon keeps waiting tasks from being bound while the cluster stops.
func (c *running) cordon(ctx context.Context) error {
	for _, node := range c.cfg.nodes() {
		change := controlplane.NewChange(controlplane.NewBatch())
		change.IfUnchanged(controlplane.CordonKey(node), 0)
		change.Put(controlplane.CordonKey(node), &types.Cordon{Reason: stoppingReason})
		// An existing cordon is enough.
		if _, err := controlplane.Commit(ctx, c.store, change.Txn()); err != nil {
			return err
		}
	}
	return nil
}
