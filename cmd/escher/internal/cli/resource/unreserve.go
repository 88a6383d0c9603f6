package resource

import (
	"fmt"

	"github.com/spf13/cobra"

	"github.com/escher-sched/escher/cmd/escher/internal/cli/cmdutil"
	"github.com/escher-sched/escher/controlplane"
)

// NewUnreserve returns the command that deletes a reservation.
func NewUnreserve(f *cmdutil.Factory) *cobra.Command {
	return &cobra.Command{
		Use:   "unreserve RESERVATION...",
		Short: "Give up reservations; tasks keep what they hold",
		Long: `Gives up reservations. Tasks keep what they hold of them.

  escher unreserve train`,
		Args: cmdutil.AtLeastOne("RESERVATION"),
		RunE: func(cmd *cobra.Command, args []string) error {
			client, err := f.Client(cmd.Context())
			if err != nil {
				return err
			}
			for _, arg := range args {
				if isAhead(cmd.Context(), client, arg) {
					if err := f.Withdraw(cmd.Context(), arg, true); err != nil {
						return err
					}
					fmt.Fprintln(f.Out, arg)
					continue
				}
				id, err := client.ResolveKind(cmd.Context(), controlplane.Reservations, arg)
				if err != nil {
					return err
				}
				if err := f.Unreserve(cmd.Context(), id); err != nil {
					return err
				}
				fmt.Fprintln(f.Out, id)
			}
			return nil
		},
	}
}
