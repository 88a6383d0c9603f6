package run

import (
	"context"
	"sync"

	"github.com/escher-sched/escher/cmd/escher/internal/cli/cmdutil"
	"github.com/escher-sched/escher/controlplane"
	"github.com/escher-sched/escher/controlplane/supervise"
	"github.com/escher-sched/escher/nodeagent"
	"github.com/escher-sched/escher/nodeagent/serve/nodeapi"
	"github.com/escher-sched/escher/types"
)

// interactive passes the input and the terminal of this program to a task. A nil one does nothing.
type interactive struct {
	f *cmdutil.Factory
	// stdin and tty are those of the task.
	stdin, tty bool
	// reading is closed once the output is read from a fixed place, before which no input is passed; nil
	// means that all of the output is shown.
	reading chan struct{}

	mu sync.Mutex
	// node and attempt are where the task runs, once it does.
	node    string
	attempt int
	// restore undoes the raw mode of the terminal; nil means that it is in its usual mode.
	restore func()
	// cut is why a part of the input did not arrive.
	cut error
}

// newInteractive returns what a task with these settings needs; nil if it needs nothing.
func newInteractive(f *cmdutil.Factory, stdin, tty bool) *interactive {
	if !stdin && !tty {
		return nil
	}
	return &interactive{f: f, stdin: stdin, tty: tty}
}

// run passes input and sizes from the start of the task to its end, or to the end of the input.
func (i *interactive) run(ctx context.Context, w *following, id string) {
	for {
		status, changed, err := w.board.get(id)
		if err != nil || status != nil && status.Phase.Ended() {
			return
		}
		if status != nil && status.Phase == types.Running {
			if i.reading != nil {
				select {
				case <-i.reading:
				case <-ctx.Done():
					return
				}
			}
			i.pass(ctx, w, id, status)
			return
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return
		}
	}
}

// pass passes input and sizes to a running task, and goes on when its agent was restarted.
func (i *interactive) pass(ctx context.Context, w *following, id string, at *types.Status) {
	var input *nodeapi.Input
	if i.stdin {
		input = nodeapi.NewInput(i.f.In)
	}
	if err := i.begin(w, at); err != nil {
		i.fail(w, id, err)
		return
	}
	retry := controlplane.RetryPolicy()
	for told := false; ; told = true {
		err := i.attach(ctx, w, id, input)
		if err == nil || ctx.Err() != nil {
			return
		}
		if status, _, gone := w.board.get(id); gone != nil || status.Phase.Ended() {
			return
		}
		switch {
		case types.Is(err, types.Precondition):
			return // It has ended.
		case !types.Is(err, types.Unavailable):
			i.fail(w, id, err)
			return
		case !told:
			w.console.Say("the input of %s waits: %v", id, err)
		}
		if supervise.Pause(ctx, retry.NextBackOff()) != nil {
			return
		}
	}
}

// begin notes where the task runs, and passes on keys unchanged from now on.
func (i *interactive) begin(w *following, at *types.Status) error {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.node, i.attempt = at.Node, at.Attempt
	if !i.stdin || !i.tty {
		return nil
	}
	restore, err := i.f.RawInput()
	if err == nil {
		i.restore = restore
		w.console.SetRaw(true)
	}
	return err
}

// attach passes input and sizes through one connection.
func (i *interactive) attach(ctx context.Context, w *following, id string, input *nodeapi.Input) error {
	var sizes <-chan nodeagent.Size
	if i.tty {
		var stop func()
		sizes, stop = i.f.TerminalSizes()
		defer stop()
	}
	return i.f.OnNode(ctx, i.node, func(c *nodeapi.Client) error {
		return c.Attach(ctx, w.client.Namespace(), id, i.attempt, input, sizes)
	})
}

// fail notes that input does not arrive. Without an input, only the size of the terminal is lost.
func (i *interactive) fail(w *following, id string, err error) {
	if types.Is(err, types.NotFound) {
		err = types.Errorf(types.Precondition, "node %s runs an agent of an older version, which passes none: upgrade it", i.node)
	}
	if !i.stdin {
		w.console.Say("the size of the terminal is not passed to %s: %v", id, err)
		return
	}
	w.console.Say("the input of %s is cut off: %v", id, err)
	i.mu.Lock()
	defer i.mu.Unlock()
	i.cut = types.Errorf(types.Unavailable, "pass the input to task %s: %w", id, err)
}

// end puts the terminal back into its usual mode.
func (i *interactive) end(v *cmdutil.Console) {
	if i == nil {
		return
	}
	i.mu.Lock()
	defer i.mu.Unlock()
	if i.restore != nil {
		i.restore()
		i.restore = nil
		v.SetRaw(false)
	}
}

// failed returns why a part of the input did not arrive.
func (i *interactive) failed() error {
	if i == nil {
		return nil
	}
	i.mu.Lock()
	defer i.mu.Unlock()
	return i.cut
}

// interrupt passes a Ctrl-C to the process of a running task; false if that is not possible, or not
// wanted: keys of a raw terminal arrive as they are.
func (i *interactive) interrupt(ctx context.Context, tasks cmdutil.Tasks, id string) bool {
	direct, ok := tasks.(cmdutil.Direct)
	if i == nil || !ok {
		return false
	}
	i.mu.Lock()
	node, attempt, raw := i.node, i.attempt, i.restore != nil
	i.mu.Unlock()
	if node == "" || raw {
		return false
	}
	err := i.f.OnNode(ctx, node, func(c *nodeapi.Client) error {
		return c.Signal(ctx, direct.Client.Namespace(), id, attempt, "SIGINT")
	})
	return err == nil
}
