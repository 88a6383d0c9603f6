package memstore

import (
	"context"
	"slices"
	"time"

	"github.com/escher-sched/escher/controlplane"
	"github.com/escher-sched/escher/types"
)

// lease is a lease that has not ended, with its keys.
type lease struct {
	ttl   time.Duration
	ends  time.Time
	timer *time.Timer
	keys  map[*entry]struct{}
}

// attach moves a key to a lease; nil means none.
func (e *entry) attach(l *lease) {
	if e.lease == l {
		return
	}
	if e.lease != nil {
		delete(e.lease.keys, e)
	}
	if l != nil {
		l.keys[e] = struct{}{}
	}
	e.lease = l
}

// GrantLease creates a lease: see controlplane.Store.
func (s *Store) GrantLease(ctx context.Context, ttl time.Duration) (controlplane.LeaseID, error) {
	if err := ctx.Err(); err != nil {
		return 0, types.Errorf(types.Unavailable, "grant lease: %w", err)
	}
	if ttl <= 0 {
		return 0, types.Errorf(types.Invalid, "grant lease of %s: give a positive time to live", ttl)
	}
	ttl = (ttl + time.Second - 1).Truncate(time.Second)
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.admit("grant lease", versionBytes); err != nil {
		return 0, err
	}
	s.lastLease++
	id := s.lastLease
	l := &lease{ttl: ttl, keys: map[*entry]struct{}{}}
	s.leases[id] = l
	if s.expire {
		l.ends = time.Now().Add(ttl)
		l.timer = time.AfterFunc(ttl, func() { s.timeOut(id) })
	}
	return id, nil
}

// RenewLease renews a lease: see controlplane.Store.
func (s *Store) RenewLease(ctx context.Context, id controlplane.LeaseID) (time.Duration, error) {
	if err := ctx.Err(); err != nil {
		return 0, types.Errorf(types.Unavailable, "renew lease %x: %w", int64(id), err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	l := s.leases[id]
	if l == nil {
		return 0, types.Errorf(types.NotFound, "renew lease %x: it has ended", int64(id))
	}
	if s.expire {
		l.ends = time.Now().Add(l.ttl)
		l.timer.Reset(l.ttl)
	}
	return l.ttl, nil
}

// RevokeLease ends a lease: see controlplane.Store.
func (s *Store) RevokeLease(ctx context.Context, id controlplane.LeaseID) error {
	if err := ctx.Err(); err != nil {
		return types.Errorf(types.Unavailable, "revoke lease %x: %w", int64(id), err)
	}
	s.ExpireLease(id)
	return nil
}

// ExpireLease ends a lease now, as if its time had run out: it deletes its keys at one revision, in
// order. It ignores an unknown lease.
func (s *Store) ExpireLease(id controlplane.LeaseID) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.end(id)
}

// timeOut ends a lease unless it was renewed while its timer fired.
func (s *Store) timeOut(id controlplane.LeaseID) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if l := s.leases[id]; l != nil && !time.Now().Before(l.ends) {
		s.end(id)
	}
}

// end ends a lease.
func (s *Store) end(id controlplane.LeaseID) {
	l := s.leases[id]
	if l == nil {
		return
	}
	delete(s.leases, id)
	if l.timer != nil {
		l.timer.Stop()
	}
	ops := make([]controlplane.Op, 0, len(l.keys))
	for e := range l.keys {
		ops = append(ops, controlplane.Op{Key: e.key, Delete: true})
	}
	slices.SortFunc(ops, func(a, b controlplane.Op) int {
		if a.Key < b.Key {
			return -1
		}
		return 1
	})
	s.apply(ops)
}
