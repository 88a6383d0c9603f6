package server

import (
	"context"
	"time"

	"github.com/escher-sched/escher/controlplane"
	"github.com/escher-sched/escher/controlplane/lease"
	"github.com/escher-sched/escher/types"
)

// leaderTTL is the longest time without a leader after a leader died. Collection can wait.
const leaderTTL = 15 * time.Second

// Lead runs a function in one process at a time. It waits for the role, runs the function while it
// holds the role, and starts over when it loses the role. It returns ctx.Err() when ctx is done.
// The compares passed to run hold while this process leads. A Conflict of run ends only that term.
func Lead(ctx context.Context, s controlplane.Store, role string, holder *types.Leader, run func(ctx context.Context, guard []controlplane.Compare) error) error {
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

// leadOnce waits for the role, and returns when run has returned or the role is lost: Conflict. It
// gives the role back only after run has ended, so that two terms never overlap.
func leadOnce(ctx context.Context, s controlplane.Store, role string, holder *types.Leader, run func(context.Context, []controlplane.Compare) error) error {
	key := controlplane.LeaderKey(role)
	hold, giveBack := context.WithCancel(context.WithoutCancel(ctx))
	defer giveBack()
	ctx, stop := context.WithCancel(ctx)
	led, held := make(chan int64, 1), make(chan error, 1)
	go func() {
		defer stop()
		had := false
		held <- lease.Hold(hold, s, key, holder, leaderTTL, func(revision int64) {
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
