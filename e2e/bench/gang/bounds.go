package gang

import (
	"context"
	"sync"
	"time"

	"github.com/escher-sched/escher/controlplane"
	"github.com/escher-sched/escher/types"
)

// bounds signals when an expected number of tasks is seen to be bound.
type bounds struct {
	synced chan struct{}
	mu     sync.Mutex
	left   int
	done   chan time.Time
}

func newBounds() *bounds { return &bounds{synced: make(chan struct{})} }

// ready waits until the watch has begun.
func (b *bounds) ready(ctx context.Context) error {
	select {
	case <-b.synced:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// expect returns a channel for the time at which n more tasks are bound.
func (b *bounds) expect(n int) <-chan time.Time {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.left, b.done = n, make(chan time.Time, 1)
	return b.done
}

// watch follows all tasks of the namespace.
func (b *bounds) watch(ctx context.Context, client *controlplane.Client) error {
	return client.Watch(ctx, controlplane.WatchTasks{}, func(u controlplane.StatusUpdate) error {
		if u.Synced {
			close(b.synced)
		}
		b.mu.Lock()
		defer b.mu.Unlock()
		for _, c := range u.Changes {
			if c.Status == nil || c.Status.Phase != types.Bound {
				continue
			}
			if b.left--; b.left == 0 {
				b.done <- time.Now()
			}
		}
		return nil
	})
}

// clear ends everything bound, like agents would, and removes what is left.
func (sc *spaceCluster) clear(ctx context.Context) error {
	for _, step := range []func() error{
		func() error { return sc.reportAll(ctx) },
		func() error { return sc.WaitGone(ctx, controlplane.Bindings) },
		func() error { return sc.removeAll(ctx, controlplane.Reservations, controlplane.Policies) },
		func() error { return sc.WaitGone(ctx, controlplane.Grants) },
		func() error {
			return sc.removeAll(ctx, controlplane.Jobs, controlplane.Tasks, controlplane.Statuses, controlplane.Specs)
		},
	} {
		if err := step(); err != nil {
			return err
		}
	}
	return nil
}

// reportAll reports the end of everything bound.
func (sc *spaceCluster) reportAll(ctx context.Context) error {
	kvs, err := sc.Keys(ctx, controlplane.Bindings)
	if err != nil {
		return err
	}
	x := controlplane.NewChange(controlplane.NewBatch())
	for _, kv := range kvs {
		k, _ := controlplane.Parse(kv.Key)
		x.Put(controlplane.ReportKey(k.Node, k.Namespace, k.ID, k.Attempt), &types.Report{Phase: types.ReportExited, Binding: kv.CreateRevision})
	}
	_, err = controlplane.Commit(ctx, sc.Store, x.Txn())
	return err
}

// removeAll deletes all keys of some kinds.
func (sc *spaceCluster) removeAll(ctx context.Context, kinds ...controlplane.Kind) error {
	x := controlplane.NewChange(controlplane.NewBatch())
	for _, kind := range kinds {
		kvs, err := sc.Keys(ctx, kind)
		if err != nil {
			return err
		}
		for _, kv := range kvs {
			x.Delete(kv.Key)
		}
	}
	if _, ops := x.Size(); ops == 0 {
		return nil
	}
	_, err := controlplane.Commit(ctx, sc.Store, x.Txn())
	return err
}
