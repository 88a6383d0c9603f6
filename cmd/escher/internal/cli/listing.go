package cli

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/sync/errgroup"

	"github.com/escher-sched/escher/cmd/escher/internal/table"
	"github.com/escher-sched/escher/controlplane"
	"github.com/escher-sched/escher/controlplane/cluster"
	"github.com/escher-sched/escher/types"
)

// listing is what a command lists, so that it can go on listing it as it changes.
type listing[T table.Row] struct {
	// kinds are the keys that it is made of.
	kinds []controlplane.Kind
	// all are those of which it takes the keys of every namespace.
	all []controlplane.Kind
	// rows makes the rows of a view that holds these keys: of all nodes, but of
	// one namespace.
	rows func(view *cluster.View, now time.Time) []T
	// shown tells which rows are listed; nil is all.
	shown func(T) bool
}

// addWatch adds the flag that goes on listing.
func addWatch(cmd *cobra.Command, watch *bool) {
	cmd.Flags().BoolVarP(watch, "watch", "w", false, "go on, and show what changes until interrupted")
}

// How often a list that changes all the time is printed again.
const (
	drawEvery   = 200 * time.Millisecond
	appendEvery = 50 * time.Millisecond
	// ageEvery is how often it is drawn for the ages in it alone.
	ageEvery = time.Second
)

// watchList lists, and goes on listing: on a terminal it draws the list again, else
// it appends the rows that changed.
func watchList[T table.Row](ctx context.Context, f *Factory, l listing[T]) error {
	client, err := f.Client(ctx)
	if err != nil {
		return err
	}
	ctx, stop := f.whileWritable(ctx)
	defer stop()
	w := &watching[T]{listing: l, f: f, view: cluster.New(), changed: make(chan struct{}, 1)}
	g, ctx := errgroup.WithContext(ctx)
	g.Go(func() error {
		others := skipOthers(client.Namespace(), l.kinds)
		opts := controlplane.ListWatchOptions{Prefix: controlplane.Root, Skip: func(key string) bool {
			k, ok := controlplane.Parse(key)
			return others(key) && !(ok && slices.Contains(l.all, k.Kind))
		}}
		return controlplane.ListWatch(ctx, client.Store(), opts, w.take)
	})
	g.Go(func() error {
		if width, _, terminal := f.terminalSize(f.Out); terminal && !f.format.Encoded() && width > 0 {
			return w.draw(ctx)
		}
		return w.append(ctx)
	})
	return g.Wait()
}

// viewUntil follows what there is of these kinds in the namespace until done is true
// of it.
func viewUntil(ctx context.Context, client *controlplane.Client, kinds []controlplane.Kind, done func(*cluster.View) bool) error {
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	view, over := cluster.New(), false
	opts := controlplane.ListWatchOptions{Prefix: controlplane.Root, Skip: skipOthers(client.Namespace(), kinds)}
	err := controlplane.ListWatch(ctx, client.Store(), opts, func(u controlplane.Update) error {
		for _, e := range u.Events {
			_, _, _ = view.Apply(e) // what cannot be read counts as absent
		}
		view.Reached(u.Revision)
		if over = done(view); over {
			stop()
		}
		return nil
	})
	if over {
		return nil
	}
	return err
}

// skipOthers leaves out what is of another kind or namespace.
func skipOthers(ns string, kinds []controlplane.Kind) func(string) bool {
	return func(key string) bool {
		k, ok := controlplane.Parse(key)
		return !ok || k.Namespace != "" && k.Namespace != ns || !slices.Contains(kinds, k.Kind)
	}
}

// watching is a list that is being watched.
type watching[T table.Row] struct {
	listing[T]
	f *Factory
	// changed is told when there is something new.
	changed chan struct{}

	mu     sync.Mutex
	view   *cluster.View
	synced bool
}

// take notes changes.
func (w *watching[T]) take(u controlplane.Update) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, e := range u.Events {
		_, _, _ = w.view.Apply(e) // what cannot be read counts as absent
	}
	w.view.Reached(u.Revision)
	if len(u.Events) > 0 || !w.synced {
		w.synced = true
		select {
		case w.changed <- struct{}{}:
		default:
		}
	}
	return nil
}

// list returns the rows as they are.
func (w *watching[T]) list() []T {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.rows(w.view, time.Now())
}

// draw draws the list whenever it has changed, and for the ages in it.
func (w *watching[T]) draw(ctx context.Context) error {
	s := &screen{to: w.f.raw(), size: func() (int, int) {
		width, height, _ := w.f.terminalSize(w.f.Out)
		return width, height
	}}
	defer s.close()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-w.changed:
	}
	for {
		rows := slices.DeleteFunc(w.list(), func(row T) bool { return w.shown != nil && !w.shown(row) })
		s.draw(table.Lines(w.f.output(), rows))
		if err := sleep(ctx, drawEvery); err != nil {
			return err
		}
		age := time.NewTimer(ageEvery - drawEvery)
		select {
		case <-ctx.Done():
		case <-age.C:
		case <-w.changed:
		}
		age.Stop()
	}
}

// append prints the list, and then the rows that changed. A row that is not shown
// at first is, when it changes: of a task that ends, the end is seen.
func (w *watching[T]) append(ctx context.Context) error {
	known := make(map[string]bool)
	for first := true; ; first = false {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-w.changed:
		}
		rows := w.list()
		var news []int
		now := make(map[string]bool, len(rows))
		for i, row := range rows {
			text, err := json.Marshal(row)
			if err != nil {
				return types.Errorf(types.Internal, "print %T: %w", row, err)
			}
			now[string(text)] = true
			if first && (w.shown == nil || w.shown(row)) || !first && !known[string(text)] {
				news = append(news, i)
			}
		}
		known = now
		if err := w.print(rows, news, first); err != nil {
			return err
		}
		if err := sleep(ctx, appendEvery); err != nil {
			return err
		}
	}
}

// print prints some of the rows.
func (w *watching[T]) print(rows []T, which []int, header bool) error {
	out := w.f.output()
	if out.Format == table.Table || out.Format == table.Wide {
		lines := table.Lines(out, rows)
		if header {
			fmt.Fprintln(out.To, lines[0])
		}
		for _, i := range which {
			fmt.Fprintln(out.To, lines[i+1])
		}
		return nil
	}
	for _, i := range which {
		if out.Format == table.JSON || out.Format == table.YAML {
			if out.Format == table.YAML {
				fmt.Fprintln(out.To, "---")
			}
			if err := table.Encode(out.To, out.Format, rows[i]); err != nil {
				return err
			}
			continue
		}
		if err := table.Print(out, rows[i:i+1]); err != nil {
			return err
		}
	}
	return nil
}

// sleep waits, or returns why ctx is done.
func sleep(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
