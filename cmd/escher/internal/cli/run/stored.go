package run

import (
	"container/heap"
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"

	"github.com/escher-sched/escher/cmd/escher/internal/cli/cmdutil"
	"github.com/escher-sched/escher/controlplane"
	"github.com/escher-sched/escher/nodeagent/output/tasklog"
	"github.com/escher-sched/escher/nodeagent/serve/nodeapi"
	"github.com/escher-sched/escher/types"
)

const (
	// linesAhead is the most lines of a task that wait for earlier ones of other tasks.
	linesAhead = 16
	// maxListed is the most tasks that an error names.
	maxListed = 5
)

// viewer shows the output of tasks on one console.
type viewer struct {
	f       *cmdutil.Factory
	client  *controlplane.Client
	console *cmdutil.Console
	flags   logFlags
	// reading is called once output is read from a fixed place, and again each time.
	reading func()

	mu   sync.Mutex
	told map[string]bool
}

func newViewer(f *cmdutil.Factory, client *controlplane.Client, many bool, flags logFlags) *viewer {
	v := &viewer{f: f, client: client, console: cmdutil.NewConsole(f, many), flags: flags, reading: func() {}, told: make(map[string]bool)}
	v.console.Timestamps = flags.timestamps
	v.console.Prefix = many && !flags.noPrefix
	return v
}

// record is the output of a task, shown so far.
type record struct {
	id  string
	out *cmdutil.TaskOutput
	// shown is the last attempt that is shown completely, log the attempt that is shown in part; nil
	// if there is none.
	shown int
	log   *nodeapi.Log
}

func (v *viewer) record(id string) *record { return &record{id: id, out: v.console.Of(id)} }

func (v *viewer) records(ids []string) []*record {
	all := make([]*record, len(ids))
	for i, id := range ids {
		all[i] = v.record(id)
	}
	return all
}

// log returns an attempt of which nothing is shown.
func (v *viewer) log(id string, attempt, tail int) *nodeapi.Log {
	return &nodeapi.Log{Namespace: v.client.Namespace(), Task: id, Attempt: attempt, Tail: tail, Selection: v.flags.Selection}
}

// unwritable is an error of the output of this program.
type unwritable struct{ error }

func (u unwritable) Unwrap() error { return u.error }

// read shows the unread output of an attempt.
func (v *viewer) read(ctx context.Context, log *nodeapi.Log, node string, out *cmdutil.TaskOutput, follow bool) error {
	marked := v.flags.timestamps || !log.All()
	return v.f.OnNode(ctx, node, func(c *nodeapi.Client) error {
		var answer nodeapi.Answer
		return log.Read(ctx, c, follow, nodeapi.Sink{
			Begin: func(a nodeapi.Answer) {
				v.reading()
				if answer = a; a.Gap {
					v.console.Say("some of the output of %s is lost: node %s keeps only the end of a long log", log.Task, node)
				}
				if a.Plain && marked {
					v.tellOnce(node, "node %s runs an agent of an older version, which tells neither times nor streams: its output is shown without times, and counts as standard output", node)
				}
			},
			Each: func(p tasklog.Piece) error {
				if p.Stream == tasklog.Unknown && marked && !answer.Plain {
					v.tellOnce(log.Task, "some of the output of %s has neither times nor a stream, as an older version wrote it: it counts as standard output", log.Task)
				}
				if !log.Has(p) {
					return nil
				}
				if err := out.Write(p); err != nil {
					return unwritable{err}
				}
				return nil
			},
		})
	})
}

// tellOnce prints a line on the error output, once for each key.
func (v *viewer) tellOnce(key, format string, args ...any) {
	v.mu.Lock()
	defer v.mu.Unlock()
	if !v.told[key] {
		v.told[key] = true
		v.console.Say(format, args...)
	}
}

// lost are the tasks of which some output is not shown, and why.
type lost struct {
	mu    sync.Mutex
	tasks []string
	errs  []error
}

func (l *lost) add(id string, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.tasks, l.errs = append(l.tasks, id), append(l.errs, err)
}

// missing returns the error for lost output of what is shown; nil if nothing is lost.
func (l *lost) missing(what string) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.tasks) == 0 {
		return nil
	}
	listed := strings.Join(l.tasks[:min(maxListed, len(l.tasks))], ", ")
	if len(l.tasks) > maxListed {
		listed += ", …"
	}
	return types.Errorf(types.ClassOf(l.errs[0]), "show what %s wrote: output of %d tasks is missing: %s", what, len(l.tasks), listed)
}

// showStored shows the output of tasks so far, in order of time.
func (v *viewer) showStored(ctx context.Context, records []*record, what string) error {
	if len(records) == 1 {
		r := records[0]
		return errors.Join(v.showTask(ctx, r, true, func(text string) { v.console.Say("%s", text) }), r.out.End())
	}
	var missing lost
	err := v.merge(ctx, records, func(r *record, err error) {
		v.console.Say("output of %s is missing: %v", r.id, err)
		missing.add(r.id, err)
	})
	if err != nil {
		return err
	}
	return missing.missing(what)
}

// merge shows the complete lines of the stored output of tasks, in order of time, and calls failed
// for tasks of which some is missing. Of more than streamsAtOnce tasks, groups of this size are in
// order.
func (v *viewer) merge(ctx context.Context, records []*record, failed func(*record, error)) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	if len(records) > streamsAtOnce {
		v.console.Say("%d tasks are too many to put in order of time: they come in groups of %d", len(records), streamsAtOnce)
	}
	for len(records) > 0 {
		n := min(streamsAtOnce, len(records))
		if err := v.mergeGroup(ctx, records[:n], failed); err != nil {
			return err
		}
		records = records[n:]
	}
	return nil
}

// item is a line of a task, or text about it.
type item struct {
	line  cmdutil.Line
	about string
}

// feed is the stored output of a task, as a heap of feeds has it: its first line is the next.
type feed struct {
	*record
	order int
	next  item
	items chan item
	err   error // once items is closed
}

// advance gets the next line; false if there is none. A line without a time comes with the one
// before it.
func (d *feed) advance() bool {
	before := d.next.line.At
	next, ok := <-d.items
	if d.next = next; next.line.At.Before(before) {
		d.next.line.At = before
	}
	return ok
}

func (v *viewer) mergeGroup(ctx context.Context, records []*record, failed func(*record, error)) error {
	ctx, cancel := context.WithCancel(ctx)
	var running sync.WaitGroup
	defer running.Wait()
	defer cancel()
	feeds := make(feeds, 0, len(records))
	all := make([]*feed, 0, len(records))
	for i, r := range records {
		d := &feed{record: r, order: i, items: make(chan item, linesAhead)}
		all = append(all, d)
		running.Go(func() {
			defer close(d.items)
			d.err = v.feed(ctx, d)
		})
	}
	for _, d := range all {
		if d.advance() {
			feeds = append(feeds, d)
		} else if d.err != nil {
			failed(d.record, d.err)
		}
	}
	heap.Init(&feeds)
	for len(feeds) > 0 {
		d := feeds[0]
		if err := v.print(d); err != nil {
			return err
		}
		if d.advance() {
			heap.Fix(&feeds, 0)
			continue
		}
		heap.Pop(&feeds)
		if d.err != nil {
			failed(d.record, d.err)
		}
	}
	return ctx.Err()
}

// feed sends the lines of a task.
func (v *viewer) feed(ctx context.Context, d *feed) error {
	send := func(i item) error {
		select {
		case d.items <- i:
			return nil
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	d.out.Take = func(l cmdutil.Line) error { return send(item{line: l}) }
	defer func() { d.out.Take = nil }()
	if err := v.showTask(ctx, d.record, false, func(text string) { _ = send(item{about: text}) }); err != nil || v.flags.follow {
		return err // The last line may go on.
	}
	return d.out.End()
}

// print prints the next line of a feed.
func (v *viewer) print(d *feed) error {
	if d.next.about != "" {
		v.console.Say("%s", d.next.about)
		return nil
	}
	return v.console.Print(d.out, &d.next.line)
}

// feeds is a heap by the time of the next lines.
type feeds []*feed

func (h feeds) Len() int      { return len(h) }
func (h feeds) Swap(i, j int) { h[i], h[j] = h[j], h[i] }
func (h feeds) Less(i, j int) bool {
	if c := h[i].next.line.At.Compare(h[j].next.line.At); c != 0 {
		return c < 0
	}
	return h[i].order < h[j].order
}
func (h *feeds) Push(d any) { *h = append(*h, d.(*feed)) }
func (h *feeds) Pop() any {
	last := len(*h) - 1
	d := (*h)[last]
	*h = (*h)[:last]
	return d
}

// showTask shows the output of a task so far, and calls about with text about it. With single, it is
// an error if there is none.
func (v *viewer) showTask(ctx context.Context, r *record, single bool, about func(string)) error {
	t, err := v.client.Status(ctx, r.id)
	if err != nil {
		return err
	}
	first, last, err := v.flags.attempts(&t)
	if err != nil {
		if single {
			return err
		}
		return nil // Others of the job have begun.
	}
	nodes, away := map[int]string{t.Attempt(): t.Status.Node}, []string(nil)
	if first < t.Attempt() {
		if nodes, away, err = v.f.WhereLogged(ctx, v.client.Namespace(), r.id); err != nil {
			return err
		}
	}
	shown, failed := 0, error(nil)
	for n := first; n <= last; n++ {
		r.shown, r.log = n-1, v.log(r.id, n, v.flags.tail)
		if nodes[n] == "" {
			continue
		}
		if t.Attempt() > 1 && first < last {
			about(fmt.Sprintf("attempt %d of %s, on %s", n, r.id, nodes[n]))
		}
		err := v.read(ctx, r.log, nodes[n], r.out, v.flags.follow && single)
		_, ours := errors.AsType[unwritable](err)
		switch {
		case err == nil:
			shown++
			if n == t.Attempt() {
				break
			}
			if err := r.out.Flush(); err != nil {
				return err
			}
		case ours || ctx.Err() != nil:
			return err
		case !types.Is(err, types.NotFound) || single && first == last:
			failed = err
		}
	}
	if count := last - first + 1; failed == nil && len(away) > 0 && shown < count {
		failed = types.Errorf(types.Unavailable, "show what task %s wrote: %d of %d attempts have no output here, and these nodes do not answer: %s", r.id, count-shown, count, strings.Join(away, ", "))
	}
	if shown == 0 && single && (failed == nil || types.Is(failed, types.NotFound)) {
		why := "no node has any of it"
		if failed != nil {
			why = failed.Error()
		}
		failed = types.Errorf(types.NotFound, "show what task %s wrote: %s; %s: escher describe %s shows what became of it", r.id, why, state(&t), r.id)
	}
	return failed
}
