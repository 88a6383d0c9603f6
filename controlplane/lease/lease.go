package lease

import (
	"context"
	"errors"
	"time"

	"github.com/escher-sched/escher/controlplane"
	"github.com/escher-sched/escher/controlplane/supervise"
	"github.com/escher-sched/escher/types"
)

// Hold keeps a key on a lease until ctx is done. It puts m under key if the key is absent, renews
// the lease, and starts over when the lease is lost. The key is gone when Hold returns, or ttl
// later if the store is unreachable.
//
// Hold waits for another holder of the same key: a key is a role with one holder at a time. It also
// waits for a full store, which grants no lease. It calls held, unless nil, with the CreateRevision
// of the key when it gets the role, and with 0 when it loses the role.
//
// Invalid: the message is invalid, and nothing is written.
func Hold(ctx context.Context, s controlplane.Store, key string, m types.Message, ttl time.Duration, held func(revision int64)) error {
	if err := m.Validate(); err != nil {
		return types.Errorf(types.Invalid, "hold %s: %w", key, err)
	}
	for ctx.Err() == nil {
		err := holdOnce(ctx, s, key, m, ttl, held)
		mends := types.ClassOf(err).Retryable() || types.Is(err, types.NotFound) || errors.Is(err, controlplane.ErrFull)
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

// holdOnce holds the key until the lease is lost or ctx is done. It returns at once if another
// process has the key. A key without a lease has no holder: it is removed.
func holdOnce(ctx context.Context, s controlplane.Store, key string, m types.Message, ttl time.Duration, held func(int64)) error {
	lease, err := s.GrantLease(ctx, ttl)
	if err != nil {
		return err
	}
	defer revoke(ctx, s, lease)
	c := controlplane.NewChange(controlplane.NewBatch())
	c.IfUnchanged(key, 0)
	c.PutOn(key, m, lease)
	res, err := controlplane.Commit(ctx, s, c.Txn())
	if err == nil && !res.Committed {
		return removeUnheld(ctx, s, key)
	}
	if err != nil {
		return err
	}
	if held != nil {
		held(res.Revision)
	}
	return Renew(ctx, s, lease, ttl)
}

// removeUnheld removes a key without a lease.
func removeUnheld(ctx context.Context, s controlplane.Store, key string) error {
	page, err := s.List(ctx, controlplane.ListOptions{Key: key})
	if err != nil || len(page.KVs) == 0 || page.KVs[0].Lease != 0 {
		return err
	}
	c := controlplane.NewChange(controlplane.NewBatch())
	c.IfUnchanged(key, page.KVs[0].ModRevision)
	c.Delete(key)
	_, err = controlplane.Commit(ctx, s, c.Txn()) // If it changed, there is a holder.
	return err
}

// Renew renews a lease three times within its time to live, until ctx is done or the lease is lost.
// NotFound: the lease ended. Unavailable: it may have ended.
func Renew(ctx context.Context, s controlplane.Store, lease controlplane.LeaseID, ttl time.Duration) error {
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

// revoke ends a lease, even if ctx is done. It gives up after a second: the lease then expires by
// itself.
func revoke(ctx context.Context, s controlplane.Store, lease controlplane.LeaseID) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Second)
	defer cancel()
	_ = s.RevokeLease(ctx, lease)
}
