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
	// streamsAtOnce bounds how many logs are followed at once: of more tasks that run
	// at the same time, the output of some comes later.
	streamsAtOnce = 500
	// lateTries is how often a node is asked that does not answer, for the rest of an
	// attempt that is over.
	lateTries = 3
)

// attached shows what tasks write until they have ended. When ctx is done first, it
// stops them, and goes on showing: a second signal ends the process.
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

// Follow shows what tasks write until they have ended, and returns their statuses.
// Inside a task, where the logs are not, it only waits.
func Follow(f *cmdutil.Factory, ctx context.Context, tasks cmdutil.Tasks, ids []string) (map[string]types.Status, error) {
	direct, ok := tasks.(cmdutil.Direct)
	if !ok {
		f.Tell("waiting for the end of %s: its output is not shown inside a task, but by escher logs outside", strings.Join(ids, ", "))
		return tasks.Wait(ctx, controlplane.UntilEnded, ids...)
	}
	_, _, terminal := f.TerminalSize(f.Err)
	return followFrom(f, ctx, direct.Client, ids, followOptions{tail: -1, phases: terminal})
}

// followOptions say what is told of tasks that are followed besides what they write.
type followOptions struct {
	// tail is how many lines of the attempt that each is at to begin with, leaving
	// out those before; negative is all.
	tail int
	// phases tells how far they are before they run, headers which attempt follows
	// another one.
	phases, headers bool
}

// followFrom is follow, outside a task.
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

// posted is what is known of one task.
type posted struct {
	status *types.Status
	// nodes are those of its attempts, as far as they were seen.
	nodes   map[int]string
	removed bool
	// changed is closed when any of that changes.
	changed chan struct{}
}

func newBoard(ids []string) *board {
	b := &board{tasks: make(map[string]*posted, len(ids))}
	for _, id := range ids {
		b.tasks[id] = &posted{nodes: make(map[int]string), changed: make(chan struct{})}
	}
	return b
}

// take notes statuses.
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

// get returns a task's status, nil if there is none, and what is closed when it
// changes. NotFound: the task was removed.
func (b *board) get(id string) (*types.Status, <-chan struct{}, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	p := b.tasks[id]
	if p.removed {
		return nil, nil, types.Errorf(types.NotFound, "follow task %s: it was removed", id)
	}
	return p.status, p.changed, nil
}

// Node returns where an attempt is, empty if that was not seen.
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

// tailing is a task that is followed.
type tailing struct {
	f       *cmdutil.Factory
	ns, id  string
	opts    followOptions
	board   *board
	console *cmdutil.Console
	out     *cmdutil.LineWriter
	streams *semaphore.Weighted

	// shown is the last attempt that was shown, said what was told last.
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

// begun reports whether an attempt has, or can have, written something.
func begun(s *types.Status, attempt int) bool {
	return s != nil && (s.Attempt > attempt || s.Attempt == attempt && attempt > 0 && (s.Phase == types.Running || s.Phase.Ended()))
}

// Tell says on the error output where a task is, once for each change of that.
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

// Show copies what an attempt writes until it is over. What cannot be had any more is
// left out, and that is said.
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
			return nil // It wrote nothing that is kept.
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

// read reads on in a log, wherever that is.
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

// startQuietly is how long a start may take before its steps are told.
const startQuietly = time.Second

// watchStart tells, until stop is called, what the node of a task that is bound does
// to start it, if that takes its time.
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

// tellSteps tells the steps of an attempt. That they cannot be had is said by the
// status of the task, if it matters.
func (t *tailing) tellSteps(ctx context.Context, node string, attempt int) {
	stop := func() {}
	_ = t.f.OnNode(ctx, node, func(c *nodeapi.Client) error {
		defer func() { stop() }()
		return c.Events(ctx, t.ns, t.id, attempt, 0, true, func(e nodeapi.Event) error {
			stop()
			stop = func() {}
			if e.Step != nodeagent.StepPulling { // its status says what else matters
				return nil
			}
			text := fmt.Sprintf("%s on %s: %s", t.id, node, e.Step)
			if e.Text != "" {
				text += ": " + e.Text
			}
			if ctx.Err() != nil {
				return errors.New("nobody wants to know any more")
			}
			t.console.Say("%s", text)
			if !t.console.Many {
				stop = t.drawPull(ctx, c, e.Text)
			}
			return nil
		})
	})
}

// pullEvery is how often a node is asked how far a pull is.
const pullEvery = 300 * time.Millisecond

// drawPull shows how far a node is with the image of a task, on a line of the terminal
// that stop removes again.
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
