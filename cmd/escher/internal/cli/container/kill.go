package container

import (
	"context"
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/escher-sched/escher/cmd/escher/internal/cli/cmdutil"
	"github.com/escher-sched/escher/controlplane"
	"github.com/escher-sched/escher/nodeagent/serve/nodeapi"
	"github.com/escher-sched/escher/types"
)

const killHelp = `Sends a signal to the first process of running tasks. What the process makes of it is its
own: a task that ends by it has ended by itself, and may run again as --restart and
--retries say. To end a task for good, use escher stop.

  escher kill -s USR1 train   to all running tasks of a job
  escher kill -s HUP web
  escher kill web             SIGKILL`

// NewKill returns the command that sends signals to tasks.
func NewKill(f *cmdutil.Factory) *cobra.Command {
	var signal string
	cmd := &cobra.Command{
		Use:   "kill TASK|JOB...",
		Short: "Send a signal to running tasks",
		Long:  killHelp,
		Args:  cmdutil.AtLeastOne("TASK"),
		RunE: func(cmd *cobra.Command, args []string) error {
			ctx := cmd.Context()
			client, err := f.Client(ctx)
			if err != nil {
				return err
			}
			named, err := cmdutil.FindAll(ctx, client, args, controlplane.Tasks, controlplane.Jobs)
			if err != nil {
				return err
			}
			tasks, err := cmdutil.TasksOf(ctx, client, named)
			if err != nil {
				return err
			}
			return killAll(ctx, f, client.Namespace(), tasks, signal)
		},
	}
	cmd.Flags().StringVarP(&signal, "signal", "s", "KILL", "name of the signal, such as USR1, or its number")
	return cmd
}

// killAll sends a signal to the running ones of tasks, and prints their ids. It is an error if none
// of them runs.
func killAll(ctx context.Context, f *cmdutil.Factory, ns string, tasks []controlplane.TaskState, signal string) error {
	var errs []error
	running := 0
	for i := range tasks {
		t := &tasks[i]
		if t.Phase() != types.Running {
			continue
		}
		running++
		err := f.OnNode(ctx, t.Status.Node, func(c *nodeapi.Client) error { return c.Signal(ctx, ns, t.ID, t.Attempt(), signal) })
		if types.Is(err, types.Invalid) {
			return err // It is the same for all.
		}
		if err != nil {
			errs = append(errs, fmt.Errorf("task %s: %w", t.ID, err))
			continue
		}
		fmt.Fprintln(f.Out, t.ID)
	}
	if running == 0 && len(tasks) > 0 {
		return notRunning(&tasks[0], "signal")
	}
	if err := errors.Join(errs...); err != nil {
		return types.Errorf(types.ClassOf(errs[0]), "%w", err)
	}
	return nil
}
