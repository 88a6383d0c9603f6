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

// reservationRow is a reservation as it is printed.
type reservationRow struct {
	ID string `json:"id"`
	// Phase is that of the grant, or pending.
	Phase   string         `json:"phase"`
	Bundles []types.Bundle `json:"bundles,omitempty"`
	// Nodes are where the bundles are, in their order.
	Nodes []string `json:"nodes,omitempty"`

	age time.Duration
}

// Header returns the columns.
func (reservationRow) Header() []table.Column {
	return table.Columns("reservation", "phase", "bundles", "age", "nodes", "(requests)")
}

// Row returns what stands in them.
func (r reservationRow) Row() []string {
	var requests []string
	for _, b := range r.Bundles {
		requests = append(requests, needsText(b.Requests, b.Devices))
	}
	return []string{
		r.ID, r.Phase, strconv.Itoa(len(r.Bundles)), shortly(r.age),
		strings.Join(r.Nodes, ","), strings.Join(requests, " "),
	}
}

// newReservations makes the command that lists reservations.
func newReservations(f *Factory) *cobra.Command {
	var watch bool
	cmd := &cobra.Command{
		Use:   "reservations",
		Short: "List reservations with their grants",
		Args:  exactly(),
		RunE: func(cmd *cobra.Command, _ []string) error {
			if watch {
				return watchList(cmd.Context(), f, listing[reservationRow]{
					kinds: []controlplane.Kind{controlplane.Reservations, controlplane.Grants}, rows: reservationRows,
				})
			}
			client, err := f.Client(cmd.Context())
			if err != nil {
				return err
			}
			view, err := readView(cmd.Context(), client.Store(),
				controlplane.Prefix(controlplane.Reservations, client.Namespace()),
				controlplane.Prefix(controlplane.Grants, client.Namespace()))
			if err != nil {
				return err
			}
			return print(f, reservationRows(view, time.Now()))
		},
	}
	addWatch(cmd, &watch)
	return cmd
}

// reservationRows lists the reservations of a view, which has those of one namespace.
func reservationRows(view *cluster.View, now time.Time) []reservationRow {
	var rows []reservationRow
	for id, r := range view.Reservations {
		if r.Info.Absent() && r.Grant.V != nil && r.Grant.V.Task != 0 {
			continue // what a task collects: escher why says it of the task
		}
		rows = append(rows, newReservationRow(id, r, now))
	}
	sortBy(rows, func(r reservationRow) string { return r.ID })
	return rows
}

func newReservationRow(id cluster.ID, r *cluster.Reservation, now time.Time) reservationRow {
	row := reservationRow{ID: id.ID, Phase: string(types.Pending)}
	if r.Info.V != nil {
		row.Bundles = r.Info.V.Bundles
		row.age = now.Sub(time.Unix(0, r.Info.V.Submitted))
	}
	if g := r.Grant.V; g != nil {
		row.Phase, row.Nodes = string(g.Phase), g.Bundles
		if !r.Current() {
			row.Phase = string(types.Releasing) // whether its grant says so yet or not
		}
	}
	return row
}
