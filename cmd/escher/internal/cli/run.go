package cli

import (
	"context"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/escher-sched/escher/controlplane"
	"github.com/escher-sched/escher/types"
)

const runHelp = `Submits a task. Attached, it shows the output of the task and ends with its exit
code; a first Ctrl-C stops the task. With -d it prints the id and returns.

  escher run --cpu 1 --memory 256Mi docker.io/library/busybox:1.36 -- echo hello
  escher run -d --request co_location=1 --binary ./task2
  escher run -d --provide co_location=1@running --binary ./task1`

// newRun makes the command that submits tasks.
func newRun(f *Factory) *cobra.Command {
	var flags runFlags
	cmd := &cobra.Command{
		Use:   "run [IMAGE|--binary PATH] [-- COMMAND...]",
		Short: "Run a task",
		Long:  runHelp,
		Args:  cobra.ArbitraryArgs,
		RunE: func(cmd *cobra.Command, args []string) error {
			command, err := flags.split(args)
			if err != nil {
				return err
			}
			subs, err := flags.submissions(command)
			if err != nil {
				return err
			}
			return run(cmd.Context(), f, flags, subs)
		},
	}
	flags.add(cmd)
	return cmd
}

func run(ctx context.Context, f *Factory, flags runFlags, subs []controlplane.Submission) error {
	tasks, err := f.Tasks(ctx)
	if err != nil {
		return err
	}
	if flags.binary != "" && f.inTask() {
		return types.Errorf(types.Precondition, "run: a task cannot make images: make one outside, with escher image, and name it")
	}
	if flags.binary != "" {
		if subs[0].Spec.Image, err = binaryImage(ctx, f, flags.binary); err != nil {
			return err
		}
	}
	if err := subs[0].Spec.Validate(); err != nil {
		return err
	}
	res, err := tasks.Launch(ctx, subs...)
	if err != nil {
		return err
	}
	if flags.detach {
		for _, id := range res.Tasks {
			fmt.Fprintln(f.Out, id)
		}
		return nil
	}
	return attached(ctx, f, tasks, res.Tasks)
}

// attached shows what tasks write until they have ended, and stops them when ctx is
// done first.
func attached(ctx context.Context, f *Factory, tasks Tasks, ids []string) error {
	statuses, err := f.follow(ctx, tasks, ids)
	if err == nil || ctx.Err() == nil {
		if err != nil {
			return err
		}
		return endOf(f, statuses)
	}
	fmt.Fprintln(f.Err, "escher: stopping; interrupt again to leave at once")
	// What is to be stopped is not kept from it by the signal that said so.
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Minute)
	defer cancel()
	for _, id := range ids {
		if err := tasks.Stop(ctx, id, controlplane.StopOptions{Reason: "interrupted by its user", Grace: 10 * time.Second}); err != nil && !types.Is(err, types.NotFound) {
			return err
		}
	}
	if statuses, err = tasks.Wait(ctx, controlplane.UntilEnded, ids...); err != nil {
		return err
	}
	return endOf(f, statuses)
}
