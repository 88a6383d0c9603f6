package controlplane

import (
	"context"

	"github.com/escher-sched/escher/types"
)

// History calls take with every change below a prefix that came after one revision, up
// to another one that the store has reached, in order. An error of take ends it, and is
// returned. Compacted: the store has forgotten a part of it.
func History(ctx context.Context, s Store, prefix string, after, until int64, take func(Event) error) error {
	ctx, cancel := context.WithCancel(ctx)
	batches := s.Watch(ctx, WatchOptions{Prefix: prefix, From: after + 1})
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
