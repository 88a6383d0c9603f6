package resource

import (
	"fmt"

	"github.com/spf13/cobra"

	"github.com/escher-sched/escher/cmd/escher/internal/cli/cmdutil"
	"github.com/escher-sched/escher/controlplane"
	"github.com/escher-sched/escher/controlplane/manifest"
	"github.com/escher-sched/escher/types"
)

const rmHelp = `Removes ephemeral resources from all their places. Tasks keep what they hold.

  escher resource rm slot
  escher set-resource slot 0 --node node-1   only from one node`

// NewRemoveResource returns the command that removes ephemeral resources.
func NewRemoveResource(f *cmdutil.Factory) *cobra.Command {
	return &cobra.Command{
		Use:   "rm RESOURCE...",
		Short: "Remove ephemeral resources; tasks keep what they hold",
		Long:  rmHelp,
		Args:  cmdutil.AtLeastOne("RESOURCE"),
		RunE: func(cmd *cobra.Command, args []string) error {
			ctx := cmd.Context()
			client, err := f.Client(ctx)
			if err != nil {
				return err
			}
			for _, name := range args {
				if err := types.ValidateEphemeral("RESOURCE", name); err != nil {
					return err
				}
				kvs, _, err := controlplane.ListAll(ctx, client.Store(), controlplane.ListOptions{
					Prefix: controlplane.Prefix(controlplane.Resources, client.Namespace(), name), KeysOnly: true,
				})
				if err != nil {
					return err
				}
				if len(kvs) == 0 {
					return noResource(name, client.Namespace())
				}
				k, ok := controlplane.Parse(kvs[0].Key)
				where := manifest.Where{Cluster: ok && k.Where == types.ClusterWide}
				if err := f.RemoveResource(ctx, name, where); err != nil {
					return err
				}
				fmt.Fprintln(f.Out, name)
			}
			return nil
		},
	}
}
