package images

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/escher-sched/escher/cmd/escher/internal/cli/cmdutil"
	"github.com/escher-sched/escher/nodeagent/serve/nodeapi"
	"github.com/escher-sched/escher/types"
)

const pullHelp = `Pulls an image on all nodes or each --node, so that no task waits for it later, and prints
its digest. Each node asks the registry again. The credentials are those of the agent's
user on each node, as docker login stores them.

  escher pull docker.io/library/busybox:1.36 --all-nodes
  escher pull registry.local:5000/train:7 --node node-1 --node node-2`

// NewPull returns the command that makes nodes pull an image.
func NewPull(f *cmdutil.Factory) *cobra.Command {
	var nodes nodeFlags
	cmd := &cobra.Command{
		Use:   "pull IMAGE",
		Short: "Pull an image on nodes",
		Long:  pullHelp,
		Args:  cmdutil.Exactly("IMAGE"),
		RunE: func(cmd *cobra.Command, args []string) error {
			if !nodes.all && len(nodes.nodes) == 0 {
				return types.Errorf(types.Invalid, "node: is missing: say --all-nodes, or --node NAME for each node")
			}
			names, err := nodes.names(cmd.Context(), f)
			if err != nil {
				return err
			}
			return pull(cmd.Context(), f, names, args[0])
		},
	}
	cmd.Flags().StringArrayVar(&nodes.nodes, "node", nil, "this node; repeat for several")
	cmd.Flags().BoolVar(&nodes.all, "all-nodes", false, "all alive nodes")
	return cmd
}

// pull makes nodes pull an image, all at once. It prints each digest once: there may be several if
// the name moved meanwhile.
func pull(ctx context.Context, f *cmdutil.Factory, names []string, ref string) error {
	bars := cmdutil.NewBars(f, "pulling")
	var images collected[string]
	failed := f.EachNode(ctx, names, func(ctx context.Context, c *nodeapi.Client) error {
		image, err := c.Pull(ctx, ref, func(p nodeapi.Pull) { bars.Update(c.Node(), p) })
		bars.Ended(c.Node(), err)
		if err == nil {
			images.Add(image.Name + "@" + image.Digest)
		}
		return err
	})
	bars.Close()
	printed := make(map[string]bool)
	for _, image := range images.all {
		if !printed[image] {
			printed[image] = true
			fmt.Fprintln(f.Out, image)
		}
	}
	return cmdutil.NodesFailed("pull "+ref, len(names), failed)
}
