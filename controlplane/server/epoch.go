package server

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"strconv"
	"sync"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"

	"github.com/escher-sched/escher/controlplane"
	"github.com/escher-sched/escher/controlplane/identity"
	"github.com/escher-sched/escher/controlplane/supervise"
	"github.com/escher-sched/escher/types"
)

// epochEvery is how often a server checks whether the store was restored from a backup.
const epochEvery = 3 * time.Second

// EpochPause is the time after a restore in which a server decides nothing. By its end the agents
// have noticed the restore and ended tasks that the store does not know.
const EpochPause = 30 * time.Second

// AskEtcd returns a function that asks the members behind a client for the cluster's id and
// progress. The most advanced member answers. Unavailable: none answers.
func AskEtcd(client *clientv3.Client) func(context.Context) (identity.Etcd, error) {
	return func(ctx context.Context) (identity.Etcd, error) {
		members, err := (etcdMaintenance{client: client}).members(ctx)
		if err != nil {
			return identity.Etcd{}, err
		}
		st := slices.MaxFunc(members, func(a, b etcdMember) int { return cmp.Compare(a.status.RaftIndex, b.status.RaftIndex) }).status
		// A member reads its revision before its index, so the index is never older.
		return identity.Etcd{
			Cluster: strconv.FormatUint(st.Header.ClusterId, 16), Index: int64(st.RaftIndex), Revision: st.Header.Revision,
		}, nil
	}
}

// Epochs notices a restore of the store from a backup, and restarts the work of this process: what
// it knows may never have happened.
type Epochs struct {
	Store controlplane.Store
	// Etcd returns the id and progress of etcd.
	Etcd func(context.Context) (identity.Etcd, error)
	Log  *zap.Logger

	mu sync.Mutex
	// id is the epoch. ended is closed when it ends. settled is the time from which the agents know
	// it.
	id      string
	ended   chan struct{}
	settled time.Time
}

// Run checks the epoch until ctx is done, and then returns ctx.Err(). It creates the epoch of a new
// store, and a new epoch after a restore.
func (e *Epochs) Run(ctx context.Context) error {
	tick := time.NewTicker(epochEvery)
	defer tick.Stop()
	for {
		if err := e.check(ctx); err != nil && ctx.Err() == nil {
			e.Log.Debug("epoch not read", zap.Error(err))
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-tick.C:
		}
	}
}

func (e *Epochs) check(ctx context.Context) error {
	etcd, err := e.Etcd(ctx)
	if err != nil {
		return err
	}
	id, renewed, err := identity.KeepEpoch(ctx, e.Store, etcd)
	full := errors.Is(err, controlplane.ErrFull) // Freeing space does not wait for an epoch.
	if err != nil && !full {
		return err
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.ended == nil {
		e.ended = make(chan struct{})
	}
	switch {
	case full || id == e.id:
		return err
	case renewed || e.id != "":
		e.Log.Error("etcd was restored from a backup: decisions resume once the agents know", zap.Duration("duration", EpochPause))
		e.settled = time.Now().Add(EpochPause)
		close(e.ended)
		e.ended = make(chan struct{})
	}
	e.id = id
	return nil
}

// During runs a function within one epoch: it starts once the agents know the epoch, and ends it
// with the epoch. Unavailable: the epoch has ended. A nil Epochs has a single epoch.
func (e *Epochs) During(ctx context.Context, run func(context.Context) error) error {
	if e == nil {
		return run(ctx)
	}
	ended, err := e.await(ctx)
	if err != nil {
		return err
	}
	during, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	over := types.Errorf(types.Unavailable, "the store was restored from a backup: begin again")
	go func() {
		select {
		case <-ended:
			stop(over)
		case <-during.Done():
		}
	}()
	err = run(during)
	if ctx.Err() == nil && during.Err() != nil {
		return over
	}
	return err
}

// await returns the channel that closes at the end of the epoch, once the agents know the epoch.
func (e *Epochs) await(ctx context.Context) (ended <-chan struct{}, err error) {
	for {
		e.mu.Lock()
		ended, wait := e.ended, time.Until(e.settled)
		e.mu.Unlock()
		if ended != nil && wait <= 0 {
			return ended, nil
		}
		if err := supervise.Pause(ctx, max(wait, 50*time.Millisecond)); err != nil {
			return nil, err
		}
	}
}
