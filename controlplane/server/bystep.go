package server

import (
	"cmp"
	"context"
	"slices"
	"strings"
	"time"

	"github.com/escher-sched/escher/controlplane"
)

// The functions below replace Run for callers with their own clock and without goroutines.

// FollowedKinds returns the kinds of keys that a Collector follows.
func FollowedKinds() []controlplane.Kind { return followed() }

// Refresh reads all keys of a kind. The collector knows each kind as of its last Refresh.
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

// Once does everything due as far as is known, and nothing before every kind is known. Errors come
// from the store. Conflict: a compare of the guard no longer holds.
func (c *Collector) Once(ctx context.Context, now time.Time) error {
	for more := true; more; {
		var err error
		if more, err = c.runPass(ctx, now); err != nil {
			return err
		}
	}
	return nil
}

// inOrder sorts steps by their keys.
func inOrder(steps []step) []step {
	slices.SortStableFunc(steps, func(a, b step) int { return strings.Compare(a.key, b.key) })
	return steps
}
