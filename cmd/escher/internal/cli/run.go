package cli

import (
	"context"
	"fmt"

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
  escher run -p http -v /srv/www:/www:ro --restart always:5 --workdir /www IMAGE
  escher run -- hostname                  (in a task: its own image)

What a file describes is for escher submit.`

// newRun makes the command that submits tasks.
func newRun(f *Factory) *cobra.Command {
	var flags runFlags
	cmd := &cobra.Command{
		Use:   "run [IMAGE|--binary PATH] [-- COMMAND...|ARGUMENT...]",
		Short: "Run a task",
		Long:  runHelp,
		Args:  cobra.ArbitraryArgs,
		RunE: func(cmd *cobra.Command, args []string) error {
			l, err := flags.launch(f, args, cmd.ArgsLenAtDash())
			if err != nil {
				return err
			}
			return runAll(cmd.Context(), f, l, flags.detach)
		},
	}
	flags.add(cmd)
	return cmd
}

// launching is what is to be launched.
type launching struct {
	subs []controlplane.Submission
	// image is to be made first, unless it has no name.
	image image.Spec
}

// launch checks all of it before anything is written. dash is how many arguments
// stand before --.
func (r *runFlags) launch(f *Factory, args []string, dash int) (launching, error) {
	var l launching
	command, err := r.split(f, args, dash)
	if err != nil {
		return l, err
	}
	if r.binary != "" {
		if f.inTask() {
			return l, types.Errorf(types.Precondition, "run: a task cannot make images: make one outside, with escher image make, and name it")
		}
		if err := checkBinary(r.binary); err != nil {
			return l, err
		}
		if l.image, err = binaryImage(r.binary); err != nil {
			return l, err
		}
		r.image = l.image.Name
		if len(command) > 0 {
			// The binary is the command; what is given are its arguments.
			command = append([]string{inImage(r.binary)}, command...)
		}
	}
	l.subs, err = r.submissions(f, command)
	return l, err
}

func runAll(ctx context.Context, f *Factory, l launching, detach bool) error {
	tasks, err := f.Tasks(ctx)
	if err != nil {
		return err
	}
	if l.image.Name != "" {
		if err := importImage(ctx, f, l.image); err != nil {
			return err
		}
	}
	var job *controlplane.Job
	if len(l.subs) > 1 {
		job = &controlplane.Job{Name: l.subs[0].Task.Name}
	}
	res, err := tasks.Launch(ctx, job, l.subs...)
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
