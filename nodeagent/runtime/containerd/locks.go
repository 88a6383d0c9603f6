package containerd

import (
	"context"
	"sync"
)

// locks lets one call at a time change a container. The zero value is ready.
type locks struct {
	mu   sync.Mutex
	held map[string]*lock
}

// lock is held while its token is taken.
type lock struct {
	token chan struct{}
	users int // the holder and the waiting calls
}

// acquire waits for the lock of id and returns the function that releases it.
func (l *locks) acquire(ctx context.Context, id string) (func(), error) {
	k := l.join(id)
	select {
	case <-k.token:
		return func() { k.token <- struct{}{}; l.leave(id, k) }, nil
	case <-ctx.Done():
		l.leave(id, k)
		return nil, ctx.Err()
	}
}

func (l *locks) join(id string) *lock {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.held == nil {
		l.held = make(map[string]*lock)
	}
	k := l.held[id]
	if k == nil {
		k = &lock{token: make(chan struct{}, 1)}
		k.token <- struct{}{}
		l.held[id] = k
	}
	k.users++
	return k
}

func (l *locks) leave(id string, k *lock) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if k.users--; k.users == 0 {
		delete(l.held, id)
	}
}
