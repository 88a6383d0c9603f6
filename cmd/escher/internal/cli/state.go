package cli

import (
	"github.com/spf13/cobra"

	"github.com/escher-sched/escher/cmd/escher/internal/table"
)

// newState makes the command that prints the state of the cluster.
func newState(f *Factory) *cobra.Command {
	return &cobra.Command{
		Use:   "state",
		Short: "Print all resources of all nodes, at one revision",
		Args:  exactly(),
		RunE: func(cmd *cobra.Command, _ []string) error {
			tasks, err := f.Tasks(cmd.Context())
			if err != nil {
				return err
			}
			state, err := tasks.State(cmd.Context())
			if err != nil {
				return err
			}
			if f.format == table.JSON || f.format == table.YAML {
				return table.Encode(f.Out, f.format, state)
			}
			return print(f, amountsRows(state, func(string) bool { return true }))
		},
	}
}
