package simruntime

import (
	"context"
)

// Changes implements nodeagent.Runtime.
func (r *Runtime) Changes(ctx context.Context) <-chan struct{} {
	hints := make(chan struct{}, 1)
	ctx, cancel := context.WithCancel(ctx)
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.isDown() {
		cancel()
	}
	r.watchers[hints] = cancel
	context.AfterFunc(ctx, func() {
		r.mu.Lock()
		defer r.mu.Unlock()
		delete(r.watchers, hints)
		close(hints)
		cancel()
	})
	return hints
}

// hint wakes all watchers.
func (r *Runtime) hint() {
	for hints := range r.watchers {
		select {
		case hints <- struct{}{}:
		default: // One pending hint is enough.
		}
	}
}
