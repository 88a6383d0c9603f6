package node

import (
	"context"
	"fmt"
	"net/http"
	"net/url"
	"slices"

	"github.com/spf13/cobra"

	"github.com/escher-sched/escher/api/client"
	"github.com/escher-sched/escher/cmd/escher/internal/cli/cmdutil"
	"github.com/escher-sched/escher/controlplane"
	"github.com/escher-sched/escher/types"
)

const nodeRmHelp = `Deletes nodes that never come back. It is refused while the agent of a node is alive, and
while tasks or reservations hold a part of the node. Resources that applications created
there stay, and count again if a node of that name joins. Labels that were set are gone.
NODE is the whole name, not a beginning of it.

Tasks with --on-disconnect keep stay bound to a lost node, because they may still run
there. With --dead you declare that they do not: the machine is off or wiped, and never
comes back as it was. Then they run elsewhere, like other tasks of a lost node. If the
machine is only cut off from etcd, they then run twice: switch it off first.

  escher node rm node-7
  escher node rm node-7 --dead --reason "burnt"`

// newNodeRm returns the command that removes nodes.
func newNodeRm(f *cmdutil.Factory) *cobra.Command {
	var dead bool
	var reason string
	cmd := &cobra.Command{
		Use:   "rm NODE...",
		Short: "Delete nodes that never come back",
		Long:  nodeRmHelp,
		Args:  cmdutil.AtLeastOne("NODE"),
		RunE: func(cmd *cobra.Command, args []string) error {
			ctx := cmd.Context()
			if cmd.Flags().Changed("reason") && !dead {
				return types.Errorf(types.Invalid, "reason: %q is of --dead alone, as nothing is left of a node that is forgotten: leave it out, or add --dead", reason)
			}
			reads, err := f.Client(ctx)
			if err != nil {
				return err
			}
			names, err := wholeNames(ctx, reads, args)
			if err != nil {
				return err
			}
			for _, node := range names {
				if err := forget(f, ctx, node, dead, reason); err != nil {
					return err
				}
				fmt.Fprintln(f.Out, node)
			}
			return nil
		},
	}
	cmd.Flags().BoolVar(&dead, "dead", false, "the machines are off or wiped: give up the tasks that are kept there")
	cmd.Flags().StringVar(&reason, "reason", "declared dead", "with --dead: reason to show with the node meanwhile")
	return cmd
}

// wholeNames returns the nodes with exactly these names, each once. A prefix is not enough: once
// its node is gone, it could match another one.
func wholeNames(ctx context.Context, client *controlplane.Client, args []string) ([]string, error) {
	names := slices.Compact(slices.Sorted(slices.Values(args)))
	for _, name := range names {
		if err := client.FindKind(ctx, controlplane.Nodes, name); err != nil {
			return nil, err
		}
	}
	return names, nil
}

// forget deletes a node. It declares a dead one dead first, and waits until nothing is bound to it.
func forget(f *cmdutil.Factory, ctx context.Context, node string, dead bool, reason string) error {
	path := cmdutil.NodePath(node)
	if !dead {
		return f.Change(ctx, http.MethodDelete, path, nil, nil)
	}
	c, err := f.API(ctx)
	if err != nil {
		return err
	}
	said := false
	query := url.Values{"dead": {"true"}, "reason": {reason}}
	_, err = client.Long[struct{}](ctx, c, http.MethodDelete, path+"?"+query.Encode(), "", nil, func(now left) {
		if !said && len(now.Tasks) > 0 {
			said = true
			f.ProgressLine("given up on %s: %s: a server sees to it", node, someOf(now.Tasks))
		}
	})
	if ctx.Err() != nil {
		f.ProgressLine("interrupted: it is given up all the same: call escher node rm %s again, or escher node uncordon %s to take the word back", node, node)
	}
	return err
}
