package usage

import (
	"context"
	"sync"
	"time"

	"github.com/escher-sched/escher/nodeagent/bounded"
	"github.com/escher-sched/escher/types"
)

// readers runs reads that may hang, because a read of a kernel file cannot be interrupted. The
// caller waits for a while, and the read runs on alone until it returns.
type readers struct {
	mu sync.Mutex
	// busy has the keys of the reads under way.
	busy map[string]bool
	all  sync.WaitGroup
}

// within returns the result of f if it returns within limit. Unavailable: it does not, or an
// earlier call for key has not returned yet.
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

// begin records a read; false if one with the key is under way.
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

// await waits until all reads have returned, at most for limit: the kernel may keep one forever,
// and the agent must end.
func (r *readers) await(limit time.Duration) (ended bool) {
	done := make(chan struct{})
	go func() {
		r.all.Wait()
		close(done)
	}()
	return bounded.Wait(done, limit)
}
