package resource

import (
	"github.com/spf13/cobra"

	"github.com/escher-sched/escher/cmd/escher/internal/cli/cmdutil"
	"github.com/escher-sched/escher/cmd/escher/internal/cli/node"
	"github.com/escher-sched/escher/controlplane/cluster"
)

// NewState returns the command that prints the state of the cluster.
func NewState(f *cmdutil.Factory) *cobra.Command {
	cmd := &cobra.Command{Use: "state", Short: "Print all resources of all nodes, at one revision", Long: `Prints all resources of all nodes, physical and ephemeral, at one revision of the store.

  escher state
  escher state -o json     as programs read it`}
	return node.ListState(f, cmd, func(state *cluster.State) []AmountsRow {
		return AmountsRows(state, func(string) bool { return true })
	})
}
