package cli

import (
	"fmt"

	"github.com/spf13/cobra"
)

const nodeRmHelp = `Forgets nodes that are gone for good. It is refused while the agent of a node is alive,
while tasks are bound there, which wait for their next attempt once the node is lost, and while
reservations hold a part of it. What applications made there stays, and counts again if a
node of that name comes.`

// newNodeRm makes the command that forgets nodes.
func newNodeRm(f *Factory) *cobra.Command {
	return &cobra.Command{
		Use:   "rm NODE...",
		Short: "Forget nodes that are gone for good",
		Long:  nodeRmHelp,
		Args:  atLeastOne("NODE"),
		RunE: func(cmd *cobra.Command, args []string) error {
			ctx := cmd.Context()
			client, err := f.Client(ctx)
			if err != nil {
				return err
			}
			names, err := (&nodeChoice{}).names(ctx, client, args)
			if err != nil {
				return err
			}
			for _, node := range names {
				if err := client.Forget(ctx, node); err != nil {
					return err
				}
				fmt.Fprintln(f.Out, node)
			}
			return nil
		},
	}
}
