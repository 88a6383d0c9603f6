package run

import (
	"cmp"
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/escher-sched/escher/cmd/escher/internal/cli/cmdutil"
	"github.com/escher-sched/escher/controlplane"
	"github.com/escher-sched/escher/esl"
	"github.com/escher-sched/escher/esl/admission"
	"github.com/escher-sched/escher/esl/taskset"
	"github.com/escher-sched/escher/types"
)

const rerunHelp = `Launches tasks that have ended once more, as new tasks with new ids. A task of a job keeps
its index, so that one part of an array can run again; the tasks become a job of their
own. Of a job, all tasks that have ended run again, or with --failed those that did not
succeed.

The new tasks keep the shared policies of the old ones, such as a queue. The policies
of the job itself have ended with it; --at-once limits how many run at once. Tasks of a
gang run again with their job alone: submit its file.

  escher rerun sweep-x7k2.07
  escher rerun --failed --at-once 8 sweep`

// NewRerun returns the command that launches ended tasks again.
func NewRerun(f *cmdutil.Factory) *cobra.Command {
	var failed, detach bool
	var atOnce int
	cmd := cmdutil.EndsWithTask(&cobra.Command{
		Use:   "rerun TASK|JOB...",
		Short: "Run tasks that have ended once more",
		Long:  rerunHelp,
		Args:  cmdutil.AtLeastOne("TASK"),
		RunE: func(cmd *cobra.Command, args []string) error {
			var policies []esl.Policy
			if cmd.Flags().Changed("at-once") {
				policies = []esl.Policy{admission.Limit{AtOnce: atOnce}}
			}
			return rerun(cmd.Context(), f, args, failed, detach, policies)
		},
	}, "")
	cmd.Flags().BoolVar(&failed, "failed", false, "only those that did not succeed")
	cmd.Flags().IntVar(&atOnce, "at-once", 0, "how many of them run at once; any number if it is left out")
	cmd.Flags().BoolVarP(&detach, "detach", "d", false, "print the ids, and leave the tasks running")
	return cmd
}

func rerun(ctx context.Context, f *cmdutil.Factory, names []string, failed, detach bool, policies []esl.Policy) error {
	client, err := f.Client(ctx)
	if err != nil {
		return err
	}
	found, err := cmdutil.FindAll(ctx, client, names, controlplane.Tasks, controlplane.Jobs)
	if err != nil {
		return err
	}
	l := launching{policies: policies}
	former := make(map[string]string) // the former owner of each name, a job or task
	now := time.Now()
	for _, one := range found {
		tasks, err := cmdutil.TasksOf(ctx, client, []cmdutil.Named{one})
		if err != nil {
			return err
		}
		for _, t := range tasks {
			switch phase := t.Phase(); {
			case !phase.Ended() && one.Kind == controlplane.Tasks:
				return types.Errorf(types.Precondition, "rerun: task %s is %s: wait for its end, or stop it first", t.ID, phase)
			case !phase.Ended() || failed && phase == types.Succeeded:
				continue
			}
			s, err := again(t, now)
			if err != nil {
				return err
			}
			l.subs = append(l.subs, s)
			if name := t.Task.Name; name != "" {
				former[name] = cmp.Or(t.Task.Job, t.ID)
			}
		}
	}
	if len(l.subs) == 0 {
		return types.Errorf(types.Precondition, "rerun: no task of %s has ended%s: there is nothing to run again", strings.Join(names, ", "), map[bool]string{true: " without success"}[failed])
	}
	tasks := f.Direct(client)
	res, err := l.submit(ctx, tasks)
	if err != nil {
		return err
	}
	for name, of := range former {
		f.Tell("%s is the name of the new run from now on; the former one is %s: escher ps -a %s", name, of, of)
	}
	if detach {
		for _, id := range res.Tasks {
			fmt.Fprintln(f.Out, id)
		}
		return nil
	}
	return attached(ctx, f, tasks, res.Tasks, nil)
}

// again returns the submission of a task like an ended one. It asks for nothing of what the policies
// of the job made, which has ended with the job. Precondition: it drew on a reservation of the job.
func again(t controlplane.TaskState, now time.Time) (controlplane.Submission, error) {
	is := t.Task
	task := types.Task{
		Name: is.Name, Devices: is.Devices, Spec: is.Spec, Priority: is.Priority, Scheduler: is.Scheduler,
		OnDisconnect: is.OnDisconnect, MaxRun: is.MaxRun, Accumulate: is.Accumulate, Retries: is.Retries, Index: is.Index, Count: is.Count, Labels: is.Labels,
	}
	if is.Deadline != 0 {
		task.Deadline = now.UnixNano() + is.Deadline - is.Submitted
	}
	for _, p := range is.Provides {
		if is.Job == "" || !strings.HasPrefix(p.Name, is.Job+".") {
			task.Provides = append(task.Provides, p)
		}
	}
	var err error
	if task.Requests, err = withoutJob(t, is.Requests); err != nil {
		return controlplane.Submission{}, err
	}
	for _, a := range is.Alternatives {
		rest, err := withoutJob(t, a.Requests)
		if err != nil {
			return controlplane.Submission{}, err
		}
		if len(rest) < len(a.Requests) && len(rest) == 0 {
			task.Alternatives = nil // they were places that a policy chose
			break
		}
		task.Alternatives = append(task.Alternatives, types.Alternative{Requests: rest, After: a.After})
	}
	return controlplane.Submission{Task: task}, nil
}

// withoutJob returns requests without those of the resources of the task's job.
func withoutJob(t controlplane.TaskState, requests types.Requests) (out types.Requests, err error) {
	own := t.Task.Job + "."
	for _, x := range requests {
		name, reservation, scoped := strings.Cut(x.Name, "@")
		switch {
		case taskset.IsSharePool(name): // the submission draws on the present one
		case t.Task.Job == "":
			out = append(out, x)
		case scoped && strings.HasPrefix(reservation, own):
			return nil, types.Errorf(types.Precondition, "rerun: task %s took its %s from reservation %s of its job: submit the job again", t.ID, name, reservation)
		case !strings.HasPrefix(name, own):
			out = append(out, x)
		}
	}
	return out, nil
}
