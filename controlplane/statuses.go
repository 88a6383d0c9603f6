package controlplane

import (
	"context"
	"iter"
	"maps"
	"slices"
	"strings"
	"sync"

	"github.com/escher-sched/escher/types"
)

// statuses follows the statuses of a namespace while callers wait for some. The first caller's
// watch covers what that caller waits for, perhaps one status of very many. A later caller that
// waits for another task starts a watch of the whole namespace, which serves all later callers. So
// there are at most two watches.
type statuses struct {
	mu      sync.Mutex
	current []*following
}

// following is one list-watch of statuses. The mutex of statuses guards its fields.
type following struct {
	prefix  string
	waiters int
	cancel  context.CancelFunc
	ended   chan struct{}
	// known holds the statuses, once synced.
	known  map[string]*types.Status
	synced bool
	// waiting holds the waiters of each task.
	waiting map[string]map[*waiter]struct{}
	all     map[*waiter]struct{}
}

// waiter waits until tasks reach a phase.
type waiter struct {
	until Until
	left  map[string]struct{}
	found map[string]types.Status
	// err is the reason why the wait cannot succeed.
	err error
	// over is closed when left is empty or err is set.
	over   chan struct{}
	closed bool
}

// join starts the wait of w.
func (s *statuses) join(store Store, ns string, w *waiter) *following {
	s.mu.Lock()
	defer s.mu.Unlock()
	f := s.covering(store, ns, w)
	f.waiters++
	f.all[w] = struct{}{}
	for id := range w.left {
		if f.waiting[id] == nil {
			f.waiting[id] = make(map[*waiter]struct{})
		}
		f.waiting[id][w] = struct{}{}
	}
	if f.synced {
		for id := range w.left {
			f.tell(w, id, f.known[id])
		}
	}
	return f
}

// covering returns a list-watch that covers all tasks of w.
func (s *statuses) covering(store Store, ns string, w *waiter) *following {
	wanted := statusPrefix(ns, maps.Keys(w.left))
	for _, f := range s.current {
		if strings.HasPrefix(wanted, f.prefix) {
			return f
		}
	}
	if len(s.current) > 0 {
		wanted = Prefix(Statuses, ns)
	}
	return s.start(store, wanted)
}

// statusPrefix returns the longest common prefix of the status keys of tasks.
func statusPrefix(ns string, ids iter.Seq[string]) string {
	prefix, first := Prefix(Statuses, ns), true
	for id := range ids {
		key := StatusKey(ns, id)
		if first {
			prefix, first = key, false
			continue
		}
		n := 0
		for n < min(len(prefix), len(key)) && prefix[n] == key[n] {
			n++
		}
		prefix = prefix[:n]
	}
	return prefix
}

// start starts a list-watch.
func (s *statuses) start(store Store, prefix string) *following {
	ctx, cancel := context.WithCancel(context.Background())
	f := &following{
		prefix: prefix, cancel: cancel, ended: make(chan struct{}), known: make(map[string]*types.Status),
		waiting: make(map[string]map[*waiter]struct{}), all: make(map[*waiter]struct{}),
	}
	s.current = append(s.current, f)
	go func() {
		defer close(f.ended)
		err := ListWatch(ctx, store, ListWatchOptions{Prefix: prefix}, func(u Update) error {
			s.mu.Lock()
			defer s.mu.Unlock()
			return f.apply(u)
		})
		s.mu.Lock()
		defer s.mu.Unlock()
		s.drop(f)
		for w := range f.all {
			w.end(err)
		}
	}()
	return f
}

// leave ends the wait of w; the last waiter ends the list-watch.
func (s *statuses) leave(f *following, w *waiter) {
	s.mu.Lock()
	delete(f.all, w)
	for id := range w.left {
		f.forget(w, id)
	}
	f.waiters--
	last := f.waiters == 0
	if last {
		f.cancel()
		s.drop(f)
	}
	s.mu.Unlock()
	if last {
		<-f.ended
	}
}

// drop keeps further waiters from joining f.
func (s *statuses) drop(f *following) {
	s.current = slices.DeleteFunc(s.current, func(other *following) bool { return other == f })
}

// apply applies an update and informs the waiters.
func (f *following) apply(u Update) error {
	for _, e := range u.Events {
		k, ok := Parse(e.Key)
		if !ok {
			continue
		}
		if e.Delete {
			delete(f.known, k.ID)
			for w := range f.waiting[k.ID] {
				w.end(types.Errorf(types.NotFound, "task %s was removed", k.ID))
			}
			continue
		}
		status := new(types.Status)
		if !Read(e.KV, status) {
			delete(f.known, k.ID) // the task waits until the key is repaired
			continue
		}
		f.known[k.ID] = status
		for w := range f.waiting[k.ID] {
			f.tell(w, k.ID, status)
		}
	}
	f.synced = true
	return nil
}

// tell informs a waiter of the status of a task.
func (f *following) tell(w *waiter, id string, status *types.Status) {
	if status == nil || !w.until.reached(status) {
		return
	}
	f.forget(w, id)
	delete(w.left, id)
	w.found[id] = *status
	if len(w.left) == 0 {
		w.end(nil)
	}
}

func (f *following) forget(w *waiter, id string) {
	if delete(f.waiting[id], w); len(f.waiting[id]) == 0 {
		delete(f.waiting, id)
	}
}

// end ends the wait, once.
func (w *waiter) end(err error) {
	if !w.closed {
		w.closed, w.err = true, err
		close(w.over)
	}
}
