package agents

import (
	"context"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/escher-sched/escher/controlplane"
	"github.com/escher-sched/escher/types"
)

// renewals is the number of renewals of a session within its time to live.
const renewals = 3

// keeper renews the sessions of all agents on a connection, one right after the other, each by its
// own request.
type keeper struct {
	store controlplane.Store
	ttl   time.Duration

	mu       sync.Mutex
	sessions []*session
}

// session is the session of one node.
type session struct {
	node    string
	lease   controlplane.LeaseID
	renewed time.Time
}

// keep renews a new session from now on.
func (k *keeper) keep(node string, lease controlplane.LeaseID) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.sessions = append(k.sessions, &session{node: node, lease: lease, renewed: time.Now()})
}

// run renews until ctx is done or a session is lost: Precondition. It begins after a delay.
func (k *keeper) run(ctx context.Context, after time.Duration) error {
	timer := time.NewTimer(after)
	defer timer.Stop()
	for {
		select {
		case <-timer.C:
			timer.Reset(k.ttl / renewals)
		case <-ctx.Done():
			return ctx.Err()
		}
		k.mu.Lock()
		all := k.sessions[:len(k.sessions):len(k.sessions)]
		k.mu.Unlock()
		g, ctx := errgroup.WithContext(ctx)
		for _, s := range all {
			g.Go(func() error { return k.renew(ctx, s) })
		}
		if err := g.Wait(); err != nil {
			return err
		}
	}
}

// renew renews a session once.
func (k *keeper) renew(ctx context.Context, s *session) error {
	sent := time.Now()
	limited, cancel := context.WithTimeout(ctx, k.ttl/renewals)
	defer cancel()
	_, err := k.store.RenewLease(limited, s.lease)
	switch {
	case err == nil:
		s.renewed = sent
	case ctx.Err() != nil:
		return ctx.Err()
	case limited.Err() == nil && !types.ClassOf(err).Retryable() || time.Since(s.renewed) > k.ttl:
		return types.Errorf(types.Precondition, "keep the session of node %s: %w; the machine is too busy for %s", s.node, err, k.ttl)
	}
	return nil
}
