// Package show holds the commands that show tasks and jobs: ps, jobs, why, describe.
package show

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/spf13/cobra"

	"github.com/escher-sched/escher/cmd/escher/internal/cli/cmdutil"
	"github.com/escher-sched/escher/cmd/escher/internal/table"
	"github.com/escher-sched/escher/controlplane"
	"github.com/escher-sched/escher/controlplane/cluster"
	"github.com/escher-sched/escher/types"
)

// newestTasks is the default limit of a table of tasks.
const newestTasks = 500

const psHelp = `Lists the tasks of the namespace that have not ended, or all with -a; or the named ones
and those of named jobs. Tasks of a job are in the order of their index. The reason of
one that waits is what it waits for; with -w, and inside a task, it is left out. The
phase "ending" means that the task still runs, and is being stopped or evicted.

  escher ps -w                       follow changes
  escher ps -a -o wide               with attempts, jobs, ports, requests and labels
  escher ps train                    the tasks of a job, ended ones too
  escher ps -l team=vision,stage!=dev
  escher stop $(escher ps -o name)   stops them all
  escher ps -o jsonpath='{range .items[*]}{.id} {.node}{"\n"}{end}'`

// psFlags say which tasks to list.
type psFlags struct {
	all, watch bool
	labels     cmdutil.Selection
	job        string
	named      []string // ids of tasks and jobs
	limit      int
}

// NewPs returns the command that lists tasks.
func NewPs(f *cmdutil.Factory) *cobra.Command {
	var flags psFlags
	cmd := &cobra.Command{
		Use:   "ps [TASK|JOB...]",
		Short: "List tasks",
		Long:  psHelp,
		Args:  cobra.ArbitraryArgs,
		RunE: func(cmd *cobra.Command, args []string) error {
			if flags.limit < 0 {
				return types.Errorf(types.Invalid, "limit: %d is negative: give how many to list, or 0 for all", flags.limit)
			}
			if !cmd.Flags().Changed("limit") && f.Format.Encoded() {
				flags.limit = 0
			}
			if f.InTask() && !flags.watch {
				return flags.inside(cmd.Context(), f, args)
			}
			client, err := f.Client(cmd.Context())
			if err != nil {
				return err
			}
			if flags.job != "" {
				job, err := cmdutil.Find(cmd.Context(), client, flags.job, controlplane.Jobs)
				if err != nil {
					return err
				}
				flags.job = job.ID
			}
			named, err := cmdutil.FindAll(cmd.Context(), client, args, controlplane.Tasks, controlplane.Jobs)
			if err != nil {
				return err
			}
			for _, n := range named {
				flags.named = append(flags.named, n.ID)
			}
			if flags.watch {
				return cmdutil.WatchList(cmd.Context(), f, flags.listing(client.Namespace()))
			}
			return flags.list(cmd.Context(), f, client)
		},
	}
	set := cmd.Flags()
	set.BoolVarP(&flags.all, "all", "a", false, "include those that have ended")
	set.StringVar(&flags.job, "job", "", "only those of this job")
	flags.labels.AddSelector(cmd, cmdutil.TaskLabels, "only those")
	cmdutil.AddShowLabels(cmd, f)
	set.IntVar(&flags.limit, "limit", newestTasks, "print at most this many rows of a table, the newest; 0 means all")
	cmdutil.AddWatch(cmd, &flags.watch)
	return cmd
}

// shown reports whether a task is listed.
func (p *psFlags) shown(row TaskRow) bool {
	return (p.all || len(p.named) > 0 || !row.Phase.Ended()) && p.selected(row)
}

// selected reports whether a task is named or of the job, and has the labels.
func (p *psFlags) selected(row TaskRow) bool {
	if len(p.named) > 0 && !slices.Contains(p.named, row.ID) && (row.Job == "" || !slices.Contains(p.named, row.Job)) {
		return false
	}
	return (p.job == "" || row.Job == p.job) && p.labels.Selects(row.Labels)
}

// list lists the tasks once.
func (p *psFlags) list(ctx context.Context, f *cmdutil.Factory, client *controlplane.Client) error {
	now, all := time.Now(), 0
	var rows []TaskRow
	_, err := client.EachTask(ctx, func(t controlplane.TaskState) error {
		row := NewTaskRow(t, now)
		if !p.shown(row) {
			return nil
		}
		all++
		if rows = append(rows, row); p.limit > 0 && len(rows) > 2*p.limit+newestTasks {
			rows = p.newest(rows) // there may be millions
		}
		return nil
	})
	if err != nil {
		return err
	}
	rows = p.newest(rows)
	sortTasks(rows)
	if f.Format != table.Name {
		addReasons(ctx, f, client, rows, now)
		addGoneBy(ctx, f, client, rows, now)
	}
	if f.Format == table.Wide || f.Format.Encoded() {
		addPorts(ctx, client, rows)
	}
	return p.print(f, rows, all)
}

// print prints rows, the newest of all.
func (p *psFlags) print(f *cmdutil.Factory, rows []TaskRow, all int) error {
	if err := cmdutil.Print(f, rows); err != nil {
		return err
	}
	if len(rows) == 0 && !p.labels.IsZero() {
		p.labels.TellNone(f, "task")
	}
	if more := all - len(rows); more > 0 {
		f.Tell("these are the newest %d; %d more: --limit 0 lists all", len(rows), more)
	}
	return nil
}

const (
	// askedAlike is the most kinds of waiting tasks whose reason is asked for, and askedFor the
	// longest time that this may take: a list of tasks must come soon.
	askedAlike = 16
	askedFor   = time.Second
)

// addReasons adds why tasks wait, in place of how their last attempts ended. Tasks of a job with equal
// requests wait for the same. It leaves out what it cannot find out soon: escher why has it.
func addReasons(ctx context.Context, f *cmdutil.Factory, client *controlplane.Client, rows []TaskRow, now time.Time) {
	waits := func(row *TaskRow) bool {
		return row.Phase == types.Pending && row.Ending == "" && !row.waitsForRetry(now)
	}
	alike := make(map[string]int)
	var asked []string
	kind := func(row *TaskRow) string {
		return fmt.Sprint(row.Job, " ", row.Priority, " ", row.Failures, " ", row.Needs(), row.Requests, row.Alternatives, row.Devices)
	}
	for i := range rows {
		row := &rows[i]
		if !waits(row) || len(asked) == askedAlike {
			continue
		}
		if _, seen := alike[kind(row)]; !seen {
			alike[kind(row)] = len(asked)
			asked = append(asked, row.ID)
		}
	}
	if len(asked) == 0 {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, askedFor)
	defer cancel()
	answers, err := f.WhyWait(ctx, client, now, asked...)
	if err != nil {
		return
	}
	for i := range rows {
		row := &rows[i]
		if at, ok := alike[kind(row)]; ok && waits(row) {
			row.Reason = cmp.Or(answers[at].Why, row.Reason)
		}
	}
}

// newest leaves out the oldest rows beyond the limit.
func (p *psFlags) newest(rows []TaskRow) []TaskRow {
	if p.limit <= 0 || len(rows) <= p.limit {
		return rows
	}
	ages := make([]time.Duration, len(rows))
	for i, row := range rows {
		ages[i] = row.Age
	}
	slices.Sort(ages)
	oldest := ages[p.limit-1]
	newer, _ := slices.BinarySearch(ages, oldest)
	left := p.limit - newer // of those as old as the oldest
	return slices.DeleteFunc(rows, func(row TaskRow) bool {
		if row.Age == oldest {
			left--
			return left < 0
		}
		return row.Age > oldest
	})
}

// listing is the list of tasks to watch.
func (p *psFlags) listing(ns string) cmdutil.Listing[TaskRow] {
	return cmdutil.Listing[TaskRow]{
		Kinds: []controlplane.Kind{controlplane.Tasks, controlplane.Statuses, controlplane.Jobs},
		Rows:  func(view *cluster.View, now time.Time) []TaskRow { return TaskRows(view, ns, now, p.selected) },
		Shown: p.shown,
	}
}

// TaskRows lists the tasks of a view that keep selects, in the order of sortTasks.
func TaskRows(view *cluster.View, ns string, now time.Time, keep func(TaskRow) bool) []TaskRow {
	var rows []TaskRow
	for t := range view.Tasks() {
		if t.Info.V == nil || t.ID.Namespace != ns {
			continue
		}
		state := controlplane.TaskState{ID: t.ID.ID, Task: t.Info.V.Full(), Status: t.Status.V.Full(), Accepted: view.Visible(t)}
		if row := NewTaskRow(state, now); keep(row) {
			rows = append(rows, row)
		}
	}
	sortTasks(rows)
	return rows
}
