package run

import (
	"context"
	"errors"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/escher-sched/escher/cmd/escher/internal/cli/cmdutil"
	"github.com/escher-sched/escher/cmd/escher/internal/cli/render"
	"github.com/escher-sched/escher/controlplane"
	"github.com/escher-sched/escher/types"
)

// NewWait returns the command that waits for tasks.
func NewWait(f *cmdutil.Factory) *cobra.Command {
	var until string
	var timeout time.Duration
	cmd := &cobra.Command{
		Use:   "wait TASK|JOB...",
		Short: "Wait for tasks, or all tasks of jobs, and end with the exit code of the first that failed",
		Args:  cmdutil.AtLeastOne("TASK"),
		RunE: func(cmd *cobra.Command, args []string) error {
			if timeout < 0 {
				return types.Errorf(types.Invalid, "timeout: %s is negative: give how long to wait at most, or 0", timeout)
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
			ids, err := cmdutil.IdsOf(cmd.Context(), tasks, args)
			if err != nil {
				return err
			}
			done := f.Progress("waiting for " + strings.Join(args, " "))
			statuses, err := tasks.Wait(ctx, far, ids...)
			done()
			if err != nil {
				return tooLong(err, timeout, ids, statuses)
			}
			return endOf(f, statuses)
		},
	}
	cmd.Flags().StringVar(&until, "until", "ended", "phase to wait for: ended, healthy, running or bound")
	cmd.Flags().DurationVar(&timeout, "timeout", 0, "give up after this time; 0 means never")
	return cmd
}

// tooLong describes a timeout in words.
func tooLong(err error, timeout time.Duration, ids []string, reached map[string]types.Status) error {
	if !errors.Is(err, context.DeadlineExceeded) {
		return err
	}
	return types.Errorf(types.Unavailable, "wait: after %s only %d of %d tasks are that far: escher why TASK says what one waits for", timeout, len(reached), len(ids))
}

func parseUntil(text string) (controlplane.Until, error) {
	until, ok := render.Untils()[text]
	if !ok {
		return 0, types.Errorf(types.Invalid, "until: %q is unknown: use ended, healthy, running or bound", text)
	}
	return until, nil
}

// endOf prints the outcome of tasks that did not succeed, and returns the exit code of the first of
// them.
func endOf(f *cmdutil.Factory, statuses map[string]types.Status) error {
	code := 0
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
		if code == 0 {
			code = max(s.ExitCode, 1)
		}
	}
	if code != 0 {
		return cmdutil.Ended{Code: code}
	}
	return nil
}
