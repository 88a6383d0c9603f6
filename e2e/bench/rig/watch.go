package rig

import (
	"cmp"
	"context"
	"errors"
	"maps"
	"sync"
	"time"

	"github.com/escher-sched/escher/controlplane"
	"github.com/escher-sched/escher/types"
)

// Watcher counts the writes below a prefix, on its own connection.
type Watcher struct {
	// each, unless nil, is called with every batch before it is counted.
	each func(controlplane.Batch)

	mu      sync.Mutex
	puts    map[string]int
	deletes map[string]int
	last    time.Time
	err     error
	// news is closed and replaced when something was counted.
	news chan struct{}
}

// Watch counts the writes below a prefix from now until ctx is done.
func (c *Cluster) Watch(ctx context.Context, prefix string, each func(controlplane.Batch)) (*Watcher, error) {
	page, err := c.Watched.List(ctx, controlplane.ListOptions{Key: controlplane.EpochKey()})
	if err != nil {
		return nil, err
	}
	w := &Watcher{each: each, puts: make(map[string]int), deletes: make(map[string]int), news: make(chan struct{})}
	batches := c.Watched.Watch(ctx, controlplane.WatchOptions{Prefix: prefix, From: page.Revision + 1})
	go func() {
		for b := range batches {
			w.count(b)
		}
		w.count(controlplane.Batch{Err: types.Errorf(types.Unavailable, "the watch of %s ended", prefix)})
	}()
	return w, nil
}

// count counts a batch.
func (w *Watcher) count(b controlplane.Batch) {
	if w.each != nil && len(b.Events) > 0 {
		w.each(b)
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.err == nil {
		w.err = b.Err
	}
	if len(b.Events) == 0 && b.Err == nil {
		return
	}
	w.last = time.Now()
	for _, e := range b.Events {
		if e.Delete {
			w.deletes[kindOf(e.Key)]++
		} else {
			w.puts[kindOf(e.Key)]++
		}
	}
	close(w.news)
	w.news = make(chan struct{})
}

// counted returns how many keys of each kind were put and deleted.
func (w *Watcher) counted() (puts, deletes map[string]int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return maps.Clone(w.puts), maps.Clone(w.deletes)
}

// Stall is the time without a change after which a wait fails.
const Stall = 60 * time.Second

// ErrStalled means that nothing changes any more.
var ErrStalled = errors.New("nothing")

// Until waits until n keys of a kind were put, and returns when the last change was seen.
func (w *Watcher) Until(ctx context.Context, kind controlplane.Kind, n int) (time.Time, error) {
	idle := time.NewTimer(Stall)
	defer idle.Stop()
	for {
		got, last, news, err := w.State(kind)
		if got >= n {
			return last, nil
		}
		if err != nil {
			return last, cmp.Or(context.Cause(ctx), err)
		}
		select {
		case <-news:
			idle.Reset(Stall)
		case <-idle.C:
			return last, types.Errorf(types.Internal, "%d of %d %s were put, and then %w for %s", got, n, kind, ErrStalled, Stall)
		case <-ctx.Done():
			return last, context.Cause(ctx)
		}
	}
}

// State returns the number of puts of a kind, the time of the last change, and the error of the
// watch. news is closed at the next change.
func (w *Watcher) State(kind controlplane.Kind) (puts int, last time.Time, news <-chan struct{}, err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.puts[string(kind)], w.last, w.news, w.err
}
