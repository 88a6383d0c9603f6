package run

import (
	"context"
	"sync"

	"github.com/spf13/cobra"

	"github.com/escher-sched/escher/cmd/escher/internal/cli/cmdutil"
	"github.com/escher-sched/escher/types"
)

const attachHelp = `Passes the input and the terminal of this command to a task whose file has stdin or tty,
prints its output from now on, and ends with its exit code. A task has one such client:
when it ends, or none comes within a minute of the start, the input of the task ends.

  escher apply -f console.yaml
  escher attach console

escher run attaches by itself. To follow the output of any task, use escher logs.`

// NewAttach returns the command that passes an input to a task.
func NewAttach(f *cmdutil.Factory) *cobra.Command {
	return cmdutil.EndsWithTask(&cobra.Command{
		Use:   "attach TASK",
		Short: "Pass the input and the terminal to a task",
		Long:  attachHelp,
		Args:  cmdutil.Exactly("TASK"),
		RunE:  func(cmd *cobra.Command, args []string) error { return attach(cmd.Context(), f, args[0]) },
	}, "")
}

func attach(ctx context.Context, f *cmdutil.Factory, name string) error {
	client, err := f.Client(ctx)
	if err != nil {
		return err
	}
	t, err := cmdutil.OneTask(ctx, client, name)
	if err != nil {
		return err
	}
	if t.Phase().Ended() {
		return types.Errorf(types.Precondition, "attach to task %s: it does not run, it is %s: what it wrote is in escher logs %s", t.ID, t.Phase(), t.ID)
	}
	spec, err := client.Spec(ctx, t.Task.Spec)
	if err != nil {
		return err
	}
	in := newInteractive(f, spec.Stdin, spec.TTY)
	if in == nil {
		return types.Errorf(types.Precondition, "attach to task %s: it has neither an input nor a terminal: run it with -i or -t, or use escher logs -f %s", t.ID, t.ID)
	}
	if spec.Stdin && spec.TTY {
		if err := f.InputIsTerminal(); err != nil {
			return err
		}
	}
	following, leave := context.WithCancelCause(context.WithoutCancel(ctx))
	defer leave(nil)
	done := context.AfterFunc(ctx, func() {
		if !in.interrupt(following, f.Direct(client), t.ID) {
			leave(context.Cause(ctx))
		}
	})
	defer done()
	// Otherwise an answer to the input could be written before the output is read from its end.
	in.reading = make(chan struct{})
	v := newViewer(f, client, false, logFlags{tail: 0})
	v.reading = sync.OnceFunc(func() { close(in.reading) })
	followed, err := v.follow(following, []string{t.ID}, followOptions{waits: true, interactive: in})
	in.end(v.console)
	if err == nil {
		err = followed.removed()
	}
	if err != nil {
		return err
	}
	if err := endOf(f, followed.statuses); err != nil {
		return err
	}
	return in.failed()
}
