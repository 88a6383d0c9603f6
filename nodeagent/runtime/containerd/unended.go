package containerd

import (
	"context"
	"sync"

	"github.com/containerd/containerd/v2/client"

	"github.com/escher-sched/escher/types"
)

// mostUnended is the limit of unended commands per container: each counts toward the process limit
// of its task.
const mostUnended = 32

// unended are commands that were killed and have not ended, because they hang in the kernel. The
// zero value is ready.
type unended struct {
	mu    sync.Mutex
	count map[string]int // by container
	under sync.WaitGroup
}

// refuse returns Unavailable if a container has too many.
func (u *unended) refuse(id string) error {
	u.mu.Lock()
	defer u.mu.Unlock()
	if n := u.count[id]; n >= mostUnended {
		return types.Errorf(types.Unavailable, "run a command in container %s: %d that were killed have not ended yet", id, n)
	}
	return nil
}

// drop removes a process once it has ended, in the background. Its input and output end now.
func (u *unended) drop(ctx context.Context, id string, process client.Process) {
	streams := process.IO()
	streams.Cancel()
	streams.Wait()
	u.add(id, 1)
	u.under.Go(func() {
		defer u.add(id, -1)
		// It ends with the process, the container, or the connection.
		drop(context.WithoutCancel(ctx), process)
	})
}

func (u *unended) add(id string, n int) {
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.count == nil {
		u.count = make(map[string]int)
	}
	if u.count[id] += n; u.count[id] == 0 {
		delete(u.count, id)
	}
}

// wait waits for all drops. They end when the connection is closed.
func (u *unended) wait() { u.under.Wait() }
