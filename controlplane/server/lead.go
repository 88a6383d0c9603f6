package server

import (
	"context"
	"time"

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

// leadOnce waits for the role and returns when run has, or it is lost: Conflict. The
// role is given back when run has ended, not before: the next one is not to meet it.
func leadOnce(ctx context.Context, s controlplane.Store, role, holder string, run func(context.Context, []controlplane.Compare) error) error {
	key := controlplane.LeaderKey(role)
	hold, giveBack := context.WithCancel(context.WithoutCancel(ctx))
	defer giveBack()
	ctx, stop := context.WithCancel(ctx)
	led, held := make(chan int64, 1), make(chan error, 1)
	go func() {
		defer stop()
		had := false
		held <- controlplane.Hold(hold, s, key, &types.Leader{Holder: holder}, leaderTTL, func(revision int64) {
			switch {
			case revision != 0:
				had = true
				led <- revision
			case had:
				giveBack()
			}
		})
	}()
	var err error
	select {
	case revision := <-led:
		err = run(ctx, []controlplane.Compare{{Key: key, Target: controlplane.CreateRevision, Revision: revision}})
		if err == nil || ctx.Err() != nil {
			err = types.Errorf(types.Conflict, "the role is lost")
		}
	case <-ctx.Done():
	}
	giveBack()
	if gone := <-held; err == nil {
		return gone
	}
	return err
}
