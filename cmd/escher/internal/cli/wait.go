package cli

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/escher-sched/escher/controlplane"
	"github.com/escher-sched/escher/types"
)

// newWait makes the command that waits for tasks.
func newWait(f *Factory) *cobra.Command {
	var until string
	var timeout time.Duration
	cmd := &cobra.Command{
		Use:   "wait TASK|JOB...",
		Short: "Wait for tasks, or all tasks of jobs; ends with the exit code of the first that failed",
		Args:  atLeastOne("TASK"),
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
			ids, err := idsOf(cmd.Context(), tasks, args)
			if err != nil {
				return err
			}
			done := f.progress("waiting for " + strings.Join(args, " "))
			statuses, err := tasks.Wait(ctx, far, ids...)
			done()
			if err != nil {
				return tooLong(err, timeout, ids, statuses)
			}
			return endOf(f, statuses)
		},
	}
	cmd.Flags().StringVar(&until, "until", "ended", "what to wait for: ended, healthy, running or bound")
	cmd.Flags().DurationVar(&timeout, "timeout", 0, "give up after this long; 0 is never")
	return cmd
}

// tooLong says it in words if the time was up.
func tooLong(err error, timeout time.Duration, ids []string, reached map[string]types.Status) error {
	if !errors.Is(err, context.DeadlineExceeded) {
		return err
	}
	return types.Errorf(types.Unavailable, "wait: after %s only %d of %d tasks are that far: escher why TASK says what one waits for", timeout, len(reached), len(ids))
}

// untils are what can be waited for, by what people call it.
func untils() map[string]controlplane.Until {
	return map[string]controlplane.Until{
		"ended": controlplane.UntilEnded, "running": controlplane.UntilRunning, "bound": controlplane.UntilBound,
		"healthy": controlplane.UntilHealthy,
	}
}

func parseUntil(text string) (controlplane.Until, error) {
	until, ok := untils()[text]
	if !ok {
		return 0, types.Errorf(types.Invalid, "until: %q is unknown: use ended, healthy, running or bound", text)
	}
	return until, nil
}

// untilText is the inverse of parseUntil.
func untilText(until controlplane.Until) string {
	for text, u := range untils() {
		if u == until {
			return text
		}
	}
	return ""
}

// withCode says with which exit code a task has ended that did not succeed, nothing if
// it never ran.
func withCode(s *types.Status) string {
	if s.Started == 0 && s.ExitCode == 0 {
		return ""
	}
	return fmt.Sprintf(" with exit code %d", s.ExitCode)
}

// endOf says what became of tasks that did not succeed, and returns the exit code
// of the first of them.
func endOf(f *Factory, statuses map[string]types.Status) error {
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
		f.tell("task %s %s%s%s", id, s.Phase, withCode(&s), reason)
		if code == 0 {
			code = max(s.ExitCode, 1)
		}
	}
	if code != 0 {
		return ended{code}
	}
	return nil
}
