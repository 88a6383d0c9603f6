package resource

import (
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/escher-sched/escher/api/document"
	"github.com/escher-sched/escher/cmd/escher/internal/cli/cmdutil"
	"github.com/escher-sched/escher/cmd/escher/internal/cli/render"
	"github.com/escher-sched/escher/cmd/escher/internal/table"
	"github.com/escher-sched/escher/controlplane"
	"github.com/escher-sched/escher/controlplane/cluster"
)

// ReservationRow is a row of a list of reservations.
type ReservationRow struct {
	document.Reservation

	age time.Duration
}

// Header returns the columns.
func (ReservationRow) Header() []table.Column {
	return table.Columns("reservation", "phase", "bundles", "age", "nodes", "(requests)")
}

// Row returns the cells.
func (r ReservationRow) Row() []string {
	var requests []string
	for _, b := range r.Bundles {
		requests = append(requests, render.NeedsText(b.Requests, b.Devices))
	}
	return []string{
		r.ID, r.Phase, strconv.Itoa(len(r.Bundles)), render.Shortly(r.age),
		strings.Join(r.Nodes, ","), strings.Join(requests, " "),
	}
}

// NewReservations returns the command that lists reservations.
func NewReservations(f *cmdutil.Factory) *cobra.Command {
	var watch bool
	cmd := &cobra.Command{
		Use:   "reservations",
		Short: "List reservations with their grants",
		Long: `Lists reservations, with the nodes on which their bundles are locked.

  escher reservations
  escher reservations -w     follow changes`,
		Args: cmdutil.Exactly(),
		RunE: func(cmd *cobra.Command, _ []string) error {
			if watch {
				return cmdutil.WatchList(cmd.Context(), f, cmdutil.Listing[ReservationRow]{
					Kinds: []controlplane.Kind{controlplane.Reservations, controlplane.Grants}, Rows: reservationRows,
				})
			}
			client, err := f.Client(cmd.Context())
			if err != nil {
				return err
			}
			view, err := cluster.ReadView(cmd.Context(), client.Store(),
				controlplane.Prefix(controlplane.Reservations, client.Namespace()),
				controlplane.Prefix(controlplane.Grants, client.Namespace()))
			if err != nil {
				return err
			}
			return cmdutil.Print(f, reservationRows(view, time.Now()))
		},
	}
	cmdutil.AddWatch(cmd, &watch)
	return cmd
}

// reservationRows lists the reservations of a view of one namespace.
func reservationRows(view *cluster.View, now time.Time) []ReservationRow {
	var rows []ReservationRow
	for id, r := range view.Reservations {
		if document.OfTask(r) {
			continue // belongs to a task: escher why describes it there
		}
		rows = append(rows, NewReservationRow(id, r, now))
	}
	cmdutil.SortBy(rows, func(r ReservationRow) string { return r.ID })
	return rows
}

// NewReservationRow makes the row of a reservation.
func NewReservationRow(id cluster.ID, r *cluster.Reservation, now time.Time) ReservationRow {
	row := ReservationRow{Reservation: document.ReservationOf(id, r)}
	if r.Info.V != nil {
		row.age = now.Sub(time.Unix(0, r.Info.V.Submitted))
	}
	return row
}
