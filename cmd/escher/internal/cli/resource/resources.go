// Package resource holds the commands about resources and reservations.
package resource

import (
	"encoding/json"
	"slices"

	"github.com/spf13/cobra"

	"github.com/escher-sched/escher/cmd/escher/internal/cli/cmdutil"
	"github.com/escher-sched/escher/cmd/escher/internal/cli/node"
	"github.com/escher-sched/escher/cmd/escher/internal/table"
	"github.com/escher-sched/escher/controlplane/cluster"
	"github.com/escher-sched/escher/types"
)

// AmountsRow is the amount of a resource at one place, in a row of a list.
type AmountsRow struct {
	// Where is a node, or the cluster.
	Where string
	cluster.Amounts
}

// WholeCluster is the place of a pool.
const WholeCluster = "(cluster)"

// Header returns the columns.
func (AmountsRow) Header() []table.Column {
	return table.Columns("resource", "where", "capacity", "in use", "free")
}

// Row returns the cells.
func (a AmountsRow) Row() []string {
	id := types.ResourceID(a.Name)
	return []string{a.Name, a.Where, a.Capacity.Format(id), a.Allocated.Format(id), a.Free.Format(id)}
}

// MarshalJSON adds the place to the amounts.
func (a AmountsRow) MarshalJSON() ([]byte, error) {
	amounts, err := json.Marshal(a.Amounts)
	if err != nil {
		return nil, err
	}
	where, err := json.Marshal(map[string]string{"where": a.Where})
	if err != nil {
		return nil, err
	}
	return slices.Concat(where[:len(where)-1], []byte(","), amounts[1:]), nil
}

// AmountsRows lists the resources of a state that keep selects.
func AmountsRows(s *cluster.State, keep func(name string) bool) []AmountsRow {
	var rows []AmountsRow
	for _, a := range s.Pools {
		if keep(a.Name) {
			rows = append(rows, AmountsRow{WholeCluster, a})
		}
	}
	for _, n := range s.Nodes {
		for _, a := range n.Resources {
			if keep(a.Name) {
				rows = append(rows, AmountsRow{n.Name, a})
			}
		}
	}
	return rows
}

// NewResources returns the command that lists ephemeral resources.
func NewResources(f *cmdutil.Factory) *cobra.Command {
	cmd := &cobra.Command{Use: "resources", Short: "List the ephemeral resources of the namespace", Long: `Lists the ephemeral resources of the namespace: those that programs and policies create.

  escher resources`}
	return node.ListState(f, cmd, func(state *cluster.State) []AmountsRow {
		rows := AmountsRows(state, func(name string) bool { return !types.IsPhysical(name) })
		cmdutil.SortBy(rows, func(r AmountsRow) string { return r.Name })
		return rows
	})
}
