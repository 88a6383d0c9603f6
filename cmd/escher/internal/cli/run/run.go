// Package run holds the commands for the life of tasks: run, submit, wait, logs, stop, rm.
package run

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/escher-sched/escher/cmd/escher/internal/cli/cmdutil"
	"github.com/escher-sched/escher/cmd/escher/internal/cli/images"
	"github.com/escher-sched/escher/controlplane"
	"github.com/escher-sched/escher/esl"
	"github.com/escher-sched/escher/esl/apply"
	"github.com/escher-sched/escher/esl/builtin"
	"github.com/escher-sched/escher/nodeagent/runtime/image"
	"github.com/escher-sched/escher/types"
)

const runHelp = `Submits a task, prints its output and ends with its exit code. The first Ctrl-C stops the
task. With -d it prints the id and returns.

The cluster owns the task. If this command is killed (kill -9, or its machine is lost),
the task runs on. Find it with escher ps, print its output with escher logs -f ID, wait
for its end with escher wait ID, and stop it with escher stop ID.

  escher run --cpu 1 --memory 256Mi docker.io/library/busybox:1.36 -- echo hello
  escher run -d --request co_location=1 --binary ./task2
  escher run -d --provide co_location=1@running --binary ./task1
  escher run -p http -v /srv/www:/www:ro --restart always:5 --workdir /www IMAGE
  escher run -- hostname                  (in a task: its own image)
  escher run --gang 4 --spread rack IMAGE              four tasks, all at once or none
  escher run --policy 'spread={over: rack}' IMAGE      any policy: escher policies kinds

To launch tasks from a file, use escher submit.`

// NewRun returns the command that submits tasks.
func NewRun(f *cmdutil.Factory) *cobra.Command {
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
	flags.Add(cmd)
	return cmd
}

// launching is a checked submission.
type launching struct {
	subs []controlplane.Submission
	// policies are those of the tasks, as one job.
	policies []esl.Policy
	// image is to make first, unless it has no name.
	image image.Spec
}

// launch checks everything before anything is written. dash is the number of arguments before --.
func (r *runFlags) launch(f *cmdutil.Factory, args []string, dash int) (launching, error) {
	var l launching
	command, err := r.split(f, args, dash)
	if err != nil {
		return l, err
	}
	if r.binary != "" {
		if f.InTask() {
			return l, types.Errorf(types.Precondition, "run: a task cannot make images: make one outside, with escher image make, and name it")
		}
		if err := checkBinary(r.binary); err != nil {
			return l, err
		}
		if l.image, err = images.BinaryImage(r.binary); err != nil {
			return l, err
		}
		r.image = l.image.Name
		if len(command) > 0 {
			// The binary is the command, and the arguments follow it.
			command = append([]string{images.InImage(r.binary)}, command...)
		}
	}
	if l.policies, err = r.policies.Policies(); err != nil {
		return l, err
	}
	for _, notice := range r.policies.Notices {
		f.Tell("%s", notice)
	}
	if f.InTask() && len(l.policies) > 0 {
		return l, errPoliciesInside()
	}
	l.subs, err = r.submissions(f, command)
	return l, err
}

// errPoliciesInside says that the socket of a task knows no policies.
func errPoliciesInside() error {
	return types.Errorf(types.Precondition, "policies: a task cannot submit what has some: submit it outside, or leave them out")
}

// submit submits the tasks: as a job if there are several, or policies.
func (l launching) submit(ctx context.Context, tasks cmdutil.Tasks) (controlplane.Launched, error) {
	stored, err := esl.StoredForms(l.policies)
	if err != nil {
		return controlplane.Launched{}, err
	}
	job := controlplane.Job{Name: l.subs[0].Task.Name, Tasks: l.subs, RequestDigest: apply.RequestDigest(l.subs, stored)}
	if direct, ok := tasks.(cmdutil.Direct); ok && len(l.policies) > 0 {
		return builtin.New(direct.Client).Submit(ctx, job, l.policies...)
	}
	if len(l.subs) == 1 {
		return tasks.Launch(ctx, l.subs...)
	}
	return tasks.LaunchJob(ctx, job)
}

func runAll(ctx context.Context, f *cmdutil.Factory, l launching, detach bool) error {
	tasks, err := f.Tasks(ctx)
	if err != nil {
		return err
	}
	if l.image.Name != "" {
		if err := images.ImportImage(ctx, f, l.image); err != nil {
			return err
		}
	}
	res, err := l.submit(ctx, tasks)
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
