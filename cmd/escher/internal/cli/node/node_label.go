package node

import (
	"context"
	"fmt"
	"net/http"
	"strings"

	"github.com/spf13/cobra"

	"github.com/escher-sched/escher/cmd/escher/internal/cli/cmdutil"
	"github.com/escher-sched/escher/controlplane/relabel"
	"github.com/escher-sched/escher/types"
)

const labelHelp = `Adds labels to nodes, and removes others. Waiting tasks that need a label are placed at
once; tasks that run stay where they are.

  escher node label node-1 disk=ssd rack=r7      adds two labels
  escher node label node-1 rack=r8 --overwrite   changes a label
  escher node label node-1 disk-                 removes a label
  escher node label -l zone=a team=vision        labels all nodes of a zone
  escher nodes --show-labels

A label that is set or removed here stays so when the agent of the node starts again,
whatever labels its flags give. The labels rack and zone are places for policies such as
spread and gang, and a request for rack/r7=1 needs the label rack=r7.`

// labelFlags say how to label nodes.
type labelFlags struct {
	choice         nodeChoice
	all, overwrite bool
}

// newNodeLabel returns the command that changes the labels of nodes.
func newNodeLabel(f *cmdutil.Factory) *cobra.Command {
	var flags labelFlags
	cmd := &cobra.Command{
		Use:   "label NODE... KEY=VALUE...|KEY-...",
		Short: "Add labels to nodes, change and remove labels",
		Long:  labelHelp,
	}
	flags.choice.Add(cmd)
	cmd.Args = cobra.ArbitraryArgs
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		nodes, change, err := parseLabels(args)
		switch {
		case err != nil:
			return err
		case len(change.Add)+len(change.Remove) == 0:
			return types.Errorf(types.Invalid, "label: is missing: give KEY=VALUE to add one, or KEY- to remove it: %s", cmdutil.Usage(cmd))
		case len(nodes) == 0 && flags.choice.IsZero() && !flags.all:
			return types.Errorf(types.Invalid, "NODE: is missing, and neither --selector nor --all is given: %s", cmdutil.Usage(cmd))
		case flags.all && (len(nodes) > 0 || !flags.choice.IsZero()):
			return types.Errorf(types.Invalid, "all: names every node, and some are chosen too: give one of them")
		}
		change.Overwrite = flags.overwrite
		return flags.label(cmd.Context(), f, nodes, change)
	}
	cmd.Flags().BoolVar(&flags.all, "all", false, "all nodes")
	cmd.Flags().BoolVar(&flags.overwrite, "overwrite", false, "change labels that have another value")
	return cmd
}

// parseLabels divides arguments into the names of nodes and the labels to add and remove.
func parseLabels(args []string) (nodes []string, change relabel.Change, err error) {
	for _, arg := range args {
		key, removes := strings.CutSuffix(arg, "-")
		switch {
		case strings.Contains(arg, "="):
			l, err := types.ParseLabel("label", arg)
			if err != nil {
				return nil, change, err
			}
			change.Add = append(change.Add, l)
		case removes:
			change.Remove = append(change.Remove, key)
		default:
			nodes = append(nodes, arg)
		}
	}
	return nodes, change, nil
}

// label changes the labels of nodes, one after the other, and prints their names.
func (l *labelFlags) label(ctx context.Context, f *cmdutil.Factory, args []string, change relabel.Change) error {
	client, err := f.Client(ctx)
	if err != nil {
		return err
	}
	names, err := l.choice.names(ctx, client, args)
	if err == nil && l.all {
		names, err = nodesWith(ctx, client.Store(), l.choice.Selector)
	}
	if err != nil {
		return err
	}
	for _, node := range names {
		if err := labelOne(ctx, f, node, change); err != nil {
			return err
		}
	}
	return nil
}

// labelOne changes the labels of one node, and tells what needs no change.
func labelOne(ctx context.Context, f *cmdutil.Factory, node string, change relabel.Change) error {
	body := map[string]any{"add": types.LabelMap(change.Add), "remove": change.Remove, "overwrite": change.Overwrite}
	var done struct {
		Changed bool
		Lacked  []string
	}
	if err := f.Change(ctx, http.MethodPost, cmdutil.NodePath(node, "labels"), body, &done); err != nil {
		return err
	}
	for _, key := range done.Lacked {
		f.ProgressLine("node %s has no label %s", node, key)
	}
	if !done.Changed && len(change.Add) > 0 {
		f.ProgressLine("node %s has these labels already", node)
	}
	fmt.Fprintln(f.Out, node)
	return nil
}
