package cli

import (
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/escher-sched/escher/cmd/escher/internal/table"
	"github.com/escher-sched/escher/controlplane"
	"github.com/escher-sched/escher/controlplane/cluster"
	"github.com/escher-sched/escher/types"
)

// nodeRow is a node as it is printed.
type nodeRow struct{ cluster.NodeState }

// Header returns the columns; amounts are in use/capacity.
func (nodeRow) Header() []table.Column {
	return table.Columns("node", "status", "cpu", "memory", "gpu", "ephemeral", "(labels)")
}

// Row returns what stands in them.
func (n nodeRow) Row() []string {
	ephemeral := 0
	for _, a := range n.Resources {
		if !types.IsPhysical(a.Name) {
			ephemeral++
		}
	}
	var labels []string
	for _, l := range n.Labels {
		labels = append(labels, l.Name+"="+l.Value)
	}
	return []string{
		n.Name, n.status(), n.inUse(types.CPU), n.inUse(types.Memory), n.inUse(types.GPU),
		strconv.Itoa(ephemeral), strings.Join(labels, ","),
	}
}

// status says whether tasks may be bound to the node.
func (n nodeRow) status() string {
	switch {
	case !n.Alive:
		return "lost"
	case n.Cordoned:
		return "cordoned"
	}
	return "alive"
}

// inUse formats how much is in use of what there is.
func (n nodeRow) inUse(id types.ResourceID) string {
	a, ok := n.Get(string(id))
	if !ok {
		return ""
	}
	return a.Allocated.Format(id) + "/" + a.Capacity.Format(id)
}

// stateKinds are the keys that the state of the cluster is made of.
func stateKinds() []controlplane.Kind {
	return []controlplane.Kind{
		controlplane.Nodes, controlplane.Alive, controlplane.Cordons, controlplane.Allocated,
		controlplane.Resources, controlplane.Provided, controlplane.Reservations, controlplane.Grants,
		controlplane.Bindings, controlplane.Reports,
	}
}

// listState makes a command that lists what is in the state of the cluster.
func listState[T table.Row](f *Factory, cmd *cobra.Command, rows func(*cluster.State) []T) *cobra.Command {
	var watch bool
	cmd.Args = exactly()
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		ctx := cmd.Context()
		if watch {
			return watchList(ctx, f, listing[T]{
				kinds: stateKinds(),
				rows:  func(view *cluster.View, _ time.Time) []T { return rows(view.Show(f.Namespace())) },
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
		if cmd.Name() == "state" && f.format.Encoded() {
			return table.Encode(f.Out, f.format, state)
		}
		return print(f, rows(state))
	}
	addWatch(cmd, &watch)
	return cmd
}

// newNodes makes the command that lists nodes.
func newNodes(f *Factory) *cobra.Command {
	cmd := &cobra.Command{Use: "nodes", Short: "List nodes with what is in use of what they have"}
	return listState(f, cmd, func(state *cluster.State) []nodeRow {
		rows := make([]nodeRow, len(state.Nodes))
		for i, n := range state.Nodes {
			rows[i] = nodeRow{n}
		}
		return rows
	})
}
