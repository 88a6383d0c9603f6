// Package history holds the commands about what servers have recorded: history, usage and log.
package history

import (
	"context"
	"fmt"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/escher-sched/escher/api/document"
	"github.com/escher-sched/escher/cmd/escher/internal/cli/cmdutil"
	"github.com/escher-sched/escher/cmd/escher/internal/cli/render"
	"github.com/escher-sched/escher/cmd/escher/internal/table"
	"github.com/escher-sched/escher/types"
	"github.com/escher-sched/escher/types/issued"
)

// taskRow is a row of the history.
type taskRow struct {
	document.Record

	now time.Time
}

// Header returns the columns.
func (taskRow) Header() []table.Column {
	return table.Columns("task", "name", "(namespace)", "(job)", "user", "phase", "(code)", "attempts", "gpu-h", "cpu-h", "waited", "ended", "(node)", "(reason)", "(labels)")
}

// Row returns the cells.
func (r taskRow) Row() []string {
	return []string{
		r.ID, r.Name, r.Namespace, r.Job, issued.Text(r.User), string(r.Phase), strconv.Itoa(r.ExitCode), strconv.Itoa(r.Attempts), hours(r.GPUSeconds), hours(r.CPUSeconds),
		render.Shortly(seconds(r.WaitedSeconds)), render.Shortly(r.now.Sub(*r.Ended)) + " ago", r.Node, r.Reason, types.LabelsText(types.LabelsOf(r.Labels)),
	}
}

// hours formats seconds as hours; three digits tell seconds.
func hours(seconds float64) string { return strconv.FormatFloat(seconds/3600, 'f', 3, 64) }

func seconds(s float64) time.Duration { return time.Duration(s * float64(time.Second)) }

// asked is what both commands select by.
type asked struct {
	since, until, user string
	labels             cmdutil.Selection
}

func (a *asked) add(cmd *cobra.Command, since string) {
	set := cmd.Flags()
	set.StringVar(&a.since, "since", since, "how long ago, such as 24h, or a time such as 2026-12-01T08:00:00Z")
	set.StringVar(&a.until, "until", "", "end of the time, written like --since; default: now")
	set.StringVar(&a.user, "user", "", "only tasks of this user, who submitted them, or whom the label user or a shared policy names")
	a.labels.AddSelector(cmd, cmdutil.TaskLabels, "only tasks")
}

// query returns the parameters for the API.
func (a *asked) query(namespace string, limit int) url.Values {
	q := url.Values{"limit": {strconv.Itoa(limit)}}
	for name, value := range map[string]string{"namespace": namespace, "since": a.since, "until": a.until, "user": a.user, "selector": a.labels.String()} {
		if value != "" {
			q.Set(name, value)
		}
	}
	return q
}

// get asks a server.
func get(ctx context.Context, f *cmdutil.Factory, path string, query url.Values, into any) error {
	api, err := f.ServerAPI(ctx)
	if err != nil {
		return err
	}
	defer api.Close()
	return api.Get(ctx, path, query, into)
}

// tellComplete tells since when the history is complete, if a flag asks for what was before.
func tellComplete(cmd *cobra.Command, f *cmdutil.Factory, complete *time.Time) {
	if complete != nil && cmd.Flags().Changed("since") {
		f.Tell("the history of this server is complete since %s", complete.Format(time.RFC3339))
	}
}

const historyHelp = `Lists ended tasks of the namespace, the latest first, as a server has recorded them. etcd
forgets ended tasks after an hour; servers keep a record of each for 30 days (--history).

  escher history
  escher history --since 24h --phase failed
  escher history --job train -o wide
  escher history -A --user alice --limit 1000 -o json`

// NewHistory returns the command that lists ended tasks.
func NewHistory(f *cmdutil.Factory) *cobra.Command {
	var ask asked
	var all bool
	var job string
	var limit int
	var phases []string
	cmd := &cobra.Command{
		Use:   "history",
		Short: "List ended tasks, also those that the cluster has deleted",
		Long:  historyHelp,
		Args:  cmdutil.Exactly(),
		RunE: func(cmd *cobra.Command, _ []string) error {
			namespace := f.Namespace()
			if all {
				namespace = ""
			}
			query := ask.query(namespace, limit)
			if job != "" {
				query.Set("job", job)
			}
			if len(phases) > 0 {
				query.Set("phase", strings.Join(phases, ","))
			}
			var page struct {
				Items    []document.Record
				Next     string
				Complete *time.Time
			}
			if err := get(cmd.Context(), f, "/v1/history", query, &page); err != nil {
				return err
			}
			var rows []taskRow
			for _, r := range page.Items {
				rows = append(rows, taskRow{r, time.Now()})
			}
			if page.Next != "" {
				f.Tell("there are more than %d: raise --limit, or give --until %s", len(rows), page.Items[len(rows)-1].Ended.Format(time.RFC3339Nano))
			}
			tellComplete(cmd, f, page.Complete)
			return cmdutil.Print(f, rows)
		},
	}
	ask.add(cmd, "")
	set := cmd.Flags()
	set.BoolVarP(&all, "all-namespaces", "A", false, "tasks of all namespaces")
	set.StringVar(&job, "job", "", "only tasks of this job, by its id or name")
	set.StringSliceVar(&phases, "phase", nil, "only tasks that ended as succeeded, failed or cancelled, with commas between")
	set.IntVar(&limit, "limit", 100, "how many tasks to list at most, up to 10000")
	return cmd
}

// usageRow is a row of usage.
type usageRow struct {
	document.Usage

	by []string
}

// Header returns the columns.
func (usageRow) Header() []table.Column {
	return table.Columns("of", "tasks", "failed", "attempts", "gpu-h", "cpu-h", "cpu-used-h", "(gib-h)", "waited")
}

// Row returns the cells.
func (r usageRow) Row() []string {
	var of []string
	for _, by := range r.by {
		of = append(of, strings.TrimPrefix(by, "label=")+"="+r.By[by])
	}
	return []string{
		strings.Join(of, ","), strconv.Itoa(r.Tasks), strconv.Itoa(r.Failed), strconv.Itoa(r.Attempts), hours(r.GPUSeconds), hours(r.CPUSeconds), hours(r.CPUUsedSeconds),
		fmt.Sprintf("%.3f", r.MemoryByteSeconds/3600/(1<<30)), render.Shortly(seconds(r.WaitedSeconds)),
	}
}

const usageHelp = `Sums up what tasks held and used, over all namespaces or the one of -n. An attempt counts
from its bind to its end, also if it was evicted or lost. It counts once it has ended, as a
whole, in the time of its end. -o json has the seconds.

  escher usage
  escher usage --by user --since 24h
  escher usage --by namespace,label=team -o json`

// NewUsage returns the command that sums up what tasks used.
func NewUsage(f *cmdutil.Factory) *cobra.Command {
	var ask asked
	var by []string
	var limit int
	cmd := &cobra.Command{
		Use:   "usage",
		Short: "Sum up what ended tasks held and used, by user, namespace or label",
		Long:  usageHelp,
		Args:  cmdutil.Exactly(),
		RunE: func(cmd *cobra.Command, _ []string) error {
			query := ask.query(f.Given.Namespace, limit)
			query.Set("by", strings.Join(by, ","))
			var answer struct {
				Items    []document.Usage
				Left     int
				Complete *time.Time
			}
			if err := get(cmd.Context(), f, "/v1/usage", query, &answer); err != nil {
				return err
			}
			var rows []usageRow
			for _, u := range answer.Items {
				rows = append(rows, usageRow{u, by})
			}
			if answer.Left > 0 {
				f.Tell("%d more are not shown: raise --limit", answer.Left)
			}
			tellComplete(cmd, f, answer.Complete)
			return cmdutil.Print(f, rows)
		},
	}
	ask.add(cmd, "720h")
	set := cmd.Flags()
	set.StringSliceVar(&by, "by", []string{"namespace", "user"}, "what to sum up by: namespace, user, label=NAME, with commas between")
	set.IntVar(&limit, "limit", 500, "how many sums to list at most, up to 10000: those with the most GPU hours")
	return cmd
}
