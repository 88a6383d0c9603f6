package controlplane

import (
	"context"
	"errors"
	"time"

	"github.com/escher-sched/escher/controlplane/supervise"
	"github.com/escher-sched/escher/types"
)

// Hold keeps a key on a lease for as long as ctx lasts: it puts m under key if the
// key is absent, renews the lease, and begins anew when the lease was lost. The
// key is gone when Hold returns, or ttl later if the store could not be reached.
//
// Others that hold the same key are waited for: a key is a role that one has at a
// time. A store that is full, which grants no lease, is waited for too. held, unless nil, is
// told when the role is had, with the CreateRevision of the key, and with 0 when it is lost.
//
// Invalid: the message is, and nothing is written.
func Hold(ctx context.Context, s Store, key string, m types.Message, ttl time.Duration, held func(revision int64)) error {
	if err := m.Validate(); err != nil {
		return types.Errorf(types.Invalid, "hold %s: %w", key, err)
	}
	for ctx.Err() == nil {
		err := holdOnce(ctx, s, key, m, ttl, held)
		mends := types.ClassOf(err).Retryable() || types.Is(err, types.NotFound) || errors.Is(err, ErrFull)
		if err != nil && !mends && ctx.Err() == nil {
			return err
		}
		if held != nil {
			held(0)
		}
		if err := supervise.Pause(ctx, ttl/3); err != nil {
			return err
		}
	}
	return ctx.Err()
}

// holdOnce holds the key until the lease is lost or ctx is done. It returns at once
// if somebody else has it.
func holdOnce(ctx context.Context, s Store, key string, m types.Message, ttl time.Duration, held func(int64)) error {
	lease, err := s.GrantLease(ctx, ttl)
	if err != nil {
		return err
	}
	defer revoke(ctx, s, lease)
	c := NewChange(NewBatch())
	c.IfUnchanged(key, 0)
	c.PutOn(key, m, lease)
	res, err := Commit(ctx, s, c.Txn())
	if err != nil || !res.Committed {
		return err
	}
	if held != nil {
		held(res.Revision)
	}
	return Renew(ctx, s, lease, ttl)
}

// Renew renews a lease three times within its time to live until ctx is done or the
// lease is lost: NotFound when it ended, Unavailable when it may have.
func Renew(ctx context.Context, s Store, lease LeaseID, ttl time.Duration) error {
	renewed := time.Now()
	for {
		if err := supervise.Pause(ctx, ttl/3); err != nil {
			return err
		}
		sent := time.Now()
		_, err := s.RenewLease(ctx, lease)
		switch {
		case err == nil:
			renewed = sent
		case !types.ClassOf(err).Retryable() || time.Since(renewed) > ttl:
			return err
		}
	}
}

// revoke ends a lease, also when ctx is done already, and gives up soon: the lease
// ends by itself.
func revoke(ctx context.Context, s Store, lease LeaseID) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Second)
	defer cancel()
	_ = s.RevokeLease(ctx, lease)
}
