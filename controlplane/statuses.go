package controlplane

import (
	"context"
	"sync"

	"github.com/escher-sched/escher/types"
)

// statuses follows the statuses of a namespace while anybody waits for one: once,
// for all who wait.
type statuses struct {
	mu      sync.Mutex
	current *following
}

// following is one list-watch of all statuses. Its fields are guarded by the mutex
// of statuses.
type following struct {
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
	f := s.current
	if f == nil {
		f = s.start(store, ns)
	}
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

// start begins to follow.
func (s *statuses) start(store Store, ns string) *following {
	ctx, cancel := context.WithCancel(context.Background())
	f := &following{
		cancel: cancel, ended: make(chan struct{}), known: make(map[string]*types.Status),
		waiting: make(map[string]map[*waiter]struct{}), all: make(map[*waiter]struct{}),
	}
	s.current = f
	go func() {
		defer close(f.ended)
		err := ListWatch(ctx, store, ListWatchOptions{Prefix: Prefix(Statuses, ns)}, func(u Update) error {
			s.mu.Lock()
			defer s.mu.Unlock()
			return f.apply(u)
		})
		s.mu.Lock()
		defer s.mu.Unlock()
		if s.current == f {
			s.current = nil
		}
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
		if s.current == f {
			s.current = nil
		}
	}
	s.mu.Unlock()
	if last {
		<-f.ended
	}
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
		if err := types.Decode(e.Value, status); err != nil {
			return types.Errorf(types.Internal, "read %s: %w", e.Key, err)
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
	if status == nil || !w.until.reached(status.Phase) {
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
