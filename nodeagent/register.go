package nodeagent

import (
	"context"
	"slices"
	"strings"
	"time"

	"github.com/cenkalti/backoff/v5"
	"go.uber.org/zap"

	"github.com/escher-sched/escher/controlplane"
	"github.com/escher-sched/escher/types"
)

// register stores what the node is, if that is not what is stored.
func (a *Agent) register(ctx context.Context) error {
	labels := slices.Clone(a.cfg.Labels)
	slices.SortFunc(labels, func(x, y types.Label) int { return strings.Compare(x.Name, y.Name) })
	node := &types.Node{
		Capacity: a.cfg.capacity(), Labels: labels, Address: a.cfg.Address, Version: a.cfg.Version,
		PortFirst: a.cfg.Ports.First, PortLast: a.cfg.Ports.Last,
	}
	// The devices come first: of a capacity that is made of devices, nothing may be
	// given out without one.
	if err := a.store(ctx, controlplane.DevicesKey(a.cfg.Node), &types.Devices{Devices: a.cfg.Devices}, len(a.cfg.Devices) > 0); err != nil {
		return err
	}
	return a.store(ctx, controlplane.NodeKey(a.cfg.Node), node, true)
}

// store makes the value of a key m; one that is absent is created only if create is
// set. It tries until ctx is done.
func (a *Agent) store(ctx context.Context, key string, m types.Message, create bool) error {
	return a.retry(ctx, "register", func() error {
		page, err := a.cfg.Store.List(ctx, controlplane.ListOptions{Key: key})
		if err != nil {
			return err
		}
		revision := int64(0)
		if len(page.KVs) > 0 {
			revision = page.KVs[0].ModRevision
		}
		if revision == 0 && !create || revision != 0 && types.Same(page.KVs[0].Value, m) {
			return nil
		}
		change := controlplane.NewChange(controlplane.NewBatch())
		change.IfUnchanged(key, revision)
		change.Put(key, m)
		res, err := controlplane.Commit(ctx, a.cfg.Store, change.Txn())
		if err == nil && !res.Committed {
			err = types.Errorf(types.Unavailable, "put %s: somebody else changed it", key)
		}
		return err
	})
}

// retry calls do until it succeeds, its error is none that passes, or ctx is done.
func (a *Agent) retry(ctx context.Context, what string, do func() error) error {
	_, err := backoff.Retry(ctx, func() (struct{}, error) {
		err := do()
		if err != nil && !types.ClassOf(err).Retryable() {
			err = backoff.Permanent(err)
		}
		return struct{}{}, err
	}, backoff.WithBackOff(controlplane.RetryPolicy()), backoff.WithMaxElapsedTime(0), backoff.WithNotify(func(err error, wait time.Duration) {
		a.log.Warn("to be tried again", zap.String("reason", what), zap.Duration("duration", wait), zap.Error(err))
	}))
	if ctx.Err() != nil {
		return ctx.Err()
	}
	return err
}
