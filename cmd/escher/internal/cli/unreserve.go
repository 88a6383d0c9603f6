package cli

import "github.com/spf13/cobra"

// newUnreserve makes the command that gives a reservation up.
func newUnreserve(f *Factory) *cobra.Command {
	return &cobra.Command{
		Use:   "unreserve ID",
		Short: "Give a reservation up; tasks keep what they hold of it",
		Args:  exactly("ID"),
		RunE: func(cmd *cobra.Command, args []string) error {
			client, err := f.Client(cmd.Context())
			if err != nil {
				return err
			}
			return client.Unreserve(cmd.Context(), args[0])
		},
	}
}
