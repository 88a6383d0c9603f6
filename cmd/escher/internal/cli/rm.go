package cli

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/escher-sched/escher/controlplane"
	"github.com/escher-sched/escher/types"
)

const rmHelp = `Forgets tasks that have ended, and jobs of which all tasks have: they are no longer
listed. Without it they are forgotten after a while. Logs are kept as long as the node
keeps them.

  escher rm web-x7k2
  escher rm --force train-m4q9      stops it first, and waits for its end
  escher rm --ended                 all that has ended in the namespace`

// newRm makes the command that forgets what has ended.
func newRm(f *Factory) *cobra.Command {
	var force, ended bool
	cmd := &cobra.Command{
		Use:   "rm TASK|JOB...",
		Short: "Forget tasks and jobs that have ended",
		Long:  rmHelp,
		Args: func(cmd *cobra.Command, args []string) error {
			if ended && len(args) > 0 {
				return types.Errorf(types.Invalid, "ended: forgets all that has ended, and %s is named too: give one of them", args[0])
			}
			if ended {
				return nil
			}
			return atLeastOne("TASK")(cmd, args)
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			ctx := cmd.Context()
			client, err := f.Client(ctx)
			if err != nil {
				return err
			}
			var targets []named
			if ended {
				targets, err = endedTargets(ctx, client)
			} else {
				targets, err = findAll(ctx, client, args, controlplane.Tasks, controlplane.Jobs)
			}
			if err != nil {
				return err
			}
			if force {
				if err := stopFirst(ctx, f, client, targets); err != nil {
					return err
				}
			}
			return remove(ctx, f, client, targets)
		},
	}
	cmd.Flags().BoolVarP(&force, "force", "f", false, "stop them first if they have not ended")
	cmd.Flags().BoolVar(&ended, "ended", false, "all tasks and jobs of the namespace that have ended")
	return cmd
}

// endedTargets returns the jobs of which all tasks have ended, and the tasks of none
// that have.
func endedTargets(ctx context.Context, client *controlplane.Client) ([]named, error) {
	all, _, err := client.Tasks(ctx)
	if err != nil {
		return nil, err
	}
	var out []named
	jobs := make(map[string]bool)
	for _, t := range all {
		job, over := t.Task.Job, t.Phase().Ended()
		if job == "" && over {
			out = append(out, named{controlplane.Tasks, t.ID})
		}
		if job != "" {
			known, seen := jobs[job]
			jobs[job] = over && (known || !seen)
		}
	}
	for _, job := range sortedKeys(jobs) {
		if jobs[job] {
			out = append(out, named{controlplane.Jobs, job})
		}
	}
	return out, nil
}

// stopFirst stops what has not ended, and waits until it has.
func stopFirst(ctx context.Context, f *Factory, client *controlplane.Client, targets []named) error {
	flags := stopFlags{reason: "stopped by escher rm", wait: true}
	ids, err := flags.stop(ctx, client, targets)
	if err != nil {
		return err
	}
	return flags.waitFor(ctx, f, outside{client}, ids)
}

// remove forgets targets; what was checked of all is checked before the first is gone.
func remove(ctx context.Context, f *Factory, client *controlplane.Client, targets []named) error {
	tasks, err := tasksOf(ctx, client, targets)
	if err != nil {
		return err
	}
	for _, t := range tasks {
		if !t.Phase().Ended() {
			return types.Errorf(types.Precondition, "rm: task %s is %s: stop it first, or give --force", t.ID, t.Phase())
		}
	}
	for _, t := range targets {
		if t.kind == controlplane.Jobs {
			_, err = client.RemoveJob(ctx, t.id)
		} else {
			err = client.Remove(ctx, t.id)
		}
		if err != nil {
			return err
		}
		fmt.Fprintln(f.Out, t.id)
	}
	return nil
}
