package cli

import (
	"context"
	"fmt"
	"maps"
	"slices"
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
		Use:   "wait TASK...",
		Short: "Wait for tasks; ends with the exit code of the first that failed",
		Args:  atLeastOne("TASK"),
		RunE: func(cmd *cobra.Command, args []string) error {
			far, err := parseUntil(until)
			if err != nil {
				return err
			}
			ctx := cmd.Context()
			if timeout > 0 {
				limited, cancel := context.WithTimeout(ctx, timeout)
				defer cancel()
				ctx = limited
			}
			tasks, err := f.Tasks(ctx)
			if err != nil {
				return err
			}
			statuses, err := tasks.Wait(ctx, far, args...)
			if err != nil {
				return err
			}
			return endOf(f, statuses)
		},
	}
	cmd.Flags().StringVar(&until, "until", "ended", "what to wait for: ended, running or bound")
	cmd.Flags().DurationVar(&timeout, "timeout", 0, "give up after this long; 0 is never")
	return cmd
}

// untils are what can be waited for, by what people call it.
func untils() map[string]controlplane.Until {
	return map[string]controlplane.Until{
		"ended": controlplane.UntilEnded, "running": controlplane.UntilRunning, "bound": controlplane.UntilBound,
	}
}

func parseUntil(text string) (controlplane.Until, error) {
	until, ok := untils()[text]
	if !ok {
		return 0, types.Errorf(types.Invalid, "until: %q is unknown: use ended, running or bound", text)
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
		fmt.Fprintf(f.Err, "escher: task %s %s with exit code %d%s\n", id, s.Phase, s.ExitCode, reason)
		if code == 0 {
			code = max(s.ExitCode, 1)
		}
	}
	if code != 0 {
		return ended{code}
	}
	return nil
}
