package cli

import (
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/escher-sched/escher/controlplane"
)

// newStop makes the command that ends tasks.
func newStop(f *Factory) *cobra.Command {
	var grace time.Duration
	var reason string
	var wait bool
	cmd := &cobra.Command{
		Use:   "stop TASK...",
		Short: "End tasks for good",
		Args:  atLeastOne("TASK"),
		RunE: func(cmd *cobra.Command, args []string) error {
			ctx := cmd.Context()
			tasks, err := f.Tasks(ctx)
			if err != nil {
				return err
			}
			for _, id := range args {
				if err := tasks.Stop(ctx, id, controlplane.StopOptions{Reason: reason, Grace: grace}); err != nil {
					return err
				}
				fmt.Fprintln(f.Out, id)
			}
			if wait {
				_, err = tasks.Wait(ctx, controlplane.UntilEnded, args...)
			}
			return err
		},
	}
	cmd.Flags().DurationVar(&grace, "grace", 10*time.Second, "time between the stop signal and the kill")
	cmd.Flags().StringVar(&reason, "reason", "stopped by escher stop", "why, for its status")
	cmd.Flags().BoolVarP(&wait, "wait", "w", false, "return when they have ended")
	return cmd
}
