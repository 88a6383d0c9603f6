package run

import (
	"context"
	"fmt"
	"net/http"

	"github.com/spf13/cobra"

	"github.com/escher-sched/escher/cmd/escher/internal/cli/cmdutil"
	"github.com/escher-sched/escher/cmd/escher/internal/cli/render"
	"github.com/escher-sched/escher/controlplane"
	"github.com/escher-sched/escher/types"
)

const rmHelp = `Deletes tasks that have ended, and jobs whose tasks have all ended: they are no longer
listed. A server deletes them anyway after a while. Nodes keep the logs as long as they
would otherwise.

  escher rm web
  escher rm --force train        stop it first, and wait for its end
  escher rm --ended              all that have ended in the namespace
  escher rm --ended -l sweep=7   those of them with this label`

// NewRm returns the command that deletes ended tasks and jobs.
func NewRm(f *cmdutil.Factory) *cobra.Command {
	var force, ended, dry bool
	var labels cmdutil.Selection
	cmd := &cobra.Command{
		Use:   "rm TASK|JOB...|-l LABELS|--ended",
		Short: "Delete tasks and jobs that have ended",
		Long:  rmHelp,
		Args: func(cmd *cobra.Command, args []string) error {
			if ended && len(args) > 0 {
				return types.Errorf(types.Invalid, "ended: forgets all that has ended, and %s is named too: give one of them", args[0])
			}
			if ended {
				return nil
			}
			return labels.Args(cmdutil.AtLeastOne("TASK"))(cmd, args)
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			ctx := cmd.Context()
			client, err := f.Client(ctx)
			if err != nil {
				return err
			}
			var targets []cmdutil.Named
			switch {
			case !labels.IsZero():
				targets, err = selected(ctx, f, client, &labels, dry, "deleting", func(t *controlplane.TaskState) bool { return !ended || t.Phase().Ended() })
			case ended:
				targets, err = endedTargets(ctx, client)
			default:
				targets, err = cmdutil.FindAll(ctx, client, args, controlplane.Tasks, controlplane.Jobs)
			}
			if err != nil {
				return err
			}
			if dry {
				return list(f, targets)
			}
			if force {
				if err := stopFirst(ctx, f, client, targets); err != nil {
					return err
				}
			}
			return remove(ctx, f, client, targets)
		},
	}
	labels.AddSelector(cmd, cmdutil.TaskLabels, "the tasks and jobs")
	addDryRun(cmd, &dry)
	cmd.Flags().BoolVarP(&force, "force", "f", false, "stop them first if they have not ended")
	cmd.Flags().BoolVar(&ended, "ended", false, "all tasks and jobs of the namespace that have ended")
	return cmd
}

// endedTargets returns the jobs whose tasks have all ended, and the ended tasks without a job.
func endedTargets(ctx context.Context, client *controlplane.Client) ([]cmdutil.Named, error) {
	all, _, err := client.Tasks(ctx)
	if err != nil {
		return nil, err
	}
	var out []cmdutil.Named
	jobs := make(map[string]bool)
	for _, t := range all {
		job, over := t.Task.Job, t.Phase().Ended()
		if job == "" && over {
			out = append(out, cmdutil.Named{Kind: controlplane.Tasks, ID: t.ID})
		}
		if job != "" {
			known, seen := jobs[job]
			jobs[job] = over && (known || !seen)
		}
	}
	for _, job := range render.SortedKeys(jobs) {
		if jobs[job] {
			out = append(out, cmdutil.Named{Kind: controlplane.Jobs, ID: job})
		}
	}
	return out, nil
}

// stopFirst stops the tasks that have not ended, and waits until they have.
func stopFirst(ctx context.Context, f *cmdutil.Factory, client *controlplane.Client, targets []cmdutil.Named) error {
	flags := stopFlags{reason: "stopped by escher rm", wait: true}
	ids, err := flags.stop(ctx, f, client, targets)
	if err != nil {
		return err
	}
	return flags.waitFor(ctx, f, f.Direct(client), ids)
}

// remove deletes targets. It checks all of them before it deletes the first.
func remove(ctx context.Context, f *cmdutil.Factory, client *controlplane.Client, targets []cmdutil.Named) error {
	tasks, err := cmdutil.TasksOf(ctx, client, targets)
	if err != nil {
		return err
	}
	for _, t := range tasks {
		if !t.Phase().Ended() {
			return types.Errorf(types.Precondition, "rm: task %s is %s: stop it first, or give --force", t.ID, t.Phase())
		}
	}
	for _, t := range targets {
		if t.Kind == controlplane.Jobs {
			err = f.Change(ctx, http.MethodDelete, f.Path("jobs", t.ID), nil, nil)
		} else {
			err = f.Change(ctx, http.MethodDelete, f.Path("tasks", t.ID), nil, nil)
		}
		if err != nil {
			return err
		}
		fmt.Fprintln(f.Out, t.ID)
	}
	return nil
}
