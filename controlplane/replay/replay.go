// Package replay reads past changes of a store again.
package replay

import (
	"context"

	"github.com/escher-sched/escher/controlplane"
	"github.com/escher-sched/escher/types"
)

// Changes calls take, in order, with every change below a prefix after one revision, up to and
// including another revision that the store has reached. All changes of a revision are one call.
// Changes stops at and returns an error of take. Compacted: the store no longer has the whole range.
func Changes(ctx context.Context, s controlplane.Store, prefix string, after, until int64, take func([]controlplane.Event) error) error {
	if after >= until {
		return nil
	}
	ctx, cancel := context.WithCancel(ctx)
	batches := s.Watch(ctx, controlplane.WatchOptions{Prefix: prefix, From: after + 1})
	defer func() {
		cancel()
		for range batches {
			continue
		}
	}()
	for batch := range batches {
		switch {
		case batch.Err != nil:
			return batch.Err
		case batch.Revision <= until && len(batch.Events) > 0:
			if err := take(batch.Events); err != nil {
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
