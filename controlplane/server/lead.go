package server

import (
	"context"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/escher-sched/escher/controlplane"
	"github.com/escher-sched/escher/types"
)

// leaderTTL is how long nobody leads after a leader died. What is collected can wait.
const leaderTTL = 15 * time.Second

// Lead has one process at a time run something: it waits for the role, runs it while
// it has that, and again when it has it again, until ctx is done; then it returns
// ctx.Err(). The compares that run is given hold while it leads; that one does not
// hold any more, Conflict, ends only that time of leading.
func Lead(ctx context.Context, s controlplane.Store, role, holder string, run func(ctx context.Context, guard []controlplane.Compare) error) error {
	for {
		err := leadOnce(ctx, s, role, holder, run)
		switch {
		case ctx.Err() != nil:
			return ctx.Err()
		case err != nil && !types.Is(err, types.Conflict):
			return err
		}
	}
}

// leadOnce waits for the role and returns when run has, or it is lost.
func leadOnce(ctx context.Context, s controlplane.Store, role, holder string, run func(context.Context, []controlplane.Compare) error) error {
	key := controlplane.LeaderKey(role)
	group, ctx := errgroup.WithContext(ctx)
	began := false
	group.Go(func() error {
		return controlplane.Hold(ctx, s, key, &types.Leader{Holder: holder}, leaderTTL, func(revision int64) {
			switch {
			case revision != 0:
				began = true
				guard := []controlplane.Compare{{Key: key, Target: controlplane.CreateRevision, Revision: revision}}
				group.Go(func() error { return over(run(ctx, guard)) })
			case began:
				group.Go(func() error { return over(nil) })
			}
		})
	})
	return group.Wait()
}

// over makes the end of a time of leading an error, which ends all of it.
func over(err error) error {
	if err == nil {
		return types.Errorf(types.Conflict, "the role is lost")
	}
	return err
}
