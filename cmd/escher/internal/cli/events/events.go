// Package events holds the command that prints the history of objects.
package events

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/sync/errgroup"

	"github.com/escher-sched/escher/cmd/escher/internal/cli/cmdutil"
	"github.com/escher-sched/escher/cmd/escher/internal/table"
	"github.com/escher-sched/escher/controlplane"
	"github.com/escher-sched/escher/controlplane/supervise"
	"github.com/escher-sched/escher/nodeagent/serve/nodeapi"
	"github.com/escher-sched/escher/types"
)

const eventsHelp = `Lists the events of tasks, nodes, resources and reservations. The store keeps about a
minute of its history; of the time before, it knows only the steps of tasks. A time with
~ is an estimate, from the event next to it.

For one task it also lists the steps on its nodes: such as pulled and started. With -f it
follows new events until interrupted, or until that task has ended.

  escher events --since 10m
  escher events -f -l team=vision    of tasks and jobs with this label
  escher events -f web`

// eventFlags say which events to list.
type eventFlags struct {
	follow bool
	since  time.Duration
	labels cmdutil.Selection
}

// NewEvents returns the command that lists events.
func NewEvents(f *cmdutil.Factory) *cobra.Command {
	var flags eventFlags
	cmd := &cobra.Command{
		Use:   "events [TASK|JOB|-l LABELS]",
		Short: "List events, and with -f follow new ones",
		Long:  eventsHelp,
		Args:  cobra.ArbitraryArgs,
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := flags.labels.Args(cobra.ArbitraryArgs)(cmd, args); err != nil {
				return err
			}
			if len(args) > 1 {
				return types.Errorf(types.Invalid, "argument: %q is one too many: %s", args[1], cmdutil.Usage(cmd))
			}
			if flags.since < 0 {
				return types.Errorf(types.Invalid, "since: %s is negative: write how long ago, such as 10m", flags.since)
			}
			return flags.run(cmd.Context(), f, args)
		},
	}
	flags.labels.AddSelector(cmd, cmdutil.TaskLabels, "only those of tasks and jobs")
	cmd.Flags().BoolVarP(&flags.follow, "follow", "f", false, "follow new events")
	cmd.Flags().DurationVar(&flags.since, "since", time.Hour, "age of the oldest event to list; 0 means all")
	return cmd
}

func (e *eventFlags) run(ctx context.Context, f *cmdutil.Factory, args []string) error {
	client, err := f.Client(ctx)
	if err != nil {
		return err
	}
	l := &eventList{f: f, client: client, since: time.Now().Add(-e.since)}
	if e.since == 0 {
		l.since = time.Time{}
	}
	if len(args) == 1 {
		if err := l.only(ctx, args[0]); err != nil {
			return err
		}
	}
	h, err := readHistory(ctx, client, &e.labels)
	if err != nil {
		return err
	}
	l.selected = h.reader.selected
	rows := l.pick(h.rows)
	if l.single != "" {
		rows = append(rows, l.ofNodes(ctx)...)
	}
	slices.SortStableFunc(rows, func(a, b eventRow) int { return a.Time.Compare(b.Time) })
	if !e.follow {
		if len(rows) == 0 && l.selected != nil {
			e.labels.TellNone(f, "event of a task")
		}
		return cmdutil.Print(f, rows)
	}
	ctx, stop := f.WhileWritable(ctx)
	defer stop()
	for _, r := range rows {
		if err := l.Show(r); err != nil {
			return err
		}
	}
	return l.follow(ctx, h)
}

// lastSteps is how long the node of an ended task may take to report its steps.
const lastSteps = 2 * time.Second

// eventList is a list of events.
type eventList struct {
	f      *cmdutil.Factory
	client *controlplane.Client
	since  time.Time
	// ids are the tasks, and job the job, to list; empty means all. single is the task, if it is
	// one.
	ids    map[string]bool
	job    string
	single string
	// selected are the objects that a selector selects; nil without one.
	selected map[object]bool

	mu sync.Mutex
	// seen is how many events of each attempt of the single task were shown.
	seen map[int]int
}

// only limits the list to a task, or a job with its tasks.
func (l *eventList) only(ctx context.Context, name string) error {
	found, err := cmdutil.Find(ctx, l.client, name, controlplane.Tasks, controlplane.Jobs)
	if err != nil {
		return err
	}
	l.ids, l.seen = make(map[string]bool), make(map[int]int)
	if found.Kind == controlplane.Tasks {
		l.ids[found.ID], l.single = true, found.ID
		return nil
	}
	l.job = found.ID
	tasks, err := cmdutil.TasksOf(ctx, l.client, []cmdutil.Named{found})
	for _, t := range tasks {
		l.ids[t.ID] = true
	}
	return err
}

// wanted reports whether an event is listed.
func (l *eventList) wanted(r eventRow) bool {
	if !r.Time.IsZero() && r.Time.Before(l.since) {
		return false
	}
	if l.selected != nil {
		return l.selected[object{r.Kind, r.ID}]
	}
	if l.ids == nil {
		return true
	}
	return r.Kind == "task" && l.ids[r.ID] || r.Kind == "job" && r.ID == l.job
}

func (l *eventList) pick(rows []eventRow) []eventRow {
	return slices.DeleteFunc(rows, func(r eventRow) bool { return !l.wanted(r) })
}

// Show prints an event that is followed.
func (l *eventList) Show(r eventRow) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.f.Format.Encoded() {
		if l.f.Format == table.YAML {
			fmt.Fprintln(l.f.Out, "---")
		}
		return table.Encode(l.f.Out, l.f.Format, r)
	}
	fmt.Fprintln(l.f.Out, table.Line(r.Line()))
	return nil
}

// ofNodes returns the events of the single task that nodes remember. It prints which nodes do not
// answer.
func (l *eventList) ofNodes(ctx context.Context) []eventRow {
	t, err := l.client.Status(ctx, l.single)
	if err != nil || t.Attempt() == 0 {
		return nil
	}
	nodes := map[int]string{t.Attempt(): t.Status.Node}
	if t.Attempt() > 1 {
		if logged, _, err := l.f.WhereLogged(ctx, l.client.Namespace(), l.single); err == nil {
			for n, node := range logged {
				nodes[n] = node
			}
		}
	}
	var rows []eventRow
	for attempt, node := range nodes {
		err := l.stepsOn(ctx, node, attempt, false, func(r eventRow) error {
			if l.wanted(r) {
				rows = append(rows, r)
			}
			return nil
		})
		if err != nil && !types.Is(err, types.NotFound) {
			l.f.Tell("what node %s did is not listed: %v", node, err)
		}
	}
	return rows
}

// stepsOn calls each with the new events of an attempt of the single task on a node.
func (l *eventList) stepsOn(ctx context.Context, node string, attempt int, follow bool, each func(eventRow) error) error {
	l.mu.Lock()
	after := l.seen[attempt]
	l.mu.Unlock()
	return l.f.OnNode(ctx, node, func(c *nodeapi.Client) error {
		return c.Events(ctx, l.client.Namespace(), l.single, attempt, after, follow, func(e nodeapi.Event) error {
			l.mu.Lock()
			l.seen[attempt] = e.Seq
			l.mu.Unlock()
			text := fmt.Sprintf("on %s: %s", node, e.Step)
			if e.Text != "" {
				text += ": " + e.Text
			}
			return each(eventRow{Time: e.At, Kind: "task", ID: l.single, Node: node, Event: text})
		})
	})
}

// follow shows the events after a history.
func (l *eventList) follow(ctx context.Context, h *history) error {
	group, ctx := errgroup.WithContext(ctx)
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	following := make(map[int]bool)
	over := false
	group.Go(func() error {
		watch, stopWatching := context.WithCancel(ctx)
		defer stopWatching()
		opts := controlplane.ListWatchOptions{Prefix: controlplane.Root, Skip: skipUntold(l.client.Namespace())}
		err := controlplane.ListWatch(watch, l.client.Store(), opts, func(u controlplane.Update) error {
			ended, err := l.take(h, u)
			if err != nil {
				return err
			}
			for attempt, node := range l.attempts(h) {
				if !following[attempt] {
					following[attempt] = true
					group.Go(func() error { l.followNode(ctx, node, attempt); return nil })
				}
			}
			if ended && !over {
				over = true
				stopWatching()
				// Its node reports the end a little later.
				time.AfterFunc(lastSteps, stop)
			}
			return nil
		})
		if over {
			return nil
		}
		return err
	})
	return group.Wait()
}

// skipUntold reports keys without events.
func skipUntold(ns string) func(string) bool {
	return func(key string) bool {
		k, ok := controlplane.Parse(key)
		if !ok || k.Namespace != "" && k.Namespace != ns {
			return true
		}
		switch k.Kind {
		case controlplane.Specs, controlplane.Allocated, controlplane.Bindings, controlplane.Reports:
			return true
		}
		return false
	}
}

// take shows an update after the history. It reports whether the single task has ended.
func (l *eventList) take(h *history, u controlplane.Update) (ended bool, err error) {
	events := slices.Clone(u.Events)
	slices.SortStableFunc(events, func(a, b controlplane.Event) int { return int(a.ModRevision - b.ModRevision) })
	for _, e := range events {
		if e.ModRevision <= h.newest {
			continue
		}
		row, err := h.reader.read(e)
		if err != nil {
			return false, err
		}
		if row == nil {
			continue
		}
		if row.Time.IsZero() {
			row.Time = time.Now()
		}
		if l.wanted(*row) {
			if err := l.Show(*row); err != nil {
				return false, err
			}
		}
	}
	if l.single == "" {
		return false, nil
	}
	s, known := h.reader.statuses[l.single]
	return known && s.Phase.Ended(), nil
}

// attempts returns the node of the current attempt of the single task.
func (l *eventList) attempts(h *history) map[int]string {
	s, known := h.reader.statuses[l.single]
	if l.single == "" || !known || s.Attempt == 0 || s.Phase == types.Pending {
		return nil
	}
	return map[int]string{s.Attempt: s.Node}
}

// followNode shows the events of an attempt on its node. It asks again a node that does not answer,
// or does not know the attempt yet.
func (l *eventList) followNode(ctx context.Context, node string, attempt int) {
	retry := controlplane.RetryPolicy()
	for {
		err := l.stepsOn(ctx, node, attempt, true, l.Show)
		if err == nil || ctx.Err() != nil || !types.Is(err, types.NotFound) && !types.ClassOf(err).Retryable() {
			return
		}
		if supervise.Pause(ctx, retry.NextBackOff()) != nil {
			return
		}
	}
}
