package cli

import (
	"github.com/spf13/cobra"

	"github.com/escher-sched/escher/controlplane/cluster"
)

// newState makes the command that prints the state of the cluster.
func newState(f *Factory) *cobra.Command {
	cmd := &cobra.Command{Use: "state", Short: "Print all resources of all nodes, at one revision"}
	return listState(f, cmd, func(state *cluster.State) []amountsRow {
		return amountsRows(state, func(string) bool { return true })
	})
}
