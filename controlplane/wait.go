package controlplane

import (
	"context"
	"maps"
	"slices"
	"strings"

	"github.com/escher-sched/escher/types"
)

// Until is the phase that a waiter waits for. An ended task is past every phase.
type Until int

// The phases to wait for.
const (
	// UntilEnded waits until the task has ended for good.
	UntilEnded Until = iota
	// UntilRunning waits until the task runs.
	UntilRunning
	// UntilBound waits until the task has a node.
	UntilBound
	// UntilHealthy waits until the task runs and all of its checks, if any, pass.
	UntilHealthy
)

// reached reports whether a task with that status has reached the phase.
func (u Until) reached(s *types.Status) bool {
	switch {
	case s.Phase.Ended():
		return true
	case u == UntilRunning:
		return s.Phase == types.Running
	case u == UntilBound:
		return s.Phase.Held()
	case u == UntilHealthy:
		return s.Phase == types.Running && s.Health.Usable()
	}
	return false
}

// Wait returns the statuses of tasks, by id, once all of them have reached a phase; ids may be
// unique prefixes. All waiters together need at most two watches of the store.
//
// Unavailable: ctx is done; the statuses are those that reached the phase. NotFound: there is no
// such task, or it was removed.
func (c *Client) Wait(ctx context.Context, until Until, ids ...string) (map[string]types.Status, error) {
	w := &waiter{until: until, left: make(map[string]struct{}), found: make(map[string]types.Status), over: make(chan struct{})}
	if err := c.resolveAll(ctx, ids, w.left); err != nil {
		return nil, err
	}
	if len(w.left) == 0 {
		return w.found, nil
	}
	f := c.statuses.join(c.store, c.ns, w)
	defer c.statuses.leave(f, w)
	select {
	case <-w.over:
	case <-ctx.Done():
	}
	c.statuses.mu.Lock()
	defer c.statuses.mu.Unlock()
	switch {
	case w.err != nil:
		return w.found, types.Errorf(types.ClassOf(w.err), "wait: %w", w.err)
	case len(w.left) > 0:
		left := slices.Sorted(maps.Keys(w.left))
		return w.found, types.Errorf(types.Unavailable, "wait: %d of %d tasks have not reached the phase, such as %s: %w", len(left), len(left)+len(w.found), left[0], ctx.Err())
	}
	return w.found, nil
}

// resolveAll resolves ids: a few one by one, many by one scan.
func (c *Client) resolveAll(ctx context.Context, ids []string, into map[string]struct{}) error {
	var all []KV
	if len(ids) > few {
		var err error
		if all, _, err = ListAll(ctx, c.store, ListOptions{Prefix: Prefix(Tasks, c.ns), KeysOnly: true}); err != nil {
			return err
		}
	}
	for _, id := range ids {
		full, ok := onlyOne(all, TaskKey(c.ns, id))
		if !ok {
			// The last one asked for: a missing or ambiguous id ends the loop with its error.
			var err error
			if full, err = c.Resolve(ctx, id); err != nil {
				return err
			}
		}
		into[full] = struct{}{}
	}
	return nil
}

// onlyOne returns the id of the only key that equals or begins with key, among sorted keys.
func onlyOne(all []KV, key string) (id string, ok bool) {
	at, exact := slices.BinarySearchFunc(all, key, func(kv KV, key string) int { return strings.Compare(kv.Key, key) })
	begins := func(i int) bool { return i < len(all) && strings.HasPrefix(all[i].Key, key) }
	if !begins(at) || !exact && begins(at+1) {
		return "", false
	}
	k, ok := Parse(all[at].Key)
	return k.ID, ok
}
