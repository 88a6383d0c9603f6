package show

import (
	"context"
	"slices"
	"strings"
	"time"

	"github.com/escher-sched/escher/api/document"
	"github.com/escher-sched/escher/cmd/escher/internal/cli/cmdutil"
	"github.com/escher-sched/escher/types"
)

// inside lists tasks by the socket of the task in which the command runs: it tells neither what the tasks
// wait for, nor their ports.
func (p *psFlags) inside(ctx context.Context, f *cmdutil.Factory, names []string) error {
	tasks, err := insideList[document.Task](ctx, f, "tasks")
	if err != nil {
		return err
	}
	var ids, jobs []string
	for _, t := range tasks {
		ids = append(ids, t.ID)
		if t.Job != "" {
			jobs = append(jobs, t.Job)
		}
	}
	if p.job != "" {
		of, err := meant("job", []string{p.job}, jobs)
		switch {
		case err != nil:
			return err
		case len(of) > 1:
			return types.Errorf(types.Invalid, "job: %q is ambiguous: write more of the name of one of %s", p.job, strings.Join(of, ", "))
		}
		p.job = of[0]
	}
	if p.named, err = meant("task or job", names, append(ids, jobs...)); err != nil {
		return err
	}
	now := time.Now()
	var rows []TaskRow
	for _, t := range tasks {
		if row := (TaskRow{Task: t, Age: since(t.Submitted, now)}); p.shown(row) {
			rows = append(rows, row)
		}
	}
	all := len(rows)
	rows = p.newest(rows)
	sortTasks(rows)
	return p.print(f, rows, all)
}

// jobsInside returns the rows of jobs by the socket of the task in which the command runs, and the ids that
// names mean.
func jobsInside(ctx context.Context, f *cmdutil.Factory, names []string) (rows []jobRow, named []string, err error) {
	jobs, err := insideList[document.Job](ctx, f, "jobs")
	var ids []string
	now := time.Now()
	for _, j := range jobs {
		rows, ids = append(rows, jobRow{j, since(j.Submitted, now)}), append(ids, j.ID)
	}
	if err == nil {
		named, err = meant("job", names, ids)
	}
	return rows, named, err
}

// insideList reads a list of the namespace by the socket of the task.
func insideList[T any](ctx context.Context, f *cmdutil.Factory, kind string) ([]T, error) {
	c, err := f.API(ctx)
	if err != nil {
		return nil, err
	}
	return cmdutil.Pages[T](ctx, c, f.Path(kind), nil)
}

// since returns the time since a moment; 0 without one.
func since(moment *time.Time, now time.Time) time.Duration {
	if moment == nil {
		return 0
	}
	return now.Sub(*moment)
}

// meant returns the ids that names mean: the name itself, or ids made of it, or else those that begin with
// it. NotFound: a name means none.
func meant(kind string, names, ids []string) (all []string, err error) {
	for _, name := range names {
		var found, others []string
		for _, id := range ids {
			switch {
			case id == name || strings.HasPrefix(id, name+"-"):
				found = append(found, id)
			case name != "" && strings.HasPrefix(id, name):
				others = append(others, id)
			}
		}
		if len(found) == 0 {
			found = others
		}
		if len(found) == 0 {
			return nil, types.Errorf(types.NotFound, "there is no %s %q: escher ps -a and escher jobs -a list tasks and jobs", kind, types.Cut(name, types.MaxName))
		}
		all = append(all, found...)
	}
	slices.Sort(all)
	return slices.Compact(all), nil
}
