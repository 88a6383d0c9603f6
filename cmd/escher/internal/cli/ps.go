package cli

import (
	"time"

	"github.com/spf13/cobra"
)

// newPs makes the command that lists tasks.
func newPs(f *Factory) *cobra.Command {
	var all bool
	cmd := &cobra.Command{
		Use:   "ps",
		Short: "List tasks",
		Args:  exactly(),
		RunE: func(cmd *cobra.Command, _ []string) error {
			client, err := f.Client(cmd.Context())
			if err != nil {
				return err
			}
			tasks, _, err := client.Tasks(cmd.Context())
			if err != nil {
				return err
			}
			now := time.Now()
			var rows []taskRow
			for _, t := range tasks {
				if all || !t.Phase().Ended() {
					rows = append(rows, newTaskRow(t, now))
				}
			}
			return print(f, rows)
		},
	}
	cmd.Flags().BoolVarP(&all, "all", "a", false, "also those that have ended")
	return cmd
}
