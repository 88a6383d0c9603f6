package controlplane_test

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/escher-sched/escher/controlplane"
	"github.com/escher-sched/escher/controlplane/memstore"
)

// faulty is a store that fails on request, and records its calls.
type faulty struct {
	controlplane.Store
	// failList and failWatch return the error of the nth call, counted from 0; nil means none. They
	// run before the call is passed on.
	failList, failWatch func(n int) error
	// inject is a batch that the watch delivers in between; a batch with an error ends the watch.
	inject chan controlplane.Batch

	mu      sync.Mutex
	lists   []controlplane.ListOptions
	watches []controlplane.WatchOptions
	begun   []time.Time
	// open is the number of watches that have not ended.
	open int
}

func never(int) error { return nil }

func newFaulty(s controlplane.Store) *faulty {
	return &faulty{Store: s, failList: never, failWatch: never, inject: make(chan controlplane.Batch)}
}

func (f *faulty) List(ctx context.Context, opts controlplane.ListOptions) (controlplane.Page, error) {
	f.mu.Lock()
	n := len(f.lists)
	f.lists = append(f.lists, opts)
	f.mu.Unlock()
	if err := f.failList(n); err != nil {
		return controlplane.Page{}, err
	}
	return f.Store.List(ctx, opts)
}

func (f *faulty) Watch(ctx context.Context, opts controlplane.WatchOptions) <-chan controlplane.Batch {
	f.mu.Lock()
	n := len(f.watches)
	f.watches = append(f.watches, opts)
	f.begun = append(f.begun, time.Now())
	f.open++
	f.mu.Unlock()
	ctx, cancel := context.WithCancel(ctx)
	out := make(chan controlplane.Batch)
	go func() {
		defer cancel()
		defer close(out)
		defer func() { f.mu.Lock(); f.open--; f.mu.Unlock() }()
		if err := f.failWatch(n); err != nil {
			send(ctx, out, controlplane.Batch{Err: err})
			return
		}
		f.forward(ctx, f.Store.Watch(ctx, opts), out)
	}()
	return out
}

func (f *faulty) forward(ctx context.Context, in <-chan controlplane.Batch, out chan<- controlplane.Batch) {
	for {
		select {
		case batch, ok := <-in:
			if !ok || !send(ctx, out, batch) {
				return
			}
		case batch := <-f.inject:
			if !send(ctx, out, batch) || batch.Err != nil {
				return
			}
		}
	}
}

func send(ctx context.Context, out chan<- controlplane.Batch, batch controlplane.Batch) bool {
	select {
	case out <- batch:
		return true
	case <-ctx.Done():
		return false
	}
}

// last returns the options of the newest watch.
func (f *faulty) last() controlplane.WatchOptions {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.watches[len(f.watches)-1]
}

// follower runs a list-watch of a memory store and receives its updates.
type follower struct {
	*testing.T
	mem     *memstore.Store
	store   *faulty
	updates chan controlplane.Update
	cancel  context.CancelFunc
	ended   chan error
	// state is the state of a consumer.
	state map[string]string
}

// follow starts a list-watch of "/" on a store with the faults of setup; it ends with t.
func follow(t *testing.T, opts controlplane.ListWatchOptions, setup ...func(*follower)) *follower {
	mem := memstore.New()
	f := &follower{
		T: t, mem: mem, store: newFaulty(mem),
		updates: make(chan controlplane.Update), ended: make(chan error, 1), state: map[string]string{},
	}
	for _, s := range setup {
		s(f)
	}
	if opts.Prefix == "" {
		opts.Prefix = "/"
	}
	ctx, cancel := context.WithCancel(t.Context())
	f.cancel = cancel
	go func() {
		f.ended <- controlplane.ListWatch(ctx, f.store, opts, func(u controlplane.Update) error {
			select {
			case f.updates <- u:
			case <-ctx.Done():
			}
			return nil
		})
		close(f.ended)
	}()
	t.Cleanup(f.end)
	return f
}

// end cancels the list-watch and waits for it.
func (f *follower) end() {
	f.cancel()
	for range f.ended {
		continue
	}
}

// put writes keys of the given value, at one revision.
func (f *follower) put(value string, keys ...string) int64 {
	f.Helper()
	var txn controlplane.Txn
	for _, key := range keys {
		txn.Ops = append(txn.Ops, controlplane.Op{Key: key, Value: []byte(value)})
	}
	return f.commit(txn)
}

func (f *follower) del(key string) int64 {
	f.Helper()
	return f.commit(controlplane.Txn{Ops: []controlplane.Op{{Key: key, Delete: true}}})
}

func (f *follower) commit(txn controlplane.Txn) int64 {
	f.Helper()
	result, err := f.mem.Commit(f.Context(), txn)
	if err != nil {
		f.Fatal(err)
	}
	return result.Revision
}

func (f *follower) compact() {
	f.Helper()
	if err := f.mem.Compact(f.Context(), f.mem.Revision()); err != nil {
		f.Fatal(err)
	}
}

// next returns the next update, applied to the state; an error of the loop ends the test.
func (f *follower) next() controlplane.Update {
	f.Helper()
	select {
	case u := <-f.updates:
		for _, e := range u.Events {
			if e.Delete {
				delete(f.state, e.Key)
				continue
			}
			f.state[e.Key] = string(e.Value)
		}
		return u
	case err := <-f.ended:
		f.Fatalf("list-watch ended: %v", err)
	}
	panic("not reached")
}

// news returns the next update with events or a listing.
func (f *follower) news() controlplane.Update {
	f.Helper()
	for {
		if u := f.next(); u.Synced || len(u.Events) > 0 {
			return u
		}
	}
}

// want fails the test unless the next news is as described: see describe.
func (f *follower) want(want string) {
	f.Helper()
	if got := describe(f.news()); got != want {
		f.Errorf("update %q, want %q", got, want)
	}
}

// lose breaks the watch.
func (f *follower) lose(err error) { f.store.inject <- controlplane.Batch{Err: err} }

// describe writes an update as text: revision, changes, whether it is a listing.
func describe(u controlplane.Update) string {
	s := fmt.Sprintf("%d:", u.Revision)
	if u.Synced {
		s = fmt.Sprintf("%d synced:", u.Revision)
	}
	for _, e := range u.Events {
		if e.Delete {
			s += fmt.Sprintf(" -%s@%d", e.Key, e.ModRevision)
			continue
		}
		s += fmt.Sprintf(" %s=%s@%d", e.Key, e.Value, e.ModRevision)
	}
	return s
}
