package run

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/sync/errgroup"

	"github.com/escher-sched/escher/api/requests"
	"github.com/escher-sched/escher/cmd/escher/internal/cli/cmdutil"
	"github.com/escher-sched/escher/cmd/escher/internal/cli/file"
	"github.com/escher-sched/escher/controlplane"
	"github.com/escher-sched/escher/types"
	"github.com/escher-sched/escher/types/words"
)

const stopHelp = `Ends tasks, or all tasks of jobs, for good. Each gets its stop signal, and is killed if
it has not ended after its grace. Waiting tasks are cancelled at once. An update of a job
that is stopped ends, too.

  escher stop web train        ids may be shortened
  escher stop --wait train     returns when all of its tasks have ended
  escher stop --grace 0s web   kills it at once
  escher stop -f app.yaml      all that the file describes, by their names
  escher stop -l team=vision   all with this label; --dry-run only lists them

A task with a warning (run --signal) gets the warning at once, and its stop signal that
much later; a grace shorter than its own leaves no time for a warning. A second stop with
a shorter grace ends a task sooner.`

// stopFlags say how to stop tasks.
type stopFlags struct {
	grace  time.Duration
	graced bool
	reason string
	wait   bool
	file   string
	labels cmdutil.Selection
	// dry lists what would be stopped.
	dry bool
}

// NewStop returns the command that stops tasks.
func NewStop(f *cmdutil.Factory) *cobra.Command {
	var flags stopFlags
	cmd := &cobra.Command{
		Use:   "stop TASK|JOB...|-f FILE|-l LABELS",
		Short: "End tasks, or all tasks of jobs, for good",
		Long:  stopHelp,
		Args:  fileOr(&flags.file, &flags.labels, cmdutil.AtLeastOne("TASK")),
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
			if !ok && flags.dry {
				return types.Errorf(types.Precondition, "dry-run: is not possible in a task: leave it out")
			}
			if !ok && flags.file != "" {
				return types.Errorf(types.Precondition, "file: a task cannot find what a file describes: name the tasks by their ids")
			}
			if !ok && !flags.labels.IsZero() {
				if args, err = tasks.Selected(ctx, flags.labels.Selector, true); err != nil {
					return err
				}
				if len(args) == 0 {
					flags.labels.TellNone(f, "task")
				}
			}
			if !ok {
				return flags.inside(ctx, f, tasks, args)
			}
			targets, err := flags.targets(ctx, f, direct.Client, args)
			if err != nil {
				return err
			}
			if flags.dry {
				return list(f, targets)
			}
			ids, err := flags.stop(ctx, f, direct.Client, targets)
			if err != nil {
				return err
			}
			if err := list(f, targets); err != nil {
				return err
			}
			return flags.waitFor(ctx, f, tasks, ids)
		},
	}
	cmd.Flags().DurationVar(&flags.grace, "grace", controlplane.DefaultGrace, "time between the stop signal and the kill, instead of the task's own")
	cmd.Flags().StringVar(&flags.reason, "reason", "stopped by escher stop", "reason to show in its status")
	file.AddFile(cmd, &flags.file)
	flags.labels.AddSelector(cmd, cmdutil.TaskLabels, "the tasks and jobs")
	addDryRun(cmd, &flags.dry)
	cmd.Flags().BoolVarP(&flags.wait, "wait", "w", false, "return when they have ended")
	cmdutil.FormerShorthand(cmd, f, "wait")
	return cmd
}

// targets returns the named or selected tasks and jobs, or those of the file.
func (s *stopFlags) targets(ctx context.Context, f *cmdutil.Factory, client *controlplane.Client, names []string) ([]cmdutil.Named, error) {
	if !s.labels.IsZero() {
		return selected(ctx, f, client, &s.labels, s.dry, "stopping", func(t *controlplane.TaskState) bool { return !t.Phase().Ended() })
	}
	if s.file == "" {
		return cmdutil.FindAll(ctx, client, names, controlplane.Tasks, controlplane.Jobs)
	}
	docs, err := file.ReadManifest(f, s.file)
	if err != nil {
		return nil, err
	}
	all, err := described(ctx, client, docs)
	if len(all) == 0 || err != nil {
		return nil, err
	}
	return cmdutil.LivingOrLast(ctx, client, all)
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

// stopsAtOnce is how many tasks and jobs are stopped at once.
const stopsAtOnce = 16

// stop stops all tasks of targets that have not ended, and returns their ids.
func (s *stopFlags) stop(ctx context.Context, f *cmdutil.Factory, client *controlplane.Client, targets []cmdutil.Named) ([]string, error) {
	body := requests.Stop{Reason: s.reason}
	if s.graced {
		body.Grace = requests.Duration(s.grace)
	}
	tasks, err := cmdutil.TasksOf(ctx, client, targets)
	if err != nil {
		return nil, err
	}
	var ids []string
	for _, t := range tasks {
		if !t.Phase().Ended() {
			ids = append(ids, t.ID)
		}
	}
	g, gctx := errgroup.WithContext(ctx)
	g.SetLimit(stopsAtOnce)
	for _, t := range targets {
		if t.Kind == controlplane.Tasks && !slices.Contains(ids, t.ID) {
			continue
		}
		g.Go(func() error {
			err := f.Change(gctx, http.MethodPost, f.Path(string(t.Kind), t.ID, "stop"), body, nil)
			if types.Is(err, types.NotFound) {
				return nil // it has gone meanwhile
			}
			return err
		})
	}
	return ids, g.Wait()
}
