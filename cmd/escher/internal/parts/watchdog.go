package parts

import (
	"context"
	"os"
	"sync"

	"github.com/escher-sched/escher/controlplane/supervise"
	"github.com/escher-sched/escher/nodeagent/fence/watchdog"
	"github.com/escher-sched/escher/types"
)

// StartWatchdog starts the keeper of a watchdog, and returns when the watchdog runs. Start it
// before the agents, so that it outlasts them.
func StartWatchdog(ctx context.Context, stack *Stack, k watchdog.Keeper) error {
	for _, n := range k.Nodes {
		if err := os.MkdirAll(n.StateDir, 0o700); err != nil {
			return types.Errorf(types.Precondition, "make the directory of %s: %w", n.Name, err)
		}
	}
	ready := make(chan struct{})
	k.Ready = sync.OnceFunc(func() { close(ready) })
	stack.Start("watchdog", func(ctx context.Context) error {
		err := k.Run(ctx)
		select {
		case <-ready:
			return err
		default:
			return supervise.Fatal(err) // nothing may run without it
		}
	})
	return stack.Await(ctx, ready)
}
