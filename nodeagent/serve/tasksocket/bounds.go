package tasksocket

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sync/semaphore"
	"golang.org/x/time/rate"

	"github.com/escher-sched/escher/types"
)

// Bounds limits the resources that all task sockets of one agent use together. One namespace may
// use a part of each, however many tasks it has on the node. So a namespace cannot block the
// sockets of other namespaces.
type Bounds struct {
	// connections has an entry for each open connection beyond the guaranteed ones of a socket.
	connections chan struct{}
	// all is the share of the whole agent, namespaces the shares of those with a socket.
	all        share
	mu         sync.Mutex
	namespaces map[string]*share
	holds      *Holds
}

// share limits concurrent use: by the agent, or by one of its namespaces.
type share struct {
	sockets int
	rate    atomic.Pointer[rate.Limiter]
	// watches is the number of open watches.
	watches atomic.Int64
	// text limits the bytes of request bodies, decoded the memory of decoded ones, and listings the
	// requests that read a whole namespace.
	text, decoded weights
	listings      *semaphore.Weighted
}

// weights are two semaphores, so that small requests never wait for large ones.
type weights struct{ small, large *semaphore.Weighted }

func (w weights) of(n int64) *semaphore.Weighted {
	if n <= maxSmall {
		return w.small
	}
	return w.large
}

// NewBounds makes the bounds of one agent.
func NewBounds() *Bounds {
	return &Bounds{
		connections: make(chan struct{}, agentConnections),
		all: share{
			text:     weights{semaphore.NewWeighted(agentSmall), semaphore.NewWeighted(agentText)},
			decoded:  weights{semaphore.NewWeighted(agentSmall), semaphore.NewWeighted(agentDecoded)},
			listings: semaphore.NewWeighted(agentListings),
		},
		namespaces: make(map[string]*share),
		holds:      NewHolds(),
	}
}

// join returns the share of a namespace for another socket; leave returns it.
func (b *Bounds) join(ns string) (s *share, leave func()) {
	b.mu.Lock()
	defer b.mu.Unlock()
	s = b.namespaces[ns]
	if s == nil {
		s = &share{
			text:     weights{semaphore.NewWeighted(agentSmall / 4), semaphore.NewWeighted(namespaceText)},
			decoded:  weights{semaphore.NewWeighted(agentSmall / 4), semaphore.NewWeighted(namespaceDecoded)},
			listings: semaphore.NewWeighted(namespaceListings),
		}
		b.namespaces[ns] = s
	}
	s.sockets++
	return s, sync.OnceFunc(func() {
		b.mu.Lock()
		defer b.mu.Unlock()
		if s.sockets--; s.sockets == 0 {
			delete(b.namespaces, ns)
		}
	})
}

// builtIn returns the budget of a namespace without settings.
func builtIn(context.Context) types.Budget { return (*types.Namespace)(nil).Allowed() }

// ask reports whether the namespace may make another request: perSecond in the long run, and twice
// as many at once.
func (s *share) ask(perSecond int64) bool {
	is := s.rate.Load()
	if is == nil || is.Limit() != rate.Limit(perSecond) {
		now := rate.NewLimiter(rate.Limit(perSecond), int(2*perSecond))
		if !s.rate.CompareAndSwap(is, now) {
			now = s.rate.Load()
		}
		is = now
	}
	return is.Allow()
}

// watch counts a watch; false means that most are open.
func (s *share) watch(most int64) bool {
	if s.watches.Add(1) <= most {
		return true
	}
	s.watches.Add(-1)
	return false
}

// use acquires n from the namespace's share, then from the agent's; release releases both.
// Unavailable: others use everything for too long.
func use(ctx context.Context, own, all *semaphore.Weighted, n int64) (release func(), err error) {
	ctx, cancel := context.WithTimeout(ctx, useTimeout)
	defer cancel()
	if err := own.Acquire(ctx, n); err != nil {
		return nil, errBusy()
	}
	if err := all.Acquire(ctx, n); err != nil {
		own.Release(n)
		return nil, errBusy()
	}
	return func() { all.Release(n); own.Release(n) }, nil
}

func errBusy() error {
	return types.Errorf(types.Unavailable, "serve request: requests like it use all that the agent gives them: ask again in a moment")
}

// useText waits until a body of n bytes may be read. During decoding it is in memory several times:
// as received, and in the buffers of the decoder.
func (s *Server) useText(ctx context.Context, n int64) (release func(), err error) {
	n *= textFactor
	return use(ctx, s.share.text.of(n), s.cfg.Bounds.all.text.of(n), n)
}

// useDecoded waits until a body may use n bytes of memory.
func (s *Server) useDecoded(ctx context.Context, n int64) (release func(), err error) {
	return use(ctx, s.share.decoded.of(n), s.cfg.Bounds.all.decoded.of(n), n)
}

// useListing waits until the whole namespace may be read.
func (s *Server) useListing(ctx context.Context) (release func(), err error) {
	return use(ctx, s.share.listings, s.cfg.Bounds.all.listings, 1)
}

// useTimeout limits how long a request waits for what others use.
const useTimeout = 10 * time.Second
