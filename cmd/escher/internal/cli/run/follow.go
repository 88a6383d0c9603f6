package run

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"
	"golang.org/x/sync/semaphore"

	"github.com/escher-sched/escher/cmd/escher/internal/cli/cmdutil"
	"github.com/escher-sched/escher/cmd/escher/internal/cli/images"
	"github.com/escher-sched/escher/cmd/escher/internal/cli/render"
	"github.com/escher-sched/escher/controlplane"
	"github.com/escher-sched/escher/controlplane/supervise"
	"github.com/escher-sched/escher/nodeagent"
	"github.com/escher-sched/escher/nodeagent/serve/nodeapi"
	"github.com/escher-sched/escher/types"
)

const (
	// streamsAtOnce is the most logs to follow at once: if more tasks run at the same time, the
	// output of some comes later.
	streamsAtOnce = 500
	// lateTries is how often to ask a node that does not answer for the rest of an ended attempt.
	lateTries = 3
)

// attached shows the output of tasks until they have ended. If ctx is done first, it stops them, with
// their own grace, and goes on showing: a second signal ends the process. The exit code is then that
// of the signal. A task with an input or a terminal, which in is for, gets the signal instead.
func attached(ctx context.Context, f *cmdutil.Factory, tasks cmdutil.Tasks, ids []string, in *interactive) error {
	following, giveUp := context.WithCancelCause(context.WithoutCancel(ctx))
	defer giveUp(nil)
	var stopping atomic.Bool
	done := context.AfterFunc(ctx, func() {
		if in.interrupt(following, tasks, ids[0]) {
			f.Tell("sent SIGINT to %s; interrupt again to leave", ids[0])
			return
		}
		stopping.Store(true)
		f.Tell("stopping; interrupt again to leave at once")
		for _, id := range ids {
			err := tasks.Stop(following, id, controlplane.StopOptions{Reason: "interrupted by its user"})
			if err != nil && !types.Is(err, types.NotFound) {
				giveUp(err)
				return
			}
		}
	})
	defer done()
	statuses, err := follow(f, following, tasks, ids, in)
	if cause := context.Cause(following); cause != nil {
		err = cause
	}
	if err != nil {
		return err
	}
	err = endOf(f, statuses)
	switch {
	case stopping.Load():
		return cmdutil.Ended{Code: cmdutil.InterruptedCode(ctx)}
	case err != nil:
		return err
	}
	return in.failed()
}

// Follow shows the output of tasks until they have ended, and returns their statuses. Inside a
// task, which cannot read logs, it only waits.
func Follow(f *cmdutil.Factory, ctx context.Context, tasks cmdutil.Tasks, ids []string) (map[string]types.Status, error) {
	return follow(f, ctx, tasks, ids, nil)
}

// follow is Follow for a task with an input or a terminal, or any tasks if in is nil.
func follow(f *cmdutil.Factory, ctx context.Context, tasks cmdutil.Tasks, ids []string, in *interactive) (map[string]types.Status, error) {
	direct, ok := tasks.(cmdutil.Direct)
	if !ok {
		f.Tell("waiting for the end of %s: its output is not shown inside a task, but by escher logs outside", strings.Join(ids, ", "))
		return tasks.Wait(ctx, controlplane.UntilEnded, ids...)
	}
	_, _, terminal := f.TerminalSize(f.Err)
	v := newViewer(f, direct.Client, len(ids) > 1, logFlags{tail: -1})
	followed, err := v.follow(ctx, ids, followOptions{phases: terminal, waits: true, interactive: in})
	in.end(v.console)
	if err == nil {
		err = followed.removed()
	}
	return followed.statuses, err
}

// followOptions say what to show besides the output of the tasks.
type followOptions struct {
	// phases shows the phases before they run, headers shows which attempt follows another, waits
	// shows why they wait.
	phases, headers, waits bool
	// stored shows first the output so far, in order of time.
	stored bool
	// interactive passes an input to the only task; nil means none.
	interactive *interactive
	// jobs are the jobs whose later tasks are also followed.
	jobs []string
}

// followed is the outcome of following.
type followed struct {
	statuses map[string]types.Status
	lost
}

// removed returns the first error of a removed task; nil if there is none.
func (l *lost) removed() error {
	for _, err := range l.errs {
		if types.Is(err, types.NotFound) {
			return err
		}
	}
	return nil
}

// following follows tasks.
type following struct {
	*viewer
	opts  followOptions
	board *board
	// connection tells when the cluster does not answer the watches.
	connection *connection
	streams    *semaphore.Weighted
	result     followed
	// all are the goroutines, group those of them that follow a task.
	all, group *errgroup.Group
	// whole ends with the first error, watch also when all tasks have ended: it is that of watches.
	whole, watch context.Context

	mu sync.Mutex
	// active is the number of tasks that are still followed. A task joins only while another is.
	active int
}

// follow is Follow, outside a task. The tail of flags is for the first attempt, without earlier
// ones.
func (v *viewer) follow(ctx context.Context, ids []string, opts followOptions) (*followed, error) {
	w := &following{viewer: v, opts: opts, board: newBoard(ids), connection: newConnection(v.f.ClusterName(), v.client, v.console.Say), streams: semaphore.NewWeighted(streamsAtOnce)}
	records := v.records(ids)
	if opts.stored {
		// What is missing now may be there later.
		if err := v.merge(ctx, records, func(*record, error) {}); err != nil {
			return &w.result, err
		}
	}
	w.all, w.whole = errgroup.WithContext(ctx)
	var stopWatching context.CancelFunc
	w.watch, stopWatching = context.WithCancel(w.whole)
	defer stopWatching()
	w.watchTasks(ids)
	w.all.Go(func() error { w.connection.run(w.watch); return nil })
	var groupCtx context.Context
	w.group, groupCtx = errgroup.WithContext(w.whole)
	w.active = len(records)
	for _, r := range records {
		w.begin(groupCtx, r)
	}
	w.all.Go(func() error {
		defer stopWatching()
		return w.group.Wait()
	})
	if len(opts.jobs) > 0 {
		w.all.Go(func() error { return w.watchJobs(groupCtx) })
	}
	if opts.waits {
		shown := &waits{f: v.f, client: v.client, console: v.console, board: w.board, tasks: len(ids), terminal: opts.phases}
		w.all.Go(func() error { shown.run(w.watch); return nil })
	}
	if opts.interactive != nil {
		w.all.Go(func() error { opts.interactive.run(w.watch, w, ids[0]); return nil })
	}
	err := w.all.Wait()
	w.result.statuses = w.board.statuses()
	return &w.result, err
}

// begin follows a task, which counts as active already.
func (w *following) begin(ctx context.Context, r *record) {
	t := &tailing{following: w, record: r}
	w.group.Go(func() error {
		err := t.run(ctx)
		w.mu.Lock()
		defer w.mu.Unlock()
		w.active--
		return err
	})
}

// watchTasks watches the statuses of tasks.
func (w *following) watchTasks(ids []string) {
	w.all.Go(func() error {
		err := w.client.Watch(w.watch, controlplane.WatchTasks{IDs: ids}, w.board.take)
		if w.watch.Err() != nil && w.whole.Err() == nil {
			return nil
		}
		return err
	})
}

// watchJobs follows tasks that join the jobs, while tasks are followed.
func (w *following) watchJobs(ctx context.Context) error {
	opts := controlplane.ListWatchOptions{Prefix: controlplane.Prefix(controlplane.Tasks, w.client.Namespace())}
	err := controlplane.ListWatch(w.watch, w.client.Store(), opts, func(u controlplane.Update) error {
		for _, e := range u.Events {
			var t types.Task
			k, ok := controlplane.Parse(e.Key)
			if ok && !e.Delete && controlplane.Read(e.KV, &t) && slices.Contains(w.opts.jobs, t.Job) {
				w.join(ctx, k.ID)
			}
		}
		return nil
	})
	if w.watch.Err() != nil {
		return nil // ctx has the reason, if there is any.
	}
	return err
}

// join follows one more task, unless it is followed, or all others have ended.
func (w *following) join(ctx context.Context, id string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.active == 0 || !w.board.add(id) {
		return
	}
	w.active++
	w.console.ShowLines(!w.flags.noPrefix)
	w.begin(ctx, w.record(id))
	w.watchTasks([]string{id})
}

// tailing is a followed task.
type tailing struct {
	*following
	*record
	// said is the last text.
	said string
}

// run shows one attempt after the other until the task has ended.
func (t *tailing) run(ctx context.Context) error {
	for first := true; ; {
		status, changed, err := t.board.get(t.id)
		if err != nil {
			t.console.Say("%v", err)
			t.result.add(t.id, err)
			return t.out.End()
		}
		if status != nil && first {
			first = false
			if t.flags.tail >= 0 && t.log == nil {
				t.shown = max(0, status.Attempt-1)
			}
		}
		if status != nil {
			t.Tell(status)
		}
		switch {
		case begun(status, t.shown+1):
			if err := t.Show(ctx, t.shown+1, status); err != nil {
				return err
			}
			t.shown++
			continue
		case status != nil && status.Phase.Ended() && status.Attempt <= t.shown:
			return t.out.End()
		}
		stop := t.watchStart(ctx, status)
		select {
		case <-ctx.Done():
			err = ctx.Err()
		case <-changed:
		}
		if stop(); err != nil {
			return err
		}
	}
}

// begun reports whether an attempt may have output.
func begun(s *types.Status, attempt int) bool {
	return s != nil && (s.Attempt > attempt || s.Attempt == attempt && attempt > 0 && (s.Phase == types.Running || s.Phase.Ended()))
}

// Tell prints the state of a task on the error output, once for each change.
func (t *tailing) Tell(s *types.Status) {
	text := fmt.Sprintf("%s %s", t.id, render.PhaseText(s.Phase, s.Health))
	if s.Node != "" {
		text += " on " + s.Node
	}
	if s.Attempt > 1 {
		text += fmt.Sprintf(", attempt %d", s.Attempt)
	}
	if s.Reason != "" {
		text += ": " + s.Reason
	}
	worth := t.opts.phases || s.Reason != "" && s.Phase != types.Pending
	if text != t.said && worth && !s.Phase.Ended() {
		t.console.Say("%s", text)
	}
	t.said = text
}

// Show copies the output of an attempt until it is over. It skips output that is lost, and says so.
func (t *tailing) Show(ctx context.Context, attempt int, status *types.Status) error {
	log := t.log
	if log == nil || log.Attempt != attempt {
		tail := -1
		if attempt == status.Attempt && t.log == nil {
			tail = t.flags.tail
		}
		if err := t.out.Flush(); err != nil {
			return err
		}
		if t.opts.headers && (attempt > 1 || status.Attempt > 1) {
			t.console.Say("attempt %d of %s", attempt, t.id)
		}
		log = t.viewer.log(t.id, attempt, tail)
	}
	if err := t.streams.Acquire(ctx, 1); err != nil {
		return err
	}
	defer t.streams.Release(1)
	defer t.reading() // in case that it cannot be read
	retry, late := controlplane.RetryPolicy(), 0
	for told := false; ; {
		err := t.readOn(ctx, log)
		_, ours := errors.AsType[unwritable](err)
		switch {
		case err == nil, types.Is(err, types.NotFound):
			return nil // It left no output.
		case ctx.Err() != nil:
			return ctx.Err()
		case ours, types.Is(err, types.Denied) && t.opts.headers: // logs asks for nothing but the output
			return err
		case !types.ClassOf(err).Retryable():
			t.console.Say("attempt %d of %s is not shown: %v", attempt, t.id, err)
			t.result.add(t.id, err)
			return nil
		}
		if status, _, gone := t.board.get(t.id); gone != nil || status.Phase.Ended() || status.Attempt > attempt {
			if late++; late > lateTries {
				t.console.Say("the rest of attempt %d of %s is not shown: %v", attempt, t.id, err)
				t.result.add(t.id, err)
				return nil
			}
		} else if !told && late == 0 {
			told = true
			t.console.Say("waiting for the output of %s: %v", t.id, err)
		}
		if err := supervise.Pause(ctx, retry.NextBackOff()); err != nil {
			return err
		}
	}
}

// readOn continues to read a log, on whatever node.
func (t *tailing) readOn(ctx context.Context, log *nodeapi.Log) error {
	node := t.board.Node(t.id, log.Attempt)
	if node == "" {
		nodes, err := t.f.Nodes(ctx)
		if err != nil {
			return err
		}
		if node, err = nodes.Find(ctx, t.client.Namespace(), t.id, log.Attempt); err != nil {
			return err
		}
	}
	return t.read(ctx, log, node, t.out, true)
}

// startQuietly is how long a start may take before its steps are shown.
const startQuietly = time.Second

// watchStart shows, until stop is called, the steps of the node to start a bound task, if that
// takes long.
func (t *tailing) watchStart(ctx context.Context, s *types.Status) (stop func()) {
	if s == nil || s.Phase != types.Bound || !t.opts.phases {
		return func() {}
	}
	ctx, cancel := context.WithCancel(ctx)
	done := make(chan struct{})
	go func() {
		defer close(done)
		if supervise.Pause(ctx, startQuietly) != nil {
			return
		}
		t.tellSteps(ctx, s.Node, s.Attempt)
	}()
	return func() { cancel(); <-done }
}

// tellSteps shows the steps of an attempt. If it cannot get them, the status of the task says what
// matters.
func (t *tailing) tellSteps(ctx context.Context, node string, attempt int) {
	stop := func() {}
	_ = t.f.OnNode(ctx, node, func(c *nodeapi.Client) error {
		defer func() { stop() }()
		return c.Events(ctx, t.client.Namespace(), t.id, attempt, 0, true, func(e nodeapi.Event) error {
			stop()
			stop = func() {}
			if e.Step != nodeagent.StepPulling { // the status has the rest
				return nil
			}
			text := fmt.Sprintf("%s on %s: %s", t.id, node, e.Step)
			if e.Text != "" {
				text += ": " + e.Text
			}
			if ctx.Err() != nil {
				return errors.New("the client is gone")
			}
			t.console.Say("%s", text)
			if !t.console.Many {
				stop = t.drawPull(ctx, c, e.Text)
			}
			return nil
		})
	})
}

// pullEvery is how often to ask a node for the progress of a pull.
const pullEvery = 300 * time.Millisecond

// drawPull shows the progress of a pull of a task's image, on a line of the terminal that stop
// removes.
func (t *tailing) drawPull(ctx context.Context, c *nodeapi.Client, image string) (stop func()) {
	ctx, cancel := context.WithCancel(ctx)
	done := make(chan struct{})
	go func() {
		defer close(done)
		defer t.console.Draw("")
		tick := time.NewTicker(pullEvery)
		defer tick.Stop()
		for {
			p, err := c.Pulling(ctx, image)
			if err != nil {
				return // The status of the task says what matters.
			}
			if text := images.PullText(p); text != "" {
				t.console.Draw(text)
			}
			select {
			case <-ctx.Done():
				return
			case <-tick.C:
			}
		}
	}()
	return func() { cancel(); <-done }
}
