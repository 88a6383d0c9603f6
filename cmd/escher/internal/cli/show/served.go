package show

import (
	"context"
	"fmt"
	"io"
	"net/url"
	"time"

	"github.com/escher-sched/escher/api/document"
	"github.com/escher-sched/escher/api/reasons"
	"github.com/escher-sched/escher/cmd/escher/internal/cli/cmdutil"
	"github.com/escher-sched/escher/cmd/escher/internal/howto"
	"github.com/escher-sched/escher/cmd/escher/internal/table"
	"github.com/escher-sched/escher/types"
)

// served lists the tasks once, by the HTTP API. names are ids of tasks and jobs.
func (p *psFlags) served(ctx context.Context, f *cmdutil.Factory, names []string) error {
	if p.watch {
		return f.OnlyDirectly("watch")
	}
	c, err := f.API(ctx)
	if err != nil {
		return err
	}
	p.named = names
	query := url.Values{}
	if p.job != "" {
		query.Set("job", p.job)
	}
	if !p.all && len(names) == 0 {
		query.Set("phase", "pending,bound,running")
	}
	tasks, err := cmdutil.Pages[document.Task](ctx, c, f.Path("tasks"), query)
	if err != nil {
		return err
	}
	now := time.Now()
	var rows []TaskRow
	for _, t := range tasks {
		row := TaskRow{Task: t}
		if t.Submitted != nil {
			row.Age = now.Sub(*t.Submitted)
		}
		if p.shown(row) {
			rows = append(rows, row)
		}
	}
	all := len(rows)
	rows = p.newest(rows)
	sortTasks(rows)
	if more := all - len(rows); more > 0 {
		f.Tell("these are the newest %d; %d more: --limit 0 lists all", len(rows), more)
	}
	return cmdutil.Print(f, rows)
}

// whyServed explains the state of an object, by the HTTP API: a reservation, task, job or node.
func whyServed(ctx context.Context, f *cmdutil.Factory, args []string) error {
	if len(args) != 1 {
		return f.OnlyDirectly("selector")
	}
	c, err := f.API(ctx)
	if err != nil {
		return err
	}
	name := url.PathEscape(args[0])
	var e reasons.Explained
	for _, path := range []string{f.Path("reservations") + "/" + name, f.Path("tasks") + "/" + name, f.Path("jobs") + "/" + name, "/v1/nodes/" + name} {
		if err = c.Get(ctx, path+"/why", nil, &e); !types.Is(err, types.NotFound) {
			break
		}
	}
	if types.Is(err, types.NotFound) {
		err = types.Errorf(types.NotFound, "there is no reservation, task, job or node %q in namespace %s: escher ps -a lists tasks", types.Cut(args[0], types.MaxName), f.Namespace())
	}
	if err != nil {
		return err
	}
	return f.Show(e, e.ID, func(w io.Writer) error {
		for _, line := range e.Sentences(f.Format == table.Wide, howto.Say) {
			fmt.Fprintln(w, table.Line(line))
		}
		return nil
	})
}
