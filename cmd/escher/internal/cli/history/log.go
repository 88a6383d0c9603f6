package history

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/escher-sched/escher/cmd/escher/internal/cli/cmdutil"
	"github.com/escher-sched/escher/cmd/escher/internal/table"
	"github.com/escher-sched/escher/controlplane/supervise"
	"github.com/escher-sched/escher/types"
	"github.com/escher-sched/escher/types/issued"
)

// requestRow is a row of the log of requests, with the fields of the API.
type requestRow struct {
	ID        int64     `json:"id"`
	At        time.Time `json:"at"`
	User      string    `json:"user,omitempty"`
	Token     string    `json:"token,omitempty"`
	Operation string    `json:"operation"`
	Namespace string    `json:"namespace,omitempty"`
	Object    string    `json:"object,omitempty"`
	More      int       `json:"more,omitempty"`
	Revision  int64     `json:"revision,omitempty"`
	Refused   string    `json:"refused,omitempty"`
}

// Header returns the columns.
func (requestRow) Header() []table.Column {
	return table.Columns("time", "user", "(token)", "operation", "namespace", "object", "revision", "refused")
}

// Row returns the cells.
func (r requestRow) Row() []string {
	object, revision := r.Object, ""
	if r.More > 0 {
		object += " and " + strconv.Itoa(r.More) + " more"
	}
	if r.Revision > 0 {
		revision = strconv.FormatInt(r.Revision, 10)
	}
	return []string{r.At.UTC().Format("2006-01-02T15:04:05.000Z"), cmp.Or(issued.SubjectText(r.User), "unknown"), r.Token, r.Operation, r.Namespace, object, revision, r.Refused}
}

// Line is the row as a line.
func (r requestRow) Line() string {
	cells := r.Row()
	return strings.Join(slices.DeleteFunc(append(cells[:2:2], cells[3:]...), func(cell string) bool { return cell == "" }), "  ")
}

const logHelp = `Lists requests that changed something or were refused, the latest first, as a server has
recorded them: who did what, and at which revision. Of the whole cluster, or with -n of a
namespace. It needs the right "read audit". Other servers have records of their own.

  escher log --since 1h
  escher log -n lab --user alice
  escher log --refused
  escher log --since 720h --limit 10000 -o json
  escher log -f                                       further ones, the latest last, until Ctrl-C`

// NewLog returns the command that lists requests.
func NewLog(f *cmdutil.Factory) *cobra.Command {
	var since, until, user string
	var refused, follow bool
	var limit int
	cmd := &cobra.Command{
		Use:   "log",
		Short: "List who changed what, and what was refused",
		Long:  logHelp,
		Args:  cmdutil.Exactly(),
		RunE: func(cmd *cobra.Command, _ []string) error {
			query := url.Values{"limit": {strconv.Itoa(limit)}, "refused": {strconv.FormatBool(refused)}}
			for name, value := range map[string]string{"namespace": f.Given.Namespace, "since": since, "until": until, "user": user} {
				if value != "" {
					query.Set(name, value)
				}
			}
			if follow {
				return followRequests(cmd.Context(), f, query)
			}
			var page requestPage
			if err := get(cmd.Context(), f, "/v1/requests", query, &page); err != nil {
				return err
			}
			if page.Next != "" {
				f.Tell("there may be more than %d: raise --limit, or give --until %s", len(page.Items), page.Items[len(page.Items)-1].At.Format(time.RFC3339Nano))
			}
			return cmdutil.Print(f, page.Items)
		},
	}
	set := cmd.Flags()
	set.StringVar(&since, "since", "", "how long ago, such as 24h, or a time such as 2026-12-01T08:00:00Z")
	set.StringVar(&until, "until", "", "end of the time, written like --since; default: now")
	set.StringVar(&user, "user", "", "only requests of this user: user:NAME, service:NAME, or NAME")
	set.BoolVar(&refused, "refused", false, "only requests that were refused")
	set.IntVar(&limit, "limit", 100, "how many requests to list at most, up to 10000")
	set.BoolVarP(&follow, "follow", "f", false, "list those that there are, the latest last, and then further ones")
	cmd.MarkFlagsMutuallyExclusive("follow", "until")
	return cmd
}

// requestPage is a page of the log.
type requestPage struct {
	Items []requestRow
	Next  string
}

// followEvery is how often the log is read when it is followed.
const followEvery = time.Second

// followRequests prints requests, and then further ones, until ctx is done. A server that does not answer is
// asked again.
func followRequests(ctx context.Context, f *cmdutil.Factory, query url.Values) error {
	api, err := f.ServerAPI(ctx)
	if err != nil {
		return err
	}
	defer api.Close()
	ctx, stop := f.WhileWritable(ctx)
	defer stop()
	said, last := "", int64(0)
	for {
		rows, err := further(query, last, func(query url.Values) (page requestPage, err error) {
			return page, api.Get(ctx, "/v1/requests", query, &page)
		})
		for _, row := range rows {
			if err := show(f, row); err != nil {
				return err
			}
			last = row.ID
			query.Set("since", row.At.Add(-followEvery).Format(time.RFC3339Nano)) // what comes later may be a little earlier
		}
		switch {
		case err == nil:
			said = ""
		case !types.ClassOf(err).Retryable() || ctx.Err() != nil:
			return err
		case err.Error() != said:
			said = err.Error()
			f.Tell("%v", err)
		}
		if err := supervise.Pause(ctx, followEvery); err != nil {
			return err
		}
	}
}

// further reads the requests after one, the latest last: without one those of one page, else of all pages.
func further(query url.Values, last int64, read func(url.Values) (requestPage, error)) (rows []requestRow, err error) {
	query = maps.Clone(query)
	for {
		page, err := read(query)
		if err != nil {
			return nil, err
		}
		for _, row := range page.Items {
			if row.ID > last {
				rows = append(rows, row)
			}
		}
		if last == 0 || page.Next == "" || page.Items[len(page.Items)-1].ID <= last {
			slices.Reverse(rows)
			return rows, nil
		}
		query.Set("after", page.Next)
	}
}

// show prints a request that is followed.
func show(f *cmdutil.Factory, row requestRow) error {
	if f.Format.Encoded() {
		if f.Format == table.YAML {
			fmt.Fprintln(f.Out, "---")
		}
		return table.Encode(f.Out, f.Format, row)
	}
	fmt.Fprintln(f.Out, table.Line(row.Line()))
	return nil
}
