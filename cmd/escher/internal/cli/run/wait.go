package run

import (
	"context"
	"errors"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/spf13/cobra"

	"github.com/escher-sched/escher/cmd/escher/internal/cli/cmdutil"
	"github.com/escher-sched/escher/cmd/escher/internal/cli/render"
	"github.com/escher-sched/escher/controlplane"
	"github.com/escher-sched/escher/types"
	"github.com/escher-sched/escher/types/words"
)

const waitHelp = `Waits for tasks, or all tasks of jobs, and ends with the exit code of the first that
failed. It says if a task can never run on the nodes that there are.

  escher wait train
  escher wait --until running --timeout 1m web
  escher wait -l sweep=7            all tasks with this label, ended ones too`

// NewWait returns the command that waits for tasks.
func NewWait(f *cmdutil.Factory) *cobra.Command {
	var until string
	var timeout time.Duration
	var labels cmdutil.Selection
	cmd := cmdutil.EndsWithTask(&cobra.Command{
		Use:   "wait TASK|JOB...|-l LABELS",
		Short: "Wait for tasks, or all tasks of jobs, and end with the exit code of the first that failed",
		Long:  waitHelp,
		Args:  labels.Args(cmdutil.AtLeastOne("TASK")),
		RunE: func(cmd *cobra.Command, args []string) error {
			if timeout < 0 {
				return types.Errorf(types.Invalid, "timeout: %s is negative: give how long to wait at most", timeout)
			}
			far, err := parseUntil(until)
			if err != nil {
				return err
			}
			ctx := cmd.Context()
			tasks, err := f.Tasks(ctx)
			if err != nil {
				return err
			}
			if timeout > 0 {
				limited, cancel := context.WithTimeout(ctx, timeout)
				defer cancel()
				ctx = limited
			}
			var ids []string
			if labels.IsZero() {
				ids, err = cmdutil.IdsOf(cmd.Context(), tasks, args)
			} else if ids, err = tasks.Selected(cmd.Context(), labels.Selector, false); err == nil && len(ids) == 0 {
				err = labels.ErrNone(f, "task", "escher ps -a --show-labels lists labels")
			}
			if err != nil {
				return err
			}
			done := f.Progress("waiting for " + strings.Join(args, " ") + labels.String())
			stop := tellTrouble(ctx, f, tasks, ids)
			statuses, err := tasks.Wait(ctx, far, ids...)
			stop()
			done()
			if err != nil {
				return tooLong(err, timeout, ids, statuses)
			}
			return endOf(f, statuses)
		},
	}, "")
	labels.AddSelector(cmd, cmdutil.TaskLabels, "all tasks that are there now,")
	cmd.Flags().StringVar(&until, "until", "ended", "phase to wait for: ended, healthy, running or bound")
	cmd.Flags().DurationVar(&timeout, "timeout", 0, "give up after this time (default: never)")
	cmdutil.Preset(cmd.Flags(), "timeout", "", "leave it out for no limit")
	return cmd
}

// tellTrouble tells, until stop is called, of tasks that can never run on the present nodes, and of a
// lost connection. Inside a task, which cannot ask, it tells nothing.
func tellTrouble(ctx context.Context, f *cmdutil.Factory, tasks cmdutil.Tasks, ids []string) (stop func()) {
	direct, ok := tasks.(cmdutil.Direct)
	if !ok {
		return func() {}
	}
	ctx, cancel := context.WithCancel(ctx)
	w := &waits{f: f, client: direct.Client, console: cmdutil.NewConsole(f, false), board: newBoard(ids), tasks: len(ids), onlyNever: true}
	c := newConnection(f.ClusterName(), direct.Client, w.say)
	var all sync.WaitGroup
	all.Go(func() {
		_ = direct.Watch(ctx, controlplane.WatchTasks{IDs: ids}, w.board.take) // the command has a watch of its own
	})
	all.Go(func() { w.run(ctx) })
	all.Go(func() { c.run(ctx) })
	return func() { cancel(); all.Wait() }
}

// tooLong describes a timeout in words.
func tooLong(err error, timeout time.Duration, ids []string, reached map[string]types.Status) error {
	if !errors.Is(err, context.DeadlineExceeded) {
		return err
	}
	return types.Errorf(types.Unavailable, "wait: after %s, %d of %s have got as far as --until says: escher why TASK says what one waits for", timeout, len(reached), words.Count(len(ids), "task"))
}

func parseUntil(text string) (controlplane.Until, error) {
	until, ok := render.Untils()[text]
	if !ok {
		return 0, types.Errorf(types.Invalid, "until: %q is unknown: use ended, healthy, running or bound", text)
	}
	return until, nil
}

// endOf prints the outcome of tasks that did not succeed, and returns the exit code of the first that
// failed; that of a cancelled one only if none failed.
func endOf(f *cmdutil.Factory, statuses map[string]types.Status) error {
	var first types.Status
	for _, id := range slices.Sorted(maps.Keys(statuses)) {
		s := statuses[id]
		if s.Phase != types.Failed && s.Phase != types.Cancelled {
			continue
		}
		reason := ""
		if s.Reason != "" {
			reason = ": " + s.Reason
		}
		f.Tell("task %s %s%s%s", id, s.Phase, render.WithCode(&s), reason)
		sooner := s.Phase == first.Phase && s.Ended < first.Ended
		if first.Phase == "" || sooner || s.Phase == types.Failed && first.Phase == types.Cancelled {
			first = s
		}
	}
	if first.Phase == "" {
		return nil
	}
	return cmdutil.Ended{Code: max(first.ExitCode, 1)}
}
