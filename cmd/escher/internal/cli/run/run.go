// Package run holds the commands for the life of tasks: run, submit, wait, logs, stop, rm.
package run

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/escher-sched/escher/cmd/escher/internal/cli/cmdutil"
	"github.com/escher-sched/escher/cmd/escher/internal/cli/file"
	"github.com/escher-sched/escher/cmd/escher/internal/cli/images"
	"github.com/escher-sched/escher/controlplane"
	"github.com/escher-sched/escher/controlplane/manifest"
	"github.com/escher-sched/escher/esl"
	"github.com/escher-sched/escher/esl/admission"
	"github.com/escher-sched/escher/nodeagent/runtime/image"
	"github.com/escher-sched/escher/types"
)

const runHelp = `Runs a task: prints its output, and ends with its exit code. While it waits, it says why.
Ctrl-C stops the task. With -d it prints the id and returns. With -i or -t, Ctrl-C goes to
the task, and the end of this command ends its input.

  escher run busybox:1.36 -- echo hello
  escher run --cpu 2 --memory 4Gi --gpu 1 train:3 -- --epochs 3   requests; arguments of the image
  escher run --workdir . python:3.13 -- python train.py           with your code
  escher run --gang 4 --spread rack train:3                       four tasks, all at once or none
  escher run --array 0-99%8 sweep:1                               100 tasks, 8 at once
  escher run -d --name web -p http --restart always web:v3        a service
  escher run -d --queue nightly --retries 2 train:3               waits its turn in a queue
  escher run --policy 'pack={}' train:3                           any policy: escher policies kinds
  escher run -it busybox:1.36 -- sh                               a shell; -i alone passes an input
  escher run -d -l team=vision train:3                            a label: escher ps -l team=vision
  escher run --secret db train:3                                  a secret, in /run/secrets/db
  escher run -d --request slot=1 --binary ./escher -- version     a program without an image

The cluster owns the task: it runs on if this command is killed. To find it, use escher ps;
to read, wait for and end it, escher logs, wait and stop. In a task, escher run -- COMMAND
uses its own image. To launch tasks from a file, use escher submit.`

// NewRun returns the command that submits tasks.
func NewRun(f *cmdutil.Factory) *cobra.Command {
	var flags runFlags
	var line commandLine
	cmd := cmdutil.EndsWithTask(&cobra.Command{
		Use:   "run [IMAGE|--binary PATH] [--] [COMMAND...|ARGUMENT...]",
		Short: "Run a task",
		Long:  runHelp,
		Args:  line.parse,
		RunE: func(cmd *cobra.Command, _ []string) error {
			l, err := flags.launch(f, line.args, line.dash)
			if err != nil {
				return err
			}
			return runAll(cmd.Context(), f, l, flags.detach)
		},
	}, "")
	flags.Add(cmd)
	cmdutil.Former(cmd, f, "ageing", "aging")
	cmd.Flags().SetInterspersed(false)
	return cmd
}

// commandLine are the arguments of run, and the number of them before --; -1 without it.
type commandLine struct {
	args []string
	dash int
}

// parse parses the flags of run that follow the image. The flags after the first word of the command,
// or after --, are those of the command, as in docker.
func (c *commandLine) parse(cmd *cobra.Command, args []string) error {
	c.args, c.dash = args, cmd.ArgsLenAtDash()
	if c.dash >= 0 || len(args) == 0 {
		return nil
	}
	flags := cmd.Flags()
	if err := flags.Parse(args[1:]); err != nil {
		return cmd.FlagErrorFunc()(cmd, err)
	}
	if help, _ := flags.GetBool("help"); help { // every command has it
		return pflag.ErrHelp
	}
	c.args = append(args[:1:1], flags.Args()...)
	return nil
}

// launching is a checked submission.
type launching struct {
	subs []controlplane.Submission
	// policies are those of the tasks, as one job.
	policies []esl.Policy
	// image is to make first, unless it has no name.
	image image.Spec
	// workdir is a directory to send first; empty means none.
	workdir string
}

// launch checks everything before anything is written. dash is the number of arguments before --.
func (r *runFlags) launch(f *cmdutil.Factory, args []string, dash int) (launching, error) {
	var l launching
	if err := notANumber(f); err != nil {
		return l, err
	}
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
		if r.spec.entrypointGiven() {
			return l, types.Errorf(types.Invalid, "entrypoint: is given together with --binary, which is the entry point: drop one of them")
		}
		r.spec.binary = images.InImage(r.binary)
	}
	if l.policies, err = r.policies.Policies(); err != nil {
		return l, err
	}
	if r.array != "" {
		if r.indices, err = manifest.ParseArray(r.array); err != nil {
			return l, err
		}
		if n := r.indices.AtOnce; n > 0 {
			l.policies = append(l.policies, admission.Limit{AtOnce: n})
		}
	}
	for _, notice := range r.policies.Notices {
		f.Tell("%s", notice)
	}
	if l.subs, err = r.submissions(f, command); err != nil {
		return l, err
	}
	if err := r.interactive(f, l); err != nil {
		return l, err
	}
	l.workdir = r.spec.local
	if f.InTask() && l.workdir != "" {
		return l, file.ErrWorkdirInside()
	}
	return l, nil
}

// submit submits the tasks: as a job if there are several, or policies.
func (l launching) submit(ctx context.Context, tasks cmdutil.Tasks) (controlplane.Launched, error) {
	if len(l.policies) == 0 && len(l.subs) == 1 && l.subs[0].Task.Count == 0 {
		return tasks.Launch(ctx, l.subs...)
	}
	return tasks.LaunchJob(ctx, controlplane.Job{Name: l.subs[0].Task.Name, Labels: l.subs[0].Task.Labels, Tasks: l.subs}, l.policies...)
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
	if err := l.sendWorkdir(ctx, f); err != nil {
		return err
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
	return attached(ctx, f, tasks, res.Tasks, newInteractive(f, l.subs[0].Spec.Stdin, l.subs[0].Spec.TTY))
}
