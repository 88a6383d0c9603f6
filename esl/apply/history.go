package apply

import (
	"context"

	"github.com/escher-sched/escher/controlplane"
	"github.com/escher-sched/escher/types"
)

// history calls take, in order, with every change below a prefix after one revision, up to and
// including another revision that the store has reached. It stops at and returns an error of take.
// Compacted: the store no longer has the whole range.
func history(ctx context.Context, s controlplane.Store, prefix string, after, until int64, take func(controlplane.Event) error) error {
	ctx, cancel := context.WithCancel(ctx)
	batches := s.Watch(ctx, controlplane.WatchOptions{Prefix: prefix, From: after + 1})
	defer func() {
		cancel()
		for range batches {
			continue
		}
	}()
	for batch := range batches {
		if batch.Err != nil {
			return batch.Err
		}
		for _, e := range batch.Events {
			if e.ModRevision > until {
				return nil
			}
			if err := take(e); err != nil {
				return err
			}
		}
		if batch.Revision >= until {
			return nil
		}
	}
	if ctx.Err() != nil {
		return ctx.Err()
	}
	return types.Errorf(types.Unavailable, "watch %s: it ended without a reason", prefix)
}
