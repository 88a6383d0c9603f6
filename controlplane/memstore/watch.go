package memstore

import (
	"context"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/escher-sched/escher/controlplane"
	"github.com/escher-sched/escher/types"
)

// Watch delivers changes: see controlplane.Store. The store keeps undelivered batches for a slow
// receiver, even after compaction.
func (s *Store) Watch(ctx context.Context, opts controlplane.WatchOptions) <-chan controlplane.Batch {
	w := &watcher{prefix: opts.Prefix, from: opts.From, wake: make(chan struct{}, 1)}
	if err := s.begin(ctx, w); err != nil {
		w.push(controlplane.Batch{Err: err})
		w.ended = true
	}
	out := make(chan controlplane.Batch)
	go func() {
		defer close(out)
		defer s.stop(w)
		w.run(ctx, out)
	}()
	return out
}

// begin queues what a watcher has missed, and registers it for later changes.
func (s *Store) begin(ctx context.Context, w *watcher) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case ctx.Err() != nil:
		return nil
	case w.from < 1:
		return types.Errorf(types.Invalid, "watch %s from revision %d: begin at 1 or later", w.prefix, w.from)
	case w.from < s.compacted:
		return types.Errorf(types.Compacted, "watch %s from revision %d: compacted at %d", w.prefix, w.from, s.compacted)
	}
	for _, batch := range s.since(w.from) {
		w.offer(batch)
	}
	s.watchers.add(w)
	s.armProgress()
	return nil
}

// stop undoes begin.
func (s *Store) stop(w *watcher) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.watchers.remove(w)
}

// progressAfter is the delay after a change until unconcerned watches receive its revision.
const progressAfter = 100 * time.Millisecond

// armProgress schedules a report of the newest revision to the watches. One timer serves all of
// them, because reporting each revision to each would wake thousands of watchers for every commit.
func (s *Store) armProgress() {
	if s.progressArmed || s.watchers.n == 0 {
		return
	}
	s.progressArmed = true
	time.AfterFunc(progressAfter, func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.progressArmed = false
		s.watchers.progress(s.revision)
	})
}

// watchers finds the watches that a change concerns. The store's mutex guards it.
type watchers struct {
	byPrefix map[string][]*watcher
	// lengths are the lengths of the watched prefixes, ascending.
	lengths []int
	n       int
}

func (ws *watchers) add(w *watcher) {
	ws.byPrefix[w.prefix] = append(ws.byPrefix[w.prefix], w)
	ws.n++
	if i, ok := slices.BinarySearch(ws.lengths, len(w.prefix)); !ok {
		ws.lengths = slices.Insert(ws.lengths, i, len(w.prefix))
	}
}

func (ws *watchers) remove(w *watcher) {
	same := ws.byPrefix[w.prefix]
	i := slices.Index(same, w)
	if i < 0 {
		return
	}
	ws.n--
	if same = slices.Delete(same, i, i+1); len(same) == 0 {
		delete(ws.byPrefix, w.prefix)
		return
	}
	ws.byPrefix[w.prefix] = same
}

// publish offers a batch once to every watch that one of its keys concerns.
func (ws *watchers) publish(batch controlplane.Batch) {
	if ws.n == 0 {
		return
	}
	for _, event := range batch.Events {
		for _, length := range ws.lengths {
			if length > len(event.Key) {
				break
			}
			for _, w := range ws.byPrefix[event.Key[:length]] {
				if w.told < batch.Revision {
					w.offer(batch)
				}
			}
		}
	}
}

// progress reports a revision to every watch that has everything up to it.
func (ws *watchers) progress(revision int64) {
	for _, same := range ws.byPrefix {
		for _, w := range same {
			if w.told < revision {
				w.told = revision
				w.push(controlplane.Batch{Revision: revision})
			}
		}
	}
}

// watcher is one watch: the store pushes, and its goroutine delivers.
type watcher struct {
	prefix string
	from   int64
	// told is the last revision pushed. The store's mutex guards it.
	told int64
	// ended reports whether the queue is final.
	ended bool

	mu    sync.Mutex
	queue []controlplane.Batch
	// wake holds a token while the queue is not empty.
	wake chan struct{}
}

// offer pushes the events of a batch below the prefix.
func (w *watcher) offer(batch controlplane.Batch) {
	if batch.Revision < w.from {
		return
	}
	if events := within(batch.Events, w.prefix); len(events) > 0 {
		w.told = batch.Revision
		w.push(controlplane.Batch{Revision: batch.Revision, Events: events})
	}
}

// within returns the events below a prefix, uncopied if those are all.
func within(events []controlplane.Event, prefix string) []controlplane.Event {
	outside := func(e controlplane.Event) bool { return !strings.HasPrefix(e.Key, prefix) }
	if !slices.ContainsFunc(events, outside) {
		return events
	}
	var inside []controlplane.Event
	for _, e := range events {
		if !outside(e) {
			inside = append(inside, e)
		}
	}
	return inside
}

func (w *watcher) push(batch controlplane.Batch) {
	w.mu.Lock()
	w.queue = append(w.queue, batch)
	w.mu.Unlock()
	select {
	case w.wake <- struct{}{}:
	default:
	}
}

func (w *watcher) takeQueue() []controlplane.Batch {
	w.mu.Lock()
	defer w.mu.Unlock()
	queue := w.queue
	w.queue = nil
	return queue
}

// run delivers until ctx is done or the watch has ended.
func (w *watcher) run(ctx context.Context, out chan<- controlplane.Batch) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-w.wake:
		}
		for _, batch := range w.takeQueue() {
			select {
			case <-ctx.Done():
				return
			case out <- batch:
			}
		}
		if w.ended {
			return
		}
	}
}
