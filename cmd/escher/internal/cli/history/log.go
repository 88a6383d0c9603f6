package history

import (
	"cmp"
	"net/url"
	"strconv"
	"time"

	"github.com/spf13/cobra"

	"github.com/escher-sched/escher/cmd/escher/internal/cli/cmdutil"
	"github.com/escher-sched/escher/cmd/escher/internal/table"
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
	return []string{r.At.UTC().Format("2006-01-02T15:04:05.000Z"), cmp.Or(r.User, "unknown"), r.Token, r.Operation, r.Namespace, object, revision, r.Refused}
}

const logHelp = `Lists requests that changed something or were refused, the latest first, as a server has
recorded them: who did what, and at which revision. Of the whole cluster, or with -n of a
namespace. It needs the right "read audit". Other servers have records of their own.

  escher log --since 1h
  escher log -n lab --user alice
  escher log --refused
  escher log --since 720h --limit 10000 -o json`

// NewLog returns the command that lists requests.
func NewLog(f *cmdutil.Factory) *cobra.Command {
	var since, until, user string
	var refused bool
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
			var page struct {
				Items []requestRow
				Next  string
			}
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
	return cmd
}
