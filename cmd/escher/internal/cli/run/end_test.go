package run

import (
	"context"
	"errors"
	"io"
	"testing"

	"github.com/escher-sched/escher/cmd/escher/internal/cli/cmdutil"
	"github.com/escher-sched/escher/controlplane"
	"github.com/escher-sched/escher/types"
)

// TestCodeOfTheFirst: the exit code is that of the task that failed first. One that was cancelled
// for it does not count.
func TestCodeOfTheFirst(t *testing.T) {
	failed := func(code int, ended int64) types.Status {
		return types.Status{Phase: types.Failed, ExitCode: code, Ended: ended}
	}
	cancelled := types.Status{Phase: types.Cancelled, ExitCode: 137, Ended: 1}
	for _, x := range []struct {
		of   []types.Status
		want int
	}{
		{[]types.Status{{Phase: types.Succeeded}, {Phase: types.Succeeded}}, 0},
		{[]types.Status{cancelled, failed(7, 5)}, 7},
		{[]types.Status{failed(7, 5), cancelled}, 7},
		{[]types.Status{failed(3, 9), failed(7, 5), cancelled}, 7},
		{[]types.Status{failed(0, 5), {Phase: types.Succeeded}}, 1},
		{[]types.Status{cancelled, {Phase: types.Succeeded}}, 137},
		{[]types.Status{{Phase: types.Cancelled}}, 1},
	} {
		statuses := make(map[string]types.Status)
		for i, s := range x.of {
			statuses[string(rune('a'+i))] = s
		}
		err := endOf(&cmdutil.Factory{Outside: cmdutil.Outside{Err: io.Discard}}, statuses)
		got, _ := errors.AsType[cmdutil.Ended](err)
		if got.Code != x.want {
			t.Errorf("of %+v: code %d (%v), want %d", x.of, got.Code, err, x.want)
		}
	}
}

// stoppable is a task that runs until it is stopped.
type stoppable struct {
	cmdutil.Tasks
	stopped chan controlplane.StopOptions
	ended   chan controlplane.StopOptions
}

func (s stoppable) Stop(_ context.Context, _ string, opts controlplane.StopOptions) error {
	s.stopped <- opts
	return nil
}

func (s stoppable) Wait(context.Context, controlplane.Until, ...string) (map[string]types.Status, error) {
	opts := <-s.stopped
	s.ended <- opts
	return map[string]types.Status{"a": {Phase: types.Cancelled}}, nil
}

// TestInterruptedKeepsGrace: Ctrl-C stops an attached task with the grace of the task, in which it
// may write a checkpoint.
func TestInterruptedKeepsGrace(t *testing.T) {
	ctx, interrupt := context.WithCancel(t.Context())
	interrupt()
	s := stoppable{stopped: make(chan controlplane.StopOptions, 1), ended: make(chan controlplane.StopOptions, 1)}
	_ = attached(ctx, &cmdutil.Factory{Outside: cmdutil.Outside{Out: io.Discard, Err: io.Discard, Getenv: func(string) string { return "" }}}, s, []string{"a"}, nil)
	if opts := <-s.ended; opts.Grace != 0 || opts.Reason == "" {
		t.Errorf("it is stopped with %+v, want the grace of the task", opts)
	}
}
