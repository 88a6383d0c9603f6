package containerd

import (
	"context"
	"fmt"
)

// Changes implements nodeagent.Runtime. The hints cover all containers of the containerd namespace:
// events carry no labels. At first it removes what crashes of agent or daemon left of tasks that
// are gone.
func (r *Runtime) Changes(ctx context.Context) <-chan struct{} {
	hints := make(chan struct{}, 1)
	ctx, cancel := context.WithCancel(ctx)
	filter := fmt.Sprintf("namespace==%q,topic~=%q", r.conf.Namespace, "^/tasks/")
	events, failed := r.client.EventService().Subscribe(ctx, filter)
	go func() {
		defer cancel()
		defer close(hints)
		// After an absence of agent or containerd, something may be left behind. The next call
		// retries what cannot be removed now.
		_ = r.endForgotten(ctx)
		for {
			select {
			case <-events:
			case <-failed: //nolint:errcheck // Why it failed, the next call will say.
				return
			case <-ctx.Done():
				return
			}
			select {
			case hints <- struct{}{}:
			default: // One pending hint is enough.
			}
		}
	}()
	return hints
}
