package cli

import (
	"github.com/spf13/cobra"

	"github.com/escher-sched/escher/types"
)

// newLogs makes the command that shows what a task wrote.
func newLogs(f *Factory) *cobra.Command {
	var follow bool
	var attempt int
	cmd := &cobra.Command{
		Use:   "logs TASK",
		Short: "Show what a task wrote; with -f also what it will, ending with its exit code",
		Args:  exactly("TASK"),
		RunE: func(cmd *cobra.Command, args []string) error {
			ctx := cmd.Context()
			client, err := f.Client(ctx)
			if err != nil {
				return err
			}
			t, err := client.Status(ctx, args[0])
			if err != nil {
				return err
			}
			if follow {
				statuses, err := f.follow(ctx, outside{client}, []string{t.ID})
				if err != nil {
					return err
				}
				return endOf(f, statuses)
			}
			if attempt == 0 {
				attempt = t.Attempt()
			}
			if attempt < 1 || attempt > t.Attempt() {
				return types.Errorf(types.Precondition, "show attempt %d of task %s: it has had %d: escher why %s says what it waits for", attempt, t.ID, t.Attempt(), t.ID)
			}
			return f.showLog(client.Namespace(), t.ID, attempt)
		},
	}
	cmd.Flags().BoolVarP(&follow, "follow", "f", false, "go on until the task has ended")
	cmd.Flags().IntVar(&attempt, "attempt", 0, "of which attempt; default: the last")
	return cmd
}
