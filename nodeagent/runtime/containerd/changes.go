package containerd

import (
	"context"
	"fmt"
)

// Changes implements nodeagent.Runtime. The hints are about all containers of
// the containerd namespace: events carry no labels. It first removes what crashes of agent
// or daemon have left of tasks that are no more.
func (r *Runtime) Changes(ctx context.Context) <-chan struct{} {
	hints := make(chan struct{}, 1)
	ctx, cancel := context.WithCancel(ctx)
	filter := fmt.Sprintf("namespace==%q,topic~=%q", r.conf.Namespace, "^/tasks/")
	events, failed := r.client.EventService().Subscribe(ctx, filter)
	go func() {
		defer cancel()
		defer close(hints)
		// Whoever asks was away, or containerd was: that is when things are left behind.
		// What cannot be removed now is tried again next time.
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
			default: // One hint that waits stands for all.
			}
		}
	}()
	return hints
}
