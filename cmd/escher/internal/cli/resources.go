package cli

import (
	"encoding/json"
	"slices"

	"github.com/spf13/cobra"

	"github.com/escher-sched/escher/cmd/escher/internal/table"
	"github.com/escher-sched/escher/controlplane/cluster"
	"github.com/escher-sched/escher/types"
)

// amountsRow is how much there is of a resource at one place, as it is printed.
type amountsRow struct {
	// Where is a node, or the cluster.
	Where string
	cluster.Amounts
}

// wholeCluster is where a pool is.
const wholeCluster = "(cluster)"

// Header returns the columns.
func (amountsRow) Header() []table.Column {
	return table.Columns("resource", "where", "capacity", "in use", "free")
}

// Row returns what stands in them.
func (a amountsRow) Row() []string {
	id := types.ResourceID(a.Name)
	return []string{a.Name, a.Where, a.Capacity.Format(id), a.Allocated.Format(id), a.Free.Format(id)}
}

// MarshalJSON adds the place to the amounts.
func (a amountsRow) MarshalJSON() ([]byte, error) {
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

// amountsRows lists the resources of a state for which keep is true.
func amountsRows(s *cluster.State, keep func(name string) bool) []amountsRow {
	var rows []amountsRow
	for _, a := range s.Pools {
		if keep(a.Name) {
			rows = append(rows, amountsRow{wholeCluster, a})
		}
	}
	for _, n := range s.Nodes {
		for _, a := range n.Resources {
			if keep(a.Name) {
				rows = append(rows, amountsRow{n.Name, a})
			}
		}
	}
	return rows
}

// newResources makes the command that lists ephemeral resources.
func newResources(f *Factory) *cobra.Command {
	cmd := &cobra.Command{Use: "resources", Short: "List the ephemeral resources of the namespace"}
	return listState(f, cmd, func(state *cluster.State) []amountsRow {
		rows := amountsRows(state, func(name string) bool { return !types.IsPhysical(name) })
		sortBy(rows, func(r amountsRow) string { return r.Name })
		return rows
	})
}
