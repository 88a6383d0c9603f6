package cli

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/escher-sched/escher/controlplane"
	"github.com/escher-sched/escher/types"
)

// pollEvery is how often a log that is followed is looked at.
const pollEvery = 100 * time.Millisecond

// follow shows what tasks write until they have ended, and returns their statuses.
// Inside a task, where the logs are not, it only waits.
func (f *Factory) follow(ctx context.Context, tasks Tasks, ids []string) (map[string]types.Status, error) {
	direct, ok := tasks.(outside)
	if !ok {
		return tasks.Wait(ctx, controlplane.UntilEnded, ids...)
	}
	followed := newFollowed(f, direct.Namespace(), ids)
	g, ctx := errgroup.WithContext(ctx)
	watch, stopWatching := context.WithCancel(ctx)
	g.Go(func() error {
		err := direct.Watch(watch, controlplane.WatchTasks{IDs: ids}, followed.take)
		if watch.Err() != nil && ctx.Err() == nil {
			return nil
		}
		return err
	})
	g.Go(func() error {
		defer stopWatching()
		return followed.show(ctx)
	})
	err := g.Wait()
	return followed.statuses(), err
}

// followed are tasks whose logs are being shown.
type followed struct {
	f  *Factory
	ns string

	mu    sync.Mutex
	tasks []*followedTask
}

// followedTask is one of them.
type followedTask struct {
	id string
	// latest is its status, guarded by the mutex of followed.
	latest *types.Status
	// said is the phase that was told about last.
	said    string
	attempt int
	log     *logReader
	out     io.Writer
	over    bool
}

func newFollowed(f *Factory, ns string, ids []string) *followed {
	d := &followed{f: f, ns: ns}
	for _, id := range ids {
		t := &followedTask{id: id, out: f.Out}
		if len(ids) > 1 {
			t.out = &prefixed{to: f.Out, prefix: id + " | "}
		}
		d.tasks = append(d.tasks, t)
	}
	return d
}

// take notes statuses.
func (d *followed) take(u controlplane.StatusUpdate) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, c := range u.Changes {
		for _, t := range d.tasks {
			if t.id == c.ID && c.Status != nil {
				t.latest = c.Status
			}
		}
	}
	return nil
}

func (d *followed) statuses() map[string]types.Status {
	d.mu.Lock()
	defer d.mu.Unlock()
	all := make(map[string]types.Status)
	for _, t := range d.tasks {
		if t.latest != nil {
			all[t.id] = *t.latest
		}
	}
	return all
}

// show copies what is written until all have ended.
func (d *followed) show(ctx context.Context) error {
	tick := time.NewTicker(pollEvery)
	defer tick.Stop()
	for {
		over := true
		for _, t := range d.tasks {
			if err := d.look(t); err != nil {
				return err
			}
			over = over && t.over
		}
		if over {
			return nil
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-tick.C:
		}
	}
}

// look copies what one task has written. What it wrote at its very end is on its
// way to the file when its end is known: hence another look after that.
func (d *followed) look(t *followedTask) error {
	d.mu.Lock()
	status := t.latest
	d.mu.Unlock()
	if status == nil || t.over {
		return nil
	}
	d.tell(t, status)
	if status.Attempt != t.attempt {
		if t.log != nil {
			err := t.log.copyNew(t.out)
			t.log.close()
			if err != nil {
				return err
			}
		}
		path, err := d.f.logPath(status.Node, d.ns, t.id, status.Attempt)
		if err != nil {
			return err
		}
		t.attempt, t.log = status.Attempt, newLogReader(path)
	}
	if t.log == nil {
		t.over = status.Phase.Ended()
		return nil
	}
	err := t.log.copyNew(t.out)
	ended := d.f.quietSince(status.Ended)
	if status.Phase.Ended() && ended {
		t.over = true
		t.log.close()
		if p, ok := t.out.(*prefixed); ok {
			err = errors.Join(err, p.flush())
		}
	}
	return err
}

// quietSince reports whether a task that ended then has had the time to write all.
func (f *Factory) quietSince(end int64) bool {
	const settle = 2 * pollEvery
	return time.Since(time.Unix(0, end)) > settle
}

// tell says on the error output where a task is.
func (d *followed) tell(t *followedTask, s *types.Status) {
	text := fmt.Sprintf("%s %s", t.id, s.Phase)
	if s.Node != "" {
		text += fmt.Sprintf(" on %s", s.Node)
	}
	if s.Attempt > 1 {
		text += fmt.Sprintf(", attempt %d", s.Attempt)
	}
	if text != t.said && !s.Phase.Ended() {
		fmt.Fprintf(d.f.Err, "escher: %s\n", text)
	}
	t.said = text
}

// prefixed writes whole lines, each with a prefix.
type prefixed struct {
	to     io.Writer
	prefix string
	rest   []byte
}

// Write takes in text and writes the lines that are complete.
func (p *prefixed) Write(text []byte) (int, error) {
	p.rest = append(p.rest, text...)
	for {
		line, rest, ok := bytes.Cut(p.rest, []byte("\n"))
		if !ok {
			return len(text), nil
		}
		if _, err := fmt.Fprintf(p.to, "%s%s\n", p.prefix, line); err != nil {
			return 0, err
		}
		p.rest = rest
	}
}

// flush writes what is left as a line.
func (p *prefixed) flush() error {
	if len(p.rest) == 0 {
		return nil
	}
	_, err := p.Write([]byte("\n"))
	return err
}
