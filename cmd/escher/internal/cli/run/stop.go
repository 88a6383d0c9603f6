package run

import (
	"context"
	"fmt"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/sync/errgroup"

	"github.com/escher-sched/escher/cmd/escher/internal/cli/cmdutil"
	"github.com/escher-sched/escher/controlplane"
	"github.com/escher-sched/escher/types"
	"github.com/escher-sched/escher/types/words"
)

const stopHelp = `Ends tasks, or all tasks of jobs, for good. Each gets its stop signal, and is killed if
it has not ended after its grace. Waiting tasks are cancelled at once.

  escher stop web-x7k2 train-m4q9    ids may be shortened
  escher stop --wait train-m4q9      returns when all of its tasks have ended
  escher stop --grace 0s web-x7k2    kills it at once

A task with a warning (run --signal) gets the warning at once, and its stop signal that
much later; a grace shorter than its own leaves no time for a warning. A second stop with
a shorter grace ends a task sooner.`

// stopsAtOnce is the most tasks to stop at a time.
const stopsAtOnce = 16

// stopFlags say how to stop tasks.
type stopFlags struct {
	grace  time.Duration
	graced bool
	reason string
	wait   bool
}

// NewStop returns the command that stops tasks.
func NewStop(f *cmdutil.Factory) *cobra.Command {
	var flags stopFlags
	cmd := &cobra.Command{
		Use:   "stop TASK|JOB...",
		Short: "End tasks, or all tasks of jobs, for good",
		Long:  stopHelp,
		Args:  cmdutil.AtLeastOne("TASK"),
		RunE: func(cmd *cobra.Command, args []string) error {
			flags.graced = cmd.Flags().Changed("grace")
			if flags.graced && flags.grace == 0 {
				flags.grace = controlplane.NoGrace
			}
			ctx := cmd.Context()
			tasks, err := f.Tasks(ctx)
			if err != nil {
				return err
			}
			direct, ok := tasks.(cmdutil.Direct)
			if !ok {
				return flags.inside(ctx, f, tasks, args)
			}
			targets, err := cmdutil.FindAll(ctx, direct.Client, args, controlplane.Tasks, controlplane.Jobs)
			if err != nil {
				return err
			}
			ids, err := flags.stop(ctx, direct.Client, targets)
			if err != nil {
				return err
			}
			for _, t := range targets {
				fmt.Fprintln(f.Out, t.ID)
			}
			return flags.waitFor(ctx, f, tasks, ids)
		},
	}
	cmd.Flags().DurationVar(&flags.grace, "grace", controlplane.DefaultGrace, "time between the stop signal and the kill, instead of the task's own")
	cmd.Flags().StringVar(&flags.reason, "reason", "stopped by escher stop", "reason to show in its status")
	cmd.Flags().BoolVarP(&flags.wait, "wait", "w", false, "return when they have ended")
	return cmd
}

// inside stops tasks from within a task.
func (s *stopFlags) inside(ctx context.Context, f *cmdutil.Factory, tasks cmdutil.Tasks, ids []string) error {
	grace := s.grace
	if !s.graced {
		grace = 0 // means that of its spec
	}
	for _, id := range ids {
		if err := tasks.Stop(ctx, id, controlplane.StopOptions{Reason: s.reason, Grace: grace}); err != nil {
			return err
		}
		fmt.Fprintln(f.Out, id)
	}
	return s.waitFor(ctx, f, tasks, ids)
}

func (s *stopFlags) waitFor(ctx context.Context, f *cmdutil.Factory, tasks cmdutil.Tasks, ids []string) error {
	if !s.wait || len(ids) == 0 {
		return nil
	}
	done := f.Progress("waiting for " + words.Count(len(ids), "task") + " to end")
	defer done()
	_, err := tasks.Wait(ctx, controlplane.UntilEnded, ids...)
	return err
}

// stop stops all tasks of targets that have not ended, and returns their ids.
func (s *stopFlags) stop(ctx context.Context, client *controlplane.Client, targets []cmdutil.Named) ([]string, error) {
	tasks, err := cmdutil.TasksOf(ctx, client, targets)
	if err != nil {
		return nil, err
	}
	var ids []string
	graces := make(map[string]time.Duration)
	g, gctx := errgroup.WithContext(ctx)
	g.SetLimit(stopsAtOnce)
	for _, t := range tasks {
		if t.Phase().Ended() {
			continue
		}
		ids = append(ids, t.ID)
		grace, err := s.graceOf(ctx, client, t.Task.Spec, graces)
		if err != nil {
			return nil, err
		}
		g.Go(func() error {
			err := client.Stop(gctx, t.ID, controlplane.StopOptions{Reason: s.reason, Grace: grace})
			if types.Is(err, types.NotFound) {
				return nil
			}
			return err
		})
	}
	return ids, g.Wait()
}

// graceOf returns the given grace, or that of the spec; known caches those of specs.
func (s *stopFlags) graceOf(ctx context.Context, client *controlplane.Client, digest string, known map[string]time.Duration) (time.Duration, error) {
	if s.graced {
		return s.grace, nil
	}
	if grace, ok := known[digest]; ok {
		return grace, nil
	}
	spec, err := client.Spec(ctx, digest)
	if err != nil && !types.Is(err, types.NotFound) {
		return 0, err
	}
	known[digest] = controlplane.GraceOf(spec)
	return known[digest], nil
}
