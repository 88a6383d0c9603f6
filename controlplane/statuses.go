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

// statuses follows the statuses of a namespace while anybody waits for one. Who comes
// first is followed what he waits for, which may be one status of very many; who waits
// for something else meanwhile has all of the namespace followed, and so have all who
// come later: there are at most two watches.
type statuses struct {
	mu      sync.Mutex
	current []*following
}

// following is one list-watch of statuses. Its fields are guarded by the mutex of
// statuses.
type following struct {
	prefix  string
	waiters int
	cancel  context.CancelFunc
	ended   chan struct{}
	// known are the statuses, once synced.
	known  map[string]*types.Status
	synced bool
	// waiting are those who wait for a task.
	waiting map[string]map[*waiter]struct{}
	all     map[*waiter]struct{}
}

// waiter waits until tasks are as far as it wants.
type waiter struct {
	until Until
	left  map[string]struct{}
	found map[string]types.Status
	// err says why there is nothing to wait for any more.
	err error
	// over is closed when left is empty or err is set.
	over   chan struct{}
	closed bool
}

// join makes w wait.
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

// covering returns what follows everything that w waits for.
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

// statusPrefix returns what the status keys of all these tasks begin with.
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

// start begins to follow.
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

// leave makes w wait no more; the last one to leave ends the following.
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

// drop lets nobody join f any more.
func (s *statuses) drop(f *following) {
	s.current = slices.DeleteFunc(s.current, func(other *following) bool { return other == f })
}

// apply takes an update and tells those who wait.
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
			delete(f.known, k.ID) // until it is repaired, its task waits
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

// tell tells a waiter how far a task is.
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
