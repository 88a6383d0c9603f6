package server

import (
	"cmp"
	"context"
	"slices"
	"strings"
	"time"

	"github.com/escher-sched/escher/controlplane"
)

// What follows is for who has a clock of their own, and no goroutines, instead of Run.

// Followed returns the kinds of keys that a Collector goes by.
func Followed() []controlplane.Kind { return followed() }

// Refresh has the collector know all keys of a kind as they are now. Each kind is known as
// of when it was refreshed last.
func (c *Collector) Refresh(ctx context.Context, now time.Time, kind controlplane.Kind) error {
	kvs, revision, err := controlplane.ListAll(ctx, c.store, controlplane.ListOptions{Prefix: controlplane.Prefix(kind)})
	if err != nil {
		return err
	}
	slices.SortFunc(kvs, func(a, b controlplane.KV) int { return cmp.Compare(a.ModRevision, b.ModRevision) })
	u := controlplane.Update{Revision: revision, Synced: true}
	keys := make(map[string]bool, len(kvs))
	for _, kv := range kvs {
		keys[kv.Key] = true
		u.Events = append(u.Events, controlplane.Event{KV: kv})
	}
	u.Has = func(key string) bool { return keys[key] }
	return c.applyAt(now, kind, u)
}

// Once does what is to be done as far as is known, nothing before all kinds are. Errors are
// of the store; Conflict: a compare of the guard does not hold any more.
func (c *Collector) Once(ctx context.Context, now time.Time) error {
	for more := true; more; {
		var err error
		if more, err = c.look(ctx, now); err != nil {
			return err
		}
	}
	return nil
}

// inOrder sorts steps by what they are about.
func inOrder(steps []step) []step {
	slices.SortStableFunc(steps, func(a, b step) int { return strings.Compare(a.key, b.key) })
	return steps
}
