package cmdutil

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
	"github.com/escher-sched/escher/controlplane/supervise"
	"github.com/escher-sched/escher/types"
)

// Listing is a list that a command prints, once or as it changes.
type Listing[T table.Row] struct {
	// Kinds are the kinds of keys that it reads: first the one of its rows.
	Kinds []controlplane.Kind
	// All are the kinds that it reads in every namespace.
	All []controlplane.Kind
	// Rows makes the rows from a view of these keys: all nodes, but one namespace.
	Rows func(view *cluster.View, now time.Time) []T
	// Shown reports whether a row is listed; nil lists all.
	Shown func(T) bool
}

// AddWatch adds the flag to watch a list.
func AddWatch(cmd *cobra.Command, watch *bool) {
	cmd.Flags().BoolVarP(watch, "watch", "w", false, "follow changes until interrupted")
}

// How often a list that changes all the time is printed again.
const (
	DrawEvery   = 200 * time.Millisecond
	appendEvery = 50 * time.Millisecond
	// ageEvery is how often it is drawn for its ages alone.
	ageEvery = time.Second
)

// WatchList lists, and watches the list: on a terminal it draws the list again, else it appends the
// rows that changed.
func WatchList[T table.Row](ctx context.Context, f *Factory, l Listing[T]) error {
	client, err := f.Client(ctx)
	if err != nil {
		return err
	}
	// A watch of everything leaves out what the caller has no right to read: this list says so.
	if _, err := client.Store().List(ctx, controlplane.ListOptions{Prefix: controlplane.Prefix(l.Kinds[0]), KeysOnly: true, Limit: 1}); err != nil {
		return err
	}
	ctx, stop := f.WhileWritable(ctx)
	defer stop()
	w := &watching[T]{Listing: l, f: f, view: cluster.New(), changed: make(chan struct{}, 1)}
	g, ctx := errgroup.WithContext(ctx)
	g.Go(func() error {
		others := SkipOthers(client.Namespace(), l.Kinds)
		opts := controlplane.ListWatchOptions{Prefix: controlplane.Root, Skip: func(key string) bool {
			k, ok := controlplane.Parse(key)
			return others(key) && !(ok && slices.Contains(l.All, k.Kind))
		}}
		return controlplane.ListWatch(ctx, client.Store(), opts, w.take)
	})
	g.Go(func() error {
		if width, _, terminal := f.TerminalSize(f.Out); terminal && !f.Format.Encoded() && width > 0 {
			return w.Draw(ctx)
		}
		return w.append(ctx)
	})
	return g.Wait()
}

// ViewUntil follows the keys of these kinds in the namespace until done reports true.
func ViewUntil(ctx context.Context, client *controlplane.Client, kinds []controlplane.Kind, done func(*cluster.View) bool) error {
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	view, over := cluster.New(), false
	opts := controlplane.ListWatchOptions{Prefix: controlplane.Root, Skip: SkipOthers(client.Namespace(), kinds)}
	err := controlplane.ListWatch(ctx, client.Store(), opts, func(u controlplane.Update) error {
		for _, e := range u.Events {
			_, _, _ = view.Apply(e) // unreadable values count as absent
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

// SkipOthers reports keys of other kinds or namespaces.
func SkipOthers(ns string, kinds []controlplane.Kind) func(string) bool {
	return func(key string) bool {
		k, ok := controlplane.Parse(key)
		return !ok || k.Namespace != "" && k.Namespace != ns || !slices.Contains(kinds, k.Kind)
	}
}

// watching is the state of a watched list.
type watching[T table.Row] struct {
	Listing[T]
	f *Factory
	// changed gets a value after each change.
	changed chan struct{}

	mu     sync.Mutex
	view   *cluster.View
	synced bool
}

// take applies changes.
func (w *watching[T]) take(u controlplane.Update) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, e := range u.Events {
		_, _, _ = w.view.Apply(e) // unreadable values count as absent
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

// list returns the current rows.
func (w *watching[T]) list() []T {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.Rows(w.view, time.Now())
}

// Draw draws the list after every change, and regularly for its ages.
func (w *watching[T]) Draw(ctx context.Context) error {
	s := &Screen{To: w.f.Raw(), Size: func() (int, int) {
		width, height, _ := w.f.TerminalSize(w.f.Out)
		return width, height
	}}
	defer s.Close()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-w.changed:
	}
	for {
		rows := slices.DeleteFunc(w.list(), func(row T) bool { return w.Shown != nil && !w.Shown(row) })
		s.Draw(table.Lines(w.f.Output(), rows))
		if err := supervise.Pause(ctx, DrawEvery); err != nil {
			return err
		}
		age := time.NewTimer(ageEvery - DrawEvery)
		select {
		case <-ctx.Done():
		case <-age.C:
		case <-w.changed:
		}
		age.Stop()
	}
}

// append prints the list, and then the rows that changed, even those not shown at first. So the end
// of a task is visible.
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
			if first && (w.Shown == nil || w.Shown(row)) || !first && !known[string(text)] {
				news = append(news, i)
			}
		}
		known = now
		if err := w.print(rows, news, first); err != nil {
			return err
		}
		if err := supervise.Pause(ctx, appendEvery); err != nil {
			return err
		}
	}
}

// print prints some of the rows.
func (w *watching[T]) print(rows []T, which []int, header bool) error {
	out := w.f.Output()
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
