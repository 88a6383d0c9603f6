package show

import (
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/spf13/cobra"

	"github.com/escher-sched/escher/api/document"
	"github.com/escher-sched/escher/cmd/escher/internal/cli/cmdutil"
	"github.com/escher-sched/escher/cmd/escher/internal/cli/render"
	"github.com/escher-sched/escher/cmd/escher/internal/table"
	"github.com/escher-sched/escher/controlplane"
	"github.com/escher-sched/escher/controlplane/cluster"
	"github.com/escher-sched/escher/types"
	"github.com/escher-sched/escher/types/issued"
)

// jobRow is a row of a list of jobs.
type jobRow struct {
	document.Job

	age time.Duration
}

// Header returns the columns.
func (jobRow) Header() []table.Column {
	return table.Columns("job", "name", "phase", "tasks", "pending", "running", "succeeded", "failed", "cancelled", "age", "(user)", "(labels)")
}

// Row returns the cells.
func (j jobRow) Row() []string {
	count := func(phases ...types.Phase) string {
		n := 0
		for _, p := range phases {
			n += j.Phases[p]
		}
		return strconv.Itoa(n)
	}
	return []string{
		j.ID, j.Name, string(j.Phase), strconv.Itoa(j.Tasks), count(types.Pending), count(types.Bound, types.Running),
		count(types.Succeeded), count(types.Failed), count(types.Cancelled), render.Shortly(j.age), issued.Text(j.User),
		types.LabelsText(types.LabelsOf(j.Labels)),
	}
}

const jobsHelp = `Lists the jobs of the namespace that have not ended, or all with -a; or the named ones.

  escher jobs -a                     with those that have ended
  escher jobs -l team=vision         only those with this label`

// NewJobs returns the command that lists jobs.
func NewJobs(f *cmdutil.Factory) *cobra.Command {
	var all, watch bool
	var labels cmdutil.Selection
	cmd := &cobra.Command{
		Use:   "jobs [JOB...]",
		Short: "List jobs",
		Long:  jobsHelp,
		Args:  cobra.ArbitraryArgs,
		RunE: func(cmd *cobra.Command, args []string) error {
			ctx := cmd.Context()
			if f.InTask() && !watch {
				rows, named, err := jobsInside(ctx, f, args)
				if err != nil {
					return err
				}
				return printJobs(f, &labels, slices.DeleteFunc(rows, func(j jobRow) bool {
					return !labels.Selects(j.Labels) || len(named) > 0 && !slices.Contains(named, j.ID) || len(named) == 0 && !all && j.Phase.Ended()
				}))
			}
			client, err := f.Client(ctx)
			if err != nil {
				return err
			}
			ns := client.Namespace()
			kinds := []controlplane.Kind{controlplane.Jobs, controlplane.Tasks, controlplane.Statuses}
			named, err := cmdutil.FindAll(ctx, client, args, controlplane.Jobs)
			if err != nil {
				return err
			}
			shown := func(j jobRow) bool {
				if len(named) > 0 {
					return slices.Contains(named, cmdutil.Named{Kind: controlplane.Jobs, ID: j.ID})
				}
				return all || !j.Phase.Ended()
			}
			if watch {
				rows := func(v *cluster.View, now time.Time) []jobRow {
					return slices.DeleteFunc(jobRows(v, ns, now, labels.Selects), func(j jobRow) bool { return len(named) > 0 && !shown(j) })
				}
				return cmdutil.WatchList(ctx, f, cmdutil.Listing[jobRow]{Kinds: kinds, Rows: rows, Shown: shown})
			}
			view, err := cluster.ReadView(ctx, client.Store(), controlplane.Prefix(controlplane.Jobs, ns),
				controlplane.Prefix(controlplane.Tasks, ns), controlplane.Prefix(controlplane.Statuses, ns))
			if err != nil {
				return err
			}
			rows := slices.DeleteFunc(jobRows(view, ns, time.Now(), labels.Selects), func(j jobRow) bool { return !shown(j) })
			return printJobs(f, &labels, rows)
		},
	}
	cmd.Flags().BoolVarP(&all, "all", "a", false, "include those that have ended")
	labels.AddSelector(cmd, cmdutil.TaskLabels, "only those")
	cmdutil.AddShowLabels(cmd, f)
	cmdutil.AddWatch(cmd, &watch)
	return cmd
}

// printJobs prints rows, and says so if no job has the labels.
func printJobs(f *cmdutil.Factory, labels *cmdutil.Selection, rows []jobRow) error {
	if len(rows) == 0 && !labels.IsZero() {
		labels.TellNone(f, "job")
	}
	return cmdutil.Print(f, rows)
}

// jobRows lists the jobs of a view with labels that selects accepts, by id.
func jobRows(view *cluster.View, ns string, now time.Time, selects func(map[string]string) bool) []jobRow {
	var rows []jobRow
	for id, j := range view.Jobs {
		if id.Namespace == ns && j.V != nil && selects(types.LabelMap(j.V.Labels)) {
			rows = append(rows, newJobRow(view, id, now))
		}
	}
	cmdutil.SortBy(rows, func(r jobRow) string { return r.ID })
	return rows
}

func newJobRow(view *cluster.View, id cluster.ID, now time.Time) jobRow {
	return jobRow{Job: document.JobOf(view, id), age: now.Sub(time.Unix(0, view.Jobs[id].V.Submitted))}
}

// phasesText formats the number of tasks in each phase.
func phasesText(phases map[types.Phase]int) string {
	text := ""
	for _, p := range types.Phases() {
		if phases[p] == 0 {
			continue
		}
		if text != "" {
			text += ", "
		}
		text += fmt.Sprintf("%d %s", phases[p], p)
	}
	return text
}
