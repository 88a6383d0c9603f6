package run

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
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

// attached shows the output of tasks until they have ended. If ctx is done first, it stops them,
// and goes on showing: a second signal ends the process.
func attached(ctx context.Context, f *cmdutil.Factory, tasks cmdutil.Tasks, ids []string) error {
	following, giveUp := context.WithCancelCause(context.WithoutCancel(ctx))
	defer giveUp(nil)
	done := context.AfterFunc(ctx, func() {
		f.Tell("stopping; interrupt again to leave at once")
		for _, id := range ids {
			err := tasks.Stop(following, id, controlplane.StopOptions{Reason: "interrupted by its user", Grace: 10 * time.Second})
			if err != nil && !types.Is(err, types.NotFound) {
				giveUp(err)
				return
			}
		}
	})
	defer done()
	statuses, err := Follow(f, following, tasks, ids)
	if cause := context.Cause(following); cause != nil {
		err = cause
	}
	if err != nil {
		return err
	}
	return endOf(f, statuses)
}

// Follow shows the output of tasks until they have ended, and returns their statuses. Inside a
// task, which cannot read logs, it only waits.
func Follow(f *cmdutil.Factory, ctx context.Context, tasks cmdutil.Tasks, ids []string) (map[string]types.Status, error) {
	direct, ok := tasks.(cmdutil.Direct)
	if !ok {
		f.Tell("waiting for the end of %s: its output is not shown inside a task, but by escher logs outside", strings.Join(ids, ", "))
		return tasks.Wait(ctx, controlplane.UntilEnded, ids...)
	}
	_, _, terminal := f.TerminalSize(f.Err)
	return followFrom(f, ctx, direct.Client, ids, followOptions{tail: -1, phases: terminal})
}

// followOptions say what to show besides the output of the tasks.
type followOptions struct {
	// tail is how many of the last lines of the first attempt to show, without earlier attempts;
	// negative means all.
	tail int
	// phases shows the phases before they run, headers shows which attempt follows another.
	phases, headers bool
}

// followFrom is Follow, outside a task.
func followFrom(f *cmdutil.Factory, ctx context.Context, client *controlplane.Client, ids []string, opts followOptions) (map[string]types.Status, error) {
	board := newBoard(ids)
	lines := cmdutil.NewConsole(f, len(ids) > 1)
	streams := semaphore.NewWeighted(streamsAtOnce)
	all, ctx := errgroup.WithContext(ctx)
	watch, stopWatching := context.WithCancel(ctx)
	all.Go(func() error {
		err := client.Watch(watch, controlplane.WatchTasks{IDs: ids}, board.take)
		if watch.Err() != nil && ctx.Err() == nil {
			return nil
		}
		return err
	})
	all.Go(func() error {
		defer stopWatching()
		group, ctx := errgroup.WithContext(ctx)
		for _, id := range ids {
			t := &tailing{f: f, id: id, ns: client.Namespace(), opts: opts, board: board, console: lines, out: lines.Of(id), streams: streams}
			group.Go(func() error { return t.run(ctx) })
		}
		return group.Wait()
	})
	err := all.Wait()
	return board.statuses(), err
}

// board has the newest statuses of tasks.
type board struct {
	mu    sync.Mutex
	tasks map[string]*posted
}

// posted is what is known about one task.
type posted struct {
	status *types.Status
	// nodes are those of its attempts, as far as known.
	nodes   map[int]string
	removed bool
	// changed is closed when one of these changes.
	changed chan struct{}
}

func newBoard(ids []string) *board {
	b := &board{tasks: make(map[string]*posted, len(ids))}
	for _, id := range ids {
		b.tasks[id] = &posted{nodes: make(map[int]string), changed: make(chan struct{})}
	}
	return b
}

// take stores statuses.
func (b *board) take(u controlplane.StatusUpdate) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, c := range u.Changes {
		p := b.tasks[c.ID]
		if p == nil {
			continue
		}
		if p.removed = c.Status == nil; c.Status != nil {
			p.status = c.Status
			if c.Status.Attempt > 0 && c.Status.Node != "" {
				p.nodes[c.Status.Attempt] = c.Status.Node
			}
		}
		close(p.changed)
		p.changed = make(chan struct{})
	}
	return nil
}

// get returns a task's status, nil if there is none, and a channel that is closed when it changes.
// NotFound: the task was removed.
func (b *board) get(id string) (*types.Status, <-chan struct{}, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	p := b.tasks[id]
	if p.removed {
		return nil, nil, types.Errorf(types.NotFound, "follow task %s: it was removed", id)
	}
	return p.status, p.changed, nil
}

// Node returns the node of an attempt, empty if unknown.
func (b *board) Node(id string, attempt int) string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.tasks[id].nodes[attempt]
}

func (b *board) statuses() map[string]types.Status {
	b.mu.Lock()
	defer b.mu.Unlock()
	all := make(map[string]types.Status)
	for id, p := range b.tasks {
		if p.status != nil {
			all[id] = *p.status
		}
	}
	return all
}

// tailing is a followed task.
type tailing struct {
	f       *cmdutil.Factory
	ns, id  string
	opts    followOptions
	board   *board
	console *cmdutil.Console
	out     *cmdutil.LineWriter
	streams *semaphore.Weighted

	// shown is the last attempt shown, said the last text.
	shown int
	said  string
}

// run shows one attempt after the other until the task has ended.
func (t *tailing) run(ctx context.Context) error {
	for first := true; ; {
		status, changed, err := t.board.get(t.id)
		if err != nil {
			return err
		}
		if status != nil && first {
			first = false
			if t.opts.tail >= 0 {
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
			return t.out.Flush()
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
	if t.opts.headers && (attempt > 1 || status.Attempt > 1) {
		t.console.Say("attempt %d of %s", attempt, t.id)
	}
	if err := t.streams.Acquire(ctx, 1); err != nil {
		return err
	}
	defer t.streams.Release(1)
	log := &nodeapi.Log{Namespace: t.ns, Task: t.id, Attempt: attempt, Tail: -1}
	if attempt == status.Attempt {
		log.Tail = t.opts.tail
	}
	retry, late := controlplane.RetryPolicy(), 0
	for told := false; ; {
		err := t.read(ctx, log)
		switch {
		case err == nil, types.Is(err, types.NotFound):
			return nil // It left no output.
		case ctx.Err() != nil:
			return ctx.Err()
		case !types.ClassOf(err).Retryable():
			return err
		}
		if status, _, gone := t.board.get(t.id); gone != nil || status.Phase.Ended() || status.Attempt > attempt {
			if late++; late > lateTries {
				t.console.Say("the rest of attempt %d of %s is not shown: %v", attempt, t.id, err)
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

// read continues to read a log, on whatever node.
func (t *tailing) read(ctx context.Context, log *nodeapi.Log) error {
	node := t.board.Node(t.id, log.Attempt)
	if node == "" {
		nodes, _, err := t.f.WhereLogged(ctx, t.ns, t.id)
		if err != nil {
			return err
		}
		if node = nodes[log.Attempt]; node == "" {
			return types.Errorf(types.NotFound, "find attempt %d of task %s: no node has its output", log.Attempt, t.id)
		}
	}
	return readLog(t.f, ctx, log, node, t.out, true)
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
		return c.Events(ctx, t.ns, t.id, attempt, 0, true, func(e nodeapi.Event) error {
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
