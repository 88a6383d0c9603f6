package usage

import (
	"context"
	"sync"
	"time"

	"github.com/escher-sched/escher/nodeagent/bounded"
	"github.com/escher-sched/escher/types"
)

// readers runs what may hang, as no read of a file of the kernel can be interrupted: the
// caller waits for a while, and the reader is left behind until it returns.
type readers struct {
	mu sync.Mutex
	// busy has what is being read.
	busy map[string]bool
	all  sync.WaitGroup
}

// within returns what f does if it returns within limit. Unavailable: it does not, or an
// earlier one for key has not returned yet.
func within[T any](ctx context.Context, r *readers, key string, limit time.Duration, f func() (T, error)) (T, error) {
	type result struct {
		value T
		err   error
	}
	var none T
	if !r.begin(key) {
		return none, types.Errorf(types.Unavailable, "read what %s uses: an earlier read hangs", key)
	}
	late, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	got, ok := bounded.Do(late, func() result {
		defer r.end(key)
		value, err := f()
		return result{value, err}
	})
	switch {
	case ok:
		return got.value, got.err
	case ctx.Err() != nil:
		return none, types.Errorf(types.Unavailable, "read what %s uses: %w", key, ctx.Err())
	}
	return none, types.Errorf(types.Unavailable, "read what %s uses: it takes longer than %s", key, limit)
}

// begin notes that something is being read; false if it is already.
func (r *readers) begin(key string) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.busy[key] {
		return false
	}
	if r.busy == nil {
		r.busy = make(map[string]bool)
	}
	r.busy[key] = true
	r.all.Add(1)
	return true
}

func (r *readers) end(key string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.busy, key)
	r.all.Done()
}

// await waits until all have returned, for limit at most: the kernel may keep one for
// ever, and the agent is to end all the same.
func (r *readers) await(limit time.Duration) (ended bool) {
	done := make(chan struct{})
	go func() {
		r.all.Wait()
		close(done)
	}()
	return bounded.Wait(done, limit)
}
