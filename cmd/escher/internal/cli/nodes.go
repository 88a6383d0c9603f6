package cli

import (
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/escher-sched/escher/cmd/escher/internal/table"
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
	status := "alive"
	switch {
	case !n.Alive:
		status = "lost"
	case n.Cordoned:
		status = "cordoned"
	}
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
		n.Name, status, n.inUse(types.CPU), n.inUse(types.Memory), n.inUse(types.GPU),
		strconv.Itoa(ephemeral), strings.Join(labels, ","),
	}
}

// inUse formats how much is in use of what there is.
func (n nodeRow) inUse(id types.ResourceID) string {
	a, ok := n.Get(string(id))
	if !ok {
		return ""
	}
	return a.Allocated.Format(id) + "/" + a.Capacity.Format(id)
}

// newNodes makes the command that lists nodes.
func newNodes(f *Factory) *cobra.Command {
	return &cobra.Command{
		Use:   "nodes",
		Short: "List nodes with what is in use of what they have",
		Args:  exactly(),
		RunE: func(cmd *cobra.Command, _ []string) error {
			tasks, err := f.Tasks(cmd.Context())
			if err != nil {
				return err
			}
			state, err := tasks.State(cmd.Context())
			if err != nil {
				return err
			}
			rows := make([]nodeRow, len(state.Nodes))
			for i, n := range state.Nodes {
				rows[i] = nodeRow{n}
			}
			return print(f, rows)
		},
	}
}
