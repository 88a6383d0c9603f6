package accounting

import (
	"cmp"
	"context"
	"database/sql"
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/escher-sched/escher/types"
	"github.com/escher-sched/escher/types/labels"
)

// Filter selects records. Its zero value selects all.
type Filter struct {
	// Namespace, User and Job select by equal values; empty selects all. Job is an id or, if no
	// job has it, a name.
	Namespace, User, Job string
	// Selector selects by labels; its zero value selects all.
	Selector labels.Selector
	// Phases are those of tasks; none selects all.
	Phases []types.Phase
	// Since and Until select what ended after Since and not after Until, in Unix nanoseconds; an Until of
	// 0 means no bound.
	Since, Until int64
}

// Spent adds up what attempts held over their times, from bind to end. CPUUsed is what they used from
// start to end, as far as it was measured.
type Spent struct{ CPUSeconds, MemoryByteSeconds, GPUSeconds, CPUUsedSeconds float64 }

func (s *Spent) add(o Spent) {
	s.CPUSeconds += o.CPUSeconds
	s.MemoryByteSeconds += o.MemoryByteSeconds
	s.GPUSeconds += o.GPUSeconds
	s.CPUUsedSeconds += o.CPUUsedSeconds
}

// spentColumns are the columns of Spent.
const spentColumns = "total(cpu_seconds), total(memory_seconds), total(gpu_seconds), total(used_seconds)"

func (s *Spent) columns() []any {
	return []any{&s.CPUSeconds, &s.MemoryByteSeconds, &s.GPUSeconds, &s.CPUUsedSeconds}
}

// Page is a part of a history.
type Page struct {
	// Tasks are sorted by their end, the latest first.
	Tasks []Task
	// Next, unless empty, is After of the next page.
	Next string
	// Complete is the time since which the history lacks nothing, in Unix nanoseconds.
	Complete int64
}

// owner is a namespace, user and labels.
type owner struct {
	namespace, user string
	labels          map[string]string
}

// db returns the open file. Unavailable: it is not open.
func (r *Recorder) db() (*sql.DB, error) {
	if r != nil {
		if db := r.questions.Load(); db != nil {
			return db, nil
		}
	}
	return nil, types.Errorf(types.Unavailable, "read the history: this server keeps none, or opens it: look at its configuration and its log")
}

// complete returns the time since which nothing is missing.
func complete(ctx context.Context, db *sql.DB) (at int64, err error) {
	err = db.QueryRowContext(ctx, "SELECT coalesce(max(ends), 0) FROM gaps").Scan(&at)
	return at, err
}

// owners returns those that a filter selects, and a condition with its argument for their records.
func (f *Filter) owners(ctx context.Context, db *sql.DB) (all map[int64]owner, condition string, argument string, err error) {
	rows, err := db.QueryContext(ctx, "SELECT id, namespace, user, labels FROM owners WHERE (?1 = '' OR namespace = ?1) AND (?2 = '' OR user = ?2)", f.Namespace, f.User)
	if err != nil {
		return nil, "", "", err
	}
	defer rows.Close()
	all = make(map[int64]owner)
	for rows.Next() {
		var id int64
		var o owner
		var text string
		if err := rows.Scan(&id, &o.namespace, &o.user, &text); err != nil {
			return nil, "", "", err
		}
		if err := json.Unmarshal([]byte(text), &o.labels); err != nil {
			return nil, "", "", err
		}
		if f.Selector.Matches(types.LabelsOf(o.labels)) {
			all[id] = o
		}
	}
	if f.Namespace == "" && f.User == "" && f.Selector.IsZero() {
		return all, "?3 = ''", "", rows.Err()
	}
	ids, err := json.Marshal(slices.Sorted(maps.Keys(all)))
	if err == nil {
		err = rows.Err()
	}
	return all, "owner IN (SELECT value FROM json_each(?3))", string(ids), err
}

func (f *Filter) until() int64 {
	if f.Until == 0 {
		return math.MaxInt64
	}
	return f.Until
}

// History returns at most limit of the selected tasks; after is Page.Next of the page before, or
// empty. Invalid: after is none. Unavailable: the file is not open.
func (r *Recorder) History(ctx context.Context, f Filter, limit int, after string) (Page, error) {
	db, err := r.db()
	if err != nil {
		return Page{}, err
	}
	ended, row := int64(math.MaxInt64), int64(math.MaxInt64)
	if after != "" {
		if _, err := fmt.Sscanf(after, "%d.%d", &ended, &row); err != nil {
			return Page{}, types.Errorf(types.Invalid, "after: %q is not the next of a page: leave it out to begin", types.Cut(after, 50))
		}
	}
	out := Page{Tasks: []Task{}}
	if out.Complete, err = complete(ctx, db); err != nil {
		return out, failed(err)
	}
	owners, condition, ids, err := f.owners(ctx, db)
	if err != nil {
		return out, failed(err)
	}
	args := []any{f.Since, f.until(), ids, ended, row, limit + 1}
	many, job, err := f.plan(ctx, db, condition, ids)
	if err != nil {
		return out, failed(err)
	}
	if many {
		condition = strings.Replace(condition, "owner", "+owner", 1)
	}
	if job != "" {
		condition += " AND " + job + " = ?7"
		args = append(args, f.Job)
	}
	switch phases := phases(f.Phases); {
	case len(phases) == 1: // the index has them in order
		condition += " AND phase = '" + phases[0] + "'"
	case len(f.Phases) > 0: // and not several: the plus keeps it from being used
		condition += " AND +phase IN ('" + strings.Join(phases, "','") + "')"
	}
	rows, err := db.QueryContext(ctx, `SELECT rowid, owner, id, name, job, job_name, phase, exit_code, cause, reason, node, attempts, submitted, bound, started, ended,
		waited, cpu, memory, gpu, used_cpu, used_memory, estimated, revision FROM tasks
		WHERE ended > ?1 AND ended <= ?2 AND (ended, rowid) < (?4, ?5) AND `+condition+` ORDER BY ended DESC, rowid DESC LIMIT ?6`, args...)
	if err != nil {
		return out, failed(err)
	}
	defer rows.Close()
	for rows.Next() {
		var t Task
		var of, at int64
		err := rows.Scan(&at, &of, &t.ID, &t.Name, &t.Job, &t.JobName, &t.Phase, &t.ExitCode, &t.Cause, &t.Reason, &t.Node, &t.Attempts, &t.Submitted,
			&t.Bound, &t.Started, &t.Ended, &t.Waited, &t.CPU, &t.Memory, &t.GPU, &t.Used.CPU, &t.Used.Memory, &t.Estimated, &t.Revision)
		if err != nil {
			return out, failed(err)
		}
		if len(out.Tasks) == limit {
			out.Next = fmt.Sprintf("%d.%d", ended, row)
			break
		}
		ended, row = t.Ended, at
		t.Namespace, t.User, t.Labels = owners[of].namespace, owners[of].user, types.LabelsOf(owners[of].labels)
		out.Tasks = append(out.Tasks, t)
	}
	if err := rows.Err(); err != nil {
		return out, failed(err)
	}
	rows.Close()
	return out, failed(spent(ctx, db, out.Tasks))
}

// manyTasks is from how many tasks of the selected owners on the history is read in the order of ends,
// and not by owners, whose tasks would have to be sorted.
const manyTasks = 50_000

// plan returns how to read the history fast: whether the owners have many tasks, and the column that has
// the job.
func (f *Filter) plan(ctx context.Context, db *sql.DB, condition, ids string) (many bool, job string, err error) {
	if ids != "" {
		query := "SELECT count(*) > ?1 FROM (SELECT 1 FROM tasks WHERE ended > ?2 AND " + condition + " LIMIT ?1 + 1)"
		if err := db.QueryRowContext(ctx, query, manyTasks, f.Since, ids).Scan(&many); err != nil {
			return false, "", err
		}
	}
	if f.Job != "" {
		query := "SELECT iif(EXISTS (SELECT 1 FROM tasks WHERE job = ?), 'job', 'job_name')"
		err = db.QueryRowContext(ctx, query, f.Job).Scan(&job)
	}
	return many, job, err
}

// spent reads what tasks have spent.
func spent(ctx context.Context, db *sql.DB, tasks []Task) error {
	query, err := db.PrepareContext(ctx, "SELECT "+spentColumns+" FROM attempts WHERE namespace = ? AND id = ?")
	if err != nil {
		return err
	}
	defer query.Close()
	for i := range tasks {
		t := &tasks[i]
		if err := query.QueryRowContext(ctx, t.Namespace, t.ID).Scan(t.Spent.columns()...); err != nil {
			return err
		}
	}
	return nil
}

// phases returns the known ones of some phases, as text.
func phases(of []types.Phase) (out []string) {
	for _, p := range types.Phases() {
		if slices.Contains(of, p) {
			out = append(out, string(p))
		}
	}
	return out
}

// failed returns the error of a question: Unavailable, because the file may be busy or be repaired.
func failed(err error) error {
	if err == nil {
		return nil
	}
	return types.Errorf(types.Unavailable, "read the history: %w", err)
}

// By is what usage is summed up by: a namespace, a user, or the value of a label.
type By string

// The kinds of By. A label is ByLabel with its name: label=team.
const (
	ByNamespace By = "namespace"
	ByUser      By = "user"
	ByLabel        = "label="
)

// ParseBy parses namespace, user and label=NAME. Invalid: it is another text.
func ParseBy(text string) (By, error) {
	name, label := strings.CutPrefix(text, ByLabel)
	if label {
		return By(text), types.ValidateLabelKey("by", name)
	}
	if b := By(text); b == ByNamespace || b == ByUser {
		return b, nil
	}
	return "", types.Errorf(types.Invalid, "by: %q is unknown: use namespace, user or label=NAME", types.Cut(text, 50))
}

// of returns the value of an owner; empty if it has none.
func (b By) of(o owner) string {
	switch name, label := strings.CutPrefix(string(b), ByLabel); {
	case label:
		return o.labels[name]
	case b == ByUser:
		return o.user
	}
	return o.namespace
}

// Usage is what one group of owners has spent.
type Usage struct {
	// Of are the values by which it is summed up, in the order of the question.
	Of []string
	// Tasks and Attempts count those that ended in the time asked for, and Failed the tasks that failed.
	Tasks, Failed, Attempts int
	Spent
	// WaitedSeconds adds up how long these tasks waited.
	WaitedSeconds float64
}

// Usage sums up ended attempts, and tasks that ended, within a time. It ignores Job and Phases of the
// filter. complete is that of Page. Unavailable: the file is not open.
func (r *Recorder) Usage(ctx context.Context, f Filter, by []By) (sums []Usage, since int64, err error) {
	db, err := r.db()
	if err != nil {
		return nil, 0, err
	}
	if since, err = complete(ctx, db); err != nil {
		return nil, 0, failed(err)
	}
	owners, condition, ids, err := f.owners(ctx, db)
	if err != nil {
		return nil, 0, failed(err)
	}
	groups := make(map[string]*Usage)
	for _, part := range f.parts() {
		for _, from := range part.tables {
			query := "SELECT owner, " + from + " AND " + condition + " GROUP BY owner"
			if err := addUsage(ctx, db, query, []any{part.after, part.until, ids}, owners, by, groups); err != nil {
				return nil, 0, failed(err)
			}
		}
	}
	for _, u := range groups {
		sums = append(sums, *u)
	}
	slices.SortFunc(sums, func(a, b Usage) int {
		return cmp.Or(cmp.Compare(b.GPUSeconds, a.GPUSeconds), cmp.Compare(b.CPUSeconds, a.CPUSeconds), slices.Compare(a.Of, b.Of))
	})
	return sums, since, nil
}

// hour is the time of a row of sums, in nanoseconds.
const hour = int64(time.Hour)

// part is a part of the time of a question: what ended after a time and until another, each a parameter,
// and the tables that have it.
type part struct {
	after, until int64
	tables       []string
}

// parts divides the time into whole hours, which are summed up already, and the rest.
func (f *Filter) parts() []part {
	rest := []string{
		"0, 0, count(*), 0.0, " + spentColumns + " FROM attempts INDEXED BY attempts_ended WHERE ended > ?1 AND ended <= ?2",
		"count(*), count(*) FILTER (WHERE phase = 'failed'), 0, total(waited) / 1e9, 0.0, 0.0, 0.0, 0.0 FROM tasks INDEXED BY tasks_ended WHERE ended > ?1 AND ended <= ?2",
	}
	first, beyond := f.Since/hour+1, f.until()/hour
	if f.Since <= 0 {
		first = 0
	}
	if first >= beyond {
		return []part{{f.Since, f.until(), rest}}
	}
	hours := "sum(tasks), sum(failed), sum(attempts), total(waited_seconds), " + spentColumns + " FROM sums WHERE hour >= ?1 AND hour < ?2"
	return []part{{f.Since, first*hour - 1, rest}, {first, beyond, []string{hours}}, {beyond*hour - 1, f.until(), rest}}
}

// addUsage adds the rows of a query, one for each owner, to the groups of their owners.
func addUsage(ctx context.Context, db *sql.DB, query string, args []any, owners map[int64]owner, by []By, groups map[string]*Usage) error {
	rows, err := db.QueryContext(ctx, query, args...)
	if err != nil {
		return err
	}
	defer rows.Close()
	for rows.Next() {
		var of int64
		var u Usage
		if err := rows.Scan(append([]any{&of, &u.Tasks, &u.Failed, &u.Attempts, &u.WaitedSeconds}, u.columns()...)...); err != nil {
			return err
		}
		for _, b := range by {
			u.Of = append(u.Of, b.of(owners[of]))
		}
		key := strings.Join(u.Of, "\x00")
		sum := groups[key]
		if sum == nil {
			groups[key] = &u
			continue
		}
		sum.Tasks, sum.Failed, sum.Attempts = sum.Tasks+u.Tasks, sum.Failed+u.Failed, sum.Attempts+u.Attempts
		sum.WaitedSeconds += u.WaitedSeconds
		sum.add(u.Spent)
	}
	return rows.Err()
}
