package dev

import (
	"context"
	"errors"

	"github.com/escher-sched/escher/controlplane"
	"github.com/escher-sched/escher/types"
)

// awaitAlive returns when all of these nodes are alive.
func awaitAlive(ctx context.Context, store controlplane.Store, nodes []string) error {
	missing := make(map[string]bool)
	for _, n := range nodes {
		missing[controlplane.AliveKey(n)] = true
	}
	return await(ctx, store, controlplane.Prefix(controlplane.Alive), func(u controlplane.Update) bool {
		for _, e := range u.Events {
			if _, ours := missing[e.Key]; ours {
				missing[e.Key] = e.Delete
			}
		}
		return count(missing) == 0
	})
}

// awaitIdle returns when nothing is bound to any node.
func awaitIdle(ctx context.Context, store controlplane.Store) error {
	bound := make(map[string]bool)
	return await(ctx, store, controlplane.Prefix(controlplane.Bindings), func(u controlplane.Update) bool {
		for _, e := range u.Events {
			bound[e.Key] = !e.Delete
		}
		return count(bound) == 0
	})
}

// await watches a prefix until seen returns true.
func await(ctx context.Context, store controlplane.Store, prefix string, seen func(controlplane.Update) bool) error {
	err := controlplane.ListWatch(ctx, store, controlplane.ListWatchOptions{Prefix: prefix}, func(u controlplane.Update) error {
		if seen(u) {
			return errReached
		}
		return nil
	})
	if errors.Is(err, errReached) {
		return nil
	}
	return err
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
		if err := types.Decode(kv.Value, &cordon); err != nil {
			return err
		}
		if cordon.Reason != stoppingReason {
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

// cordon keeps what waits from being bound while the cluster is being stopped.
func (c *running) cordon(ctx context.Context) error {
	for _, node := range c.cfg.nodes() {
		change := controlplane.NewChange(controlplane.NewBatch())
		change.IfUnchanged(controlplane.CordonKey(node), 0)
		change.Put(controlplane.CordonKey(node), &types.Cordon{Reason: stoppingReason})
		// One that is there already is as good.
		if _, err := controlplane.Commit(ctx, c.store, change.Txn()); err != nil {
			return err
		}
	}
	return nil
}
