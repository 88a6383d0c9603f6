package cli

import (
	"context"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/escher-sched/escher/controlplane"
	"github.com/escher-sched/escher/nodeagent/image"
	"github.com/escher-sched/escher/types"
)

const runHelp = `Submits a task. Attached, it shows the output of the task and ends with its exit
code; a first Ctrl-C stops the task. With -d it prints the id and returns.

  escher run --cpu 1 --memory 256Mi docker.io/library/busybox:1.36 -- echo hello
  escher run -d --request co_location=1 --binary ./task2
  escher run -d --provide co_location=1@running --binary ./task1
  escher run --file job.yaml`

// newRun makes the command that submits tasks.
func newRun(f *Factory) *cobra.Command {
	var flags runFlags
	cmd := &cobra.Command{
		Use:   "run [IMAGE|--binary PATH|--file YAML] [-- COMMAND...|ARGUMENT...]",
		Short: "Run a task",
		Long:  runHelp,
		Args:  cobra.ArbitraryArgs,
		RunE: func(cmd *cobra.Command, args []string) error {
			l, err := flags.launch(f, args)
			if err != nil {
				return err
			}
			return run(cmd.Context(), f, l, flags.detach)
		},
	}
	flags.add(cmd)
	return cmd
}

// launching is what is to be launched.
type launching struct {
	job  *controlplane.Job
	subs []controlplane.Submission
	// image is to be made first, unless it has no name.
	image image.Spec
}

// launch checks all of it before anything is written.
func (r *runFlags) launch(f *Factory, args []string) (launching, error) {
	var l launching
	var err error
	if r.file != "" {
		if len(args) > 0 || r.binary != "" {
			return l, types.Errorf(types.Invalid, "file: excludes IMAGE and --binary: give one of them")
		}
		l.job, l.subs, err = readLaunch(f, r.file)
	} else {
		err = l.fromFlags(f, r, args)
	}
	if err != nil {
		return l, err
	}
	for _, s := range l.subs {
		if err := s.Spec.Validate(); err != nil {
			return l, err
		}
	}
	return l, nil
}

func (l *launching) fromFlags(f *Factory, r *runFlags, args []string) error {
	command, err := r.split(args)
	if err != nil {
		return err
	}
	if r.binary != "" {
		if f.inTask() {
			return types.Errorf(types.Precondition, "run: a task cannot make images: make one outside, with escher image, and name it")
		}
		if l.image, err = binaryImage(r.binary); err != nil {
			return err
		}
		r.image = l.image.Name
		if len(command) > 0 {
			// The binary is the command; what is given are its arguments.
			command = append([]string{inImage(r.binary)}, command...)
		}
	}
	l.subs, err = r.submissions(command)
	return err
}

func run(ctx context.Context, f *Factory, l launching, detach bool) error {
	tasks, err := f.Tasks(ctx)
	if err != nil {
		return err
	}
	if l.image.Name != "" {
		if err := importImage(ctx, f, l.image); err != nil {
			return err
		}
	}
	res, err := tasks.Launch(ctx, l.job, l.subs...)
	if err != nil {
		return err
	}
	if detach {
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
