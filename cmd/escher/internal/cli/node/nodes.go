// Package node holds the commands about nodes: nodes, gpus, node cordon, drain, rm.
package node

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/escher-sched/escher/cmd/escher/internal/cli/cmdutil"
	"github.com/escher-sched/escher/cmd/escher/internal/table"
	"github.com/escher-sched/escher/controlplane"
	"github.com/escher-sched/escher/controlplane/cluster"
	"github.com/escher-sched/escher/types"
)

// NodeRow is a row of a list of nodes.
type NodeRow struct {
	cluster.NodeState
	// Left is how many tasks are left on a node that is being drained, if known.
	Left *int `json:"left,omitempty"`
}

// Header returns the columns; amounts are in use/capacity.
func (NodeRow) Header() []table.Column {
	return table.Columns("node", "status", "cpu", "memory", "gpu", "ephemeral", "(version)", "(labels)")
}

// Row returns the cells.
func (n NodeRow) Row() []string {
	ephemeral := 0
	for _, a := range n.Resources {
		if !types.IsPhysical(a.Name) {
			ephemeral++
		}
	}
	return []string{
		n.Name, n.Status(), n.inUse(types.CPU), n.inUse(types.Memory), n.inUse(types.GPU),
		strconv.Itoa(ephemeral), n.Version, types.LabelsText(n.Labels),
	}
}

// Status says whether tasks may be bound to the node.
func (n NodeRow) Status() string {
	switch {
	case !n.Alive:
		return "lost"
	case n.Drain != "":
		return n.drain()
	case n.Cordoned:
		return "cordoned"
	}
	return "alive"
}

// drain describes the progress of a drain.
func (n NodeRow) drain() string {
	if n.Left != nil && *n.Left == 0 {
		return "drained"
	}
	var texts []string
	if n.Left != nil {
		texts = append(texts, fmt.Sprintf("%d left", *n.Left))
	}
	if n.DrainBy != nil {
		texts = append(texts, "until "+n.DrainBy.UTC().Format(time.RFC3339))
	}
	if len(texts) == 0 {
		return "draining"
	}
	return "draining (" + strings.Join(texts, ", ") + ")"
}

// countLeft counts the bindings of nodes being drained, in all namespaces.
func countLeft(ctx context.Context, store controlplane.Store, rows []NodeRow) error {
	for i := range rows {
		if rows[i].Drain == "" {
			continue
		}
		kvs, _, err := controlplane.ListAll(ctx, store, controlplane.ListOptions{Prefix: controlplane.Prefix(controlplane.Bindings, rows[i].Name), KeysOnly: true})
		if err != nil {
			return err
		}
		left := len(kvs)
		rows[i].Left = &left
	}
	return nil
}

// countBound is countLeft with an existing view.
func countBound(view *cluster.View, rows []NodeRow) {
	for i := range rows {
		if n := view.Nodes[rows[i].Name]; n != nil && rows[i].Drain != "" {
			left := len(n.Bindings)
			rows[i].Left = &left
		}
	}
}

// inUse formats the amount in use and the capacity of a resource.
func (n NodeRow) inUse(id types.ResourceID) string {
	a, ok := n.Get(string(id))
	if !ok {
		return ""
	}
	return a.Allocated.Format(id) + "/" + a.Capacity.Format(id)
}

// StateKinds are the kinds of keys that the state of the cluster needs.
func StateKinds() []controlplane.Kind {
	return []controlplane.Kind{
		controlplane.Nodes, controlplane.Alive, controlplane.Cordons, controlplane.Allocated,
		controlplane.Resources, controlplane.Provided, controlplane.Reservations, controlplane.Grants,
		controlplane.Bindings, controlplane.Reports,
	}
}

// ListState completes a command that lists a part of the state of the cluster.
func ListState[T table.Row](f *cmdutil.Factory, cmd *cobra.Command, rows func(*cluster.State) []T) *cobra.Command {
	var watch bool
	var everyones []controlplane.Kind
	if cmd.Name() == "nodes" {
		everyones = append(everyones, controlplane.Bindings) // tasks of all namespaces must leave a drained node
	}
	cmd.Args = cmdutil.Exactly()
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		ctx := cmd.Context()
		if watch {
			return cmdutil.WatchList(ctx, f, cmdutil.Listing[T]{
				Kinds: StateKinds(),
				All:   everyones,
				Rows: func(view *cluster.View, _ time.Time) []T {
					out := rows(view.Show(f.Namespace()))
					if nodes, ok := any(out).([]NodeRow); ok {
						countBound(view, nodes)
					}
					return out
				},
			})
		}
		tasks, err := f.Tasks(ctx)
		if err != nil {
			return err
		}
		state, err := tasks.State(ctx)
		if err != nil {
			return err
		}
		if cmd.Name() == "state" && f.Format.Encoded() {
			return table.Encode(f.Out, f.Format, state)
		}
		out := rows(state)
		if nodes, ok := any(out).([]NodeRow); ok && !f.InTask() && !f.Served() {
			store, err := f.Store(ctx)
			if err == nil {
				err = countLeft(ctx, store, nodes)
			}
			if err != nil {
				return err
			}
		}
		return cmdutil.Print(f, out)
	}
	cmdutil.AddWatch(cmd, &watch)
	return cmd
}

const nodesHelp = `Lists the nodes, or the named ones, with their allocated resources and capacity.

  escher nodes node-1
  escher nodes --show-labels
  escher nodes -l rack=r1,disk!=hdd`

// NewNodes returns the command that lists nodes.
func NewNodes(f *cmdutil.Factory) *cobra.Command {
	cmd := &cobra.Command{Use: "nodes [NODE...]", Short: "List nodes with their allocated resources and capacity", Long: nodesHelp}
	var labels cmdutil.Selection
	labels.AddSelector(cmd, cmdutil.NodeLabels, "only those")
	cmdutil.AddShowLabels(cmd, f)
	var rows []NodeRow
	var named []string
	ListState(f, cmd, func(state *cluster.State) []NodeRow {
		rows = rows[:0]
		for _, n := range state.Nodes {
			if labels.Matches(n.Labels) && (len(named) == 0 || slices.Contains(named, n.Name)) {
				rows = append(rows, NodeRow{NodeState: n})
			}
		}
		return rows
	})
	list := cmd.RunE
	cmd.Args = cobra.ArbitraryArgs
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		named = args
		if !f.InTask() && !f.Served() {
			client, err := f.Client(cmd.Context())
			if err != nil {
				return err
			}
			found, err := cmdutil.FindAll(cmd.Context(), client, args, controlplane.Nodes)
			if err != nil {
				return err
			}
			for i, n := range found {
				named[i] = n.ID
			}
		}
		err := list(cmd, nil)
		if err == nil && len(rows) == 0 && !labels.IsZero() {
			labels.TellNone(f, "node")
		}
		return err
	}
	return cmd
}
