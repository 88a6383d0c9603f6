package mirror

import (
	"context"
	"sync"
	"time"

	"github.com/escher-sched/escher/controlplane"
	"github.com/escher-sched/escher/types"
)

// newest asks a store for its newest revision. Callers that ask at once share an answer, which is read after the
// last of them has asked.
type newest struct {
	store controlplane.Store

	// turn is held by the reading that is under way.
	turn sync.Mutex
	mu   sync.Mutex
	// next is the reading that has not begun.
	next *reading
}

// reading is one question to the store.
type reading struct {
	done     chan struct{}
	revision int64
	err      error
}

// askedFor bounds a question to the store.
const askedFor = 5 * time.Second

// get returns a revision that is as new as the call.
func (n *newest) get(ctx context.Context) (int64, error) {
	n.mu.Lock()
	r := n.next
	if r == nil {
		r = &reading{done: make(chan struct{})}
		n.next = r
		go n.read(context.WithoutCancel(ctx), r) // it ends within askedFor, and others wait for it
	}
	n.mu.Unlock()
	select {
	case <-r.done:
		return r.revision, r.err
	case <-ctx.Done():
		return 0, types.Errorf(types.Unavailable, "ask for the newest revision: %w", ctx.Err())
	}
}

// read reads once it is its turn.
func (n *newest) read(ctx context.Context, r *reading) {
	n.turn.Lock()
	defer n.turn.Unlock()
	n.mu.Lock()
	n.next = nil // later callers need a later answer
	n.mu.Unlock()
	ctx, stop := context.WithTimeout(ctx, askedFor)
	defer stop()
	page, err := n.store.List(ctx, controlplane.ListOptions{Key: controlplane.EpochKey(), KeysOnly: true})
	r.revision, r.err = page.Revision, err
	close(r.done)
}
