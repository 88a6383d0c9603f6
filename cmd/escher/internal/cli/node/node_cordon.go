package node

import (
	"context"
	"fmt"
	"net/http"
	"slices"

	"github.com/spf13/cobra"

	"github.com/escher-sched/escher/cmd/escher/internal/cli/agent"
	"github.com/escher-sched/escher/cmd/escher/internal/cli/cmdutil"
	"github.com/escher-sched/escher/controlplane"
	"github.com/escher-sched/escher/types"
	"github.com/escher-sched/escher/types/labels"
)

const nodeHelp = `Takes nodes out of service, and back into it.

  escher node cordon node-1 --reason "new disk"   nothing new is bound there
  escher node drain node-1                        and what is there leaves
  escher node uncordon node-1                     it takes tasks again
  escher node label node-1 disk=ssd               a label, by which tasks and -l select it
  escher node rm node-1                           it is gone for good
  escher node doctor                              what would go wrong on this machine

escher nodes shows how far it is, escher describe NODE also why.`

// NewNode returns the commands that take nodes out of service.
func NewNode(f *cmdutil.Factory) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "node",
		Short: "Take nodes out of service, and back into it",
		Long:  nodeHelp,
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) > 0 {
				return types.Errorf(types.Invalid, "command: node %q is unknown: escher node --help lists all", args[0])
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(newNodeCordon(f), newNodeUncordon(f), newNodeDrain(f), newNodeLabel(f), newNodeRm(f), agent.NewNodeDoctor(f))
	return cmd
}

// nodeChoice selects nodes: by name, by label, or both.
type nodeChoice struct{ cmdutil.Selection }

func (n *nodeChoice) Add(cmd *cobra.Command) {
	n.AddSelector(cmd, cmdutil.NodeLabels, "the nodes")
	cmd.Args = func(cmd *cobra.Command, args []string) error {
		if len(args) == 0 && n.IsZero() {
			return types.Errorf(types.Invalid, "NODE: is missing, and no --selector is given: %s", cmdutil.Usage(cmd))
		}
		return nil
	}
}

// names returns the selected nodes, each once.
func (n *nodeChoice) names(ctx context.Context, client *controlplane.Client, args []string) ([]string, error) {
	var names []string
	for _, arg := range args {
		name, err := client.ResolveKind(ctx, controlplane.Nodes, arg)
		if err != nil {
			return nil, err
		}
		names = append(names, name)
	}
	if !n.IsZero() {
		labelled, err := nodesWith(ctx, client.Store(), n.Selector)
		if err != nil {
			return nil, err
		}
		if len(labelled) == 0 {
			return nil, types.Errorf(types.NotFound, "selector: no node matches %s: escher nodes --show-labels lists labels", n)
		}
		names = append(names, labelled...)
	}
	slices.Sort(names)
	return slices.Compact(names), nil
}

// nodesWith returns the names of the nodes that a selector selects.
func nodesWith(ctx context.Context, store controlplane.Store, sel labels.Selector) ([]string, error) {
	kvs, _, err := controlplane.ListAll(ctx, store, controlplane.ListOptions{Prefix: controlplane.Prefix(controlplane.Nodes)})
	if err != nil {
		return nil, err
	}
	var names []string
	for _, kv := range kvs {
		k, ok := controlplane.Parse(kv.Key)
		var node types.Node
		if ok && controlplane.Read(kv, &node) && sel.Matches(node.Labels) {
			names = append(names, k.Node)
		}
	}
	return names, nil
}

// newNodeCordon returns the command that keeps new tasks off nodes.
func newNodeCordon(f *cmdutil.Factory) *cobra.Command {
	var choice nodeChoice
	var reason string
	cmd := &cobra.Command{
		Use:   "cordon NODE...",
		Short: "Bind no new tasks to nodes; tasks that are there stay",
		Long: `Binds no new tasks to nodes. Tasks that are there stay.

  escher node cordon node-1 --reason "new disk"
  escher node cordon -l rack=r1`,
		RunE: func(cmd *cobra.Command, args []string) error {
			return changeNodes(f, cmd.Context(), choice, args, "is cordoned already", "cordon", map[string]string{"reason": reason})
		},
	}
	choice.Add(cmd)
	cmd.Flags().StringVar(&reason, "reason", "", "reason to show with the node")
	return cmd
}

// newNodeUncordon returns the command that lets nodes take tasks again.
func newNodeUncordon(f *cmdutil.Factory) *cobra.Command {
	var choice nodeChoice
	cmd := &cobra.Command{
		Use:   "uncordon NODE...",
		Short: "Let nodes take tasks again, and end their drains",
		Long: `Lets nodes take tasks again, and ends their drains.

  escher node uncordon node-1`,
		RunE: func(cmd *cobra.Command, args []string) error {
			return changeNodes(f, cmd.Context(), choice, args, "is not cordoned", "uncordon", nil)
		},
	}
	choice.Add(cmd)
	return cmd
}

// changeNodes changes the selected nodes by an operation, one after the other, and prints their names, and
// which of them needed no change.
func changeNodes(f *cmdutil.Factory, ctx context.Context, choice nodeChoice, args []string, already, operation string, body any) error {
	client, err := f.Client(ctx)
	if err != nil {
		return err
	}
	names, err := choice.names(ctx, client, args)
	if err != nil {
		return err
	}
	for _, node := range names {
		var done struct{ Changed bool }
		if err := f.Change(ctx, http.MethodPost, cmdutil.NodePath(node, operation), body, &done); err != nil {
			return err
		}
		if !done.Changed {
			f.ProgressLine("node %s %s", node, already)
		}
		fmt.Fprintln(f.Out, node)
	}
	return nil
}
