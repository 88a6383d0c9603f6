// Package mirror answers listings from memory. etcd counts all keys of a range for each page of it: with a
// million tasks, a page of 500 takes it half a second. A server that answers such questions all the time
// follows the keys instead, and lists them in microseconds.
package mirror

import (
	"bytes"
	"cmp"
	"context"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/tidwall/btree"
	"go.uber.org/zap"

	"github.com/escher-sched/escher/controlplane"
	"github.com/escher-sched/escher/controlplane/cluster"
)

// Config says what a Store follows.
type Config struct {
	Store controlplane.Store
	// Root is a prefix of all that it follows.
	Root string
	// Prefixes are the ranges whose listings it answers. Their keys and values are kept in memory.
	Prefixes []string
	// Forks are the kinds of keys of Fork. Their values are kept decoded.
	Forks []controlplane.Kind
	Now   func() time.Time
	Log   *zap.Logger
}

// Store is a store that answers listings of some ranges from memory, and passes on all else. A listing of the
// newest revision has all changes that were committed before the call, by any client. While Run does not run, or
// is far behind, the store below answers.
type Store struct {
	controlplane.Store
	cfg    Config
	newest newest

	mu sync.Mutex
	// revision is the one that everything is followed up to; 0 until all is listed.
	revision int64
	all      tree
	// since is the revision of the last change of all.
	since int64
	view  *cluster.View
	// moved is closed at the next update.
	moved chan struct{}
	// kept are earlier states that readers may go on to read, the oldest first.
	kept []state
	// shared reports whether a reader has the tree.
	shared bool
}

// tree has the keys of the ranges.
type tree = *btree.Map[string, controlplane.KV]

// state is the ranges from a revision to another, inclusive.
type state struct {
	all      tree
	from, to int64
	until    time.Time
}

const (
	// catchUp is how long a listing waits for changes that were committed before it. Then the store below
	// answers.
	catchUp = 200 * time.Millisecond
	// keptFor is how long a reader of several pages has for the next one, keptAtMost how many states are kept.
	// Afterwards, the store below answers.
	keptFor    = 10 * time.Second
	keptAtMost = 64
)

// New returns a store that follows nothing before Run.
func New(cfg Config) *Store {
	return &Store{Store: cfg.Store, cfg: cfg, newest: newest{store: cfg.Store}, all: new(btree.Map[string, controlplane.KV]), view: cluster.New(), moved: make(chan struct{})}
}

// Run follows the store until ctx is done. It returns errors of controlplane.ListWatch.
func (s *Store) Run(ctx context.Context) error {
	opts := controlplane.ListWatchOptions{Prefix: s.cfg.Root, Skip: s.skips, Parts: true, Log: s.cfg.Log}
	return controlplane.ListWatch(ctx, s.cfg.Store, opts, func(u controlplane.Update) error {
		s.take(u)
		return nil
	})
}

func (s *Store) skips(key string) bool { return !s.covers(key) && !s.forks(key) }

// covers reports whether a key or the keys with a prefix are kept.
func (s *Store) covers(prefix string) bool {
	return slices.ContainsFunc(s.cfg.Prefixes, func(p string) bool { return strings.HasPrefix(prefix, p) })
}

func (s *Store) forks(key string) bool {
	k, ok := controlplane.Parse(key)
	return ok && slices.Contains(s.cfg.Forks, k.Kind)
}

// take applies an update.
func (s *Store) take(u controlplane.Update) {
	s.mu.Lock()
	defer s.mu.Unlock()
	last := u.Revision - 1 // the last revision of the state before
	if u.Synced {
		last = s.revision
	}
	if u.More {
		s.revision = 0 // a part of a listing: nothing is whole before the last part
	}
	s.apply(u.Events, u.Revision, last)
	if u.Has != nil {
		s.prune(u)
	}
	if u.More {
		return
	}
	if u.Synced {
		s.keep(last)
		s.since = u.Revision
	}
	s.view.Reached(u.Revision)
	s.revision = u.Revision
	close(s.moved)
	s.moved = make(chan struct{})
}

// apply applies changes at a revision.
func (s *Store) apply(events []controlplane.Event, revision, last int64) {
	for i := range events {
		e := &events[i]
		if !s.covers(e.Key) {
			if s.forks(e.Key) {
				_, _, _ = s.view.Apply(*e) // an unreadable value counts as absent
			}
			continue
		}
		s.keep(last)
		s.since = revision
		if e.Delete {
			s.all.Delete(e.Key)
			continue
		}
		kv := e.KV // a copy, as the event has a part of a large answer
		kv.Key, kv.Value = strings.Clone(kv.Key), bytes.Clone(kv.Value)
		s.all.Set(kv.Key, kv)
	}
}

// keep keeps the state for its readers, if there are any, and goes on with a copy. The two share what does not
// change. The state is that of the revisions up to last.
func (s *Store) keep(last int64) {
	if !s.shared {
		return
	}
	now := s.cfg.Now()
	s.kept = slices.DeleteFunc(s.kept, func(x state) bool { return x.until.Before(now) })
	if len(s.kept) >= keptAtMost {
		s.kept = slices.Delete(s.kept, 0, 1)
	}
	s.kept = append(s.kept, state{s.all, s.since, last, now.Add(keptFor)})
	s.all, s.shared = s.all.Copy(), false
}

// prune drops the keys that a reload does not have.
func (s *Store) prune(u controlplane.Update) {
	var gone []controlplane.Event
	s.all.Scan(func(key string, _ controlplane.KV) bool {
		if !u.Has(key) {
			gone = append(gone, controlplane.Event{KV: controlplane.KV{Key: key, ModRevision: u.Revision}, Delete: true})
		}
		return true
	})
	for _, e := range s.view.Gone(u.Revision, u.Has) {
		if !s.covers(e.Key) {
			gone = append(gone, e)
		}
	}
	s.apply(gone, u.Revision, u.Revision)
}

// Fork returns a view of the keys of some kinds, with all changes that were committed before the call, and at a
// revision at which listings are in memory: see cluster.View.Fork. It is nil if this store is far behind.
func (s *Store) Fork(ctx context.Context) (*cluster.View, error) {
	if len(s.cfg.Forks) == 0 {
		return nil, nil
	}
	ok, err := s.catchUp(ctx)
	if !ok || err != nil {
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.revision == 0 {
		return nil, nil
	}
	s.shared = true
	return s.view.Fork(), nil
}

// List answers from memory if it can: see controlplane.Store. A single key of the newest revision is as fast to
// read from the store below.
func (s *Store) List(ctx context.Context, opts controlplane.ListOptions) (controlplane.Page, error) {
	if len(opts.Keys) > 0 || !s.covers(cmp.Or(opts.Key, opts.Prefix)) || opts.Key != "" && opts.Revision == 0 {
		return s.Store.List(ctx, opts)
	}
	if opts.Revision == 0 {
		if ok, err := s.catchUp(ctx); !ok || err != nil {
			return s.Store.List(ctx, opts)
		}
	}
	all, revision := s.at(opts.Revision)
	if all == nil {
		return s.Store.List(ctx, opts)
	}
	return page(all, opts, revision), nil
}

// Scan reads a range from memory if it can, else as the store below does.
func (s *Store) Scan(ctx context.Context, opts controlplane.ListOptions, take func([]controlplane.KV) error) (int64, error) {
	if opts.Key != "" || len(opts.Keys) > 0 || !s.covers(opts.Prefix) {
		return controlplane.Scan(ctx, s.Store, opts, take)
	}
	return controlplane.ScanPages(ctx, s, opts, take)
}

// at returns the keys at a revision, 0 for the newest; nil if they are not in memory.
func (s *Store) at(revision int64) (tree, int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case s.revision == 0:
		return nil, 0
	case revision == 0 || s.since <= revision && revision <= s.revision:
		s.shared = true
		if revision == 0 {
			revision = s.revision
		}
		return s.all, revision
	}
	for i := range s.kept {
		if x := &s.kept[i]; x.from <= revision && revision <= x.to {
			x.until = s.cfg.Now().Add(keptFor)
			return x.all, revision
		}
	}
	return nil, 0
}

// page returns a page of a listing.
func page(all tree, opts controlplane.ListOptions, revision int64) controlplane.Page {
	out := controlplane.Page{Revision: revision}
	if opts.Key != "" {
		opts.Prefix = opts.Key
	}
	all.Ascend(max(opts.Prefix, opts.After), func(key string, kv controlplane.KV) bool {
		switch {
		case !strings.HasPrefix(key, opts.Prefix), opts.Key != "" && key != opts.Key:
			return false
		case opts.After != "" && key <= opts.After:
			return true
		case opts.Limit > 0 && len(out.KVs) == opts.Limit:
			out.More = true
			return false
		}
		if opts.KeysOnly {
			kv.Value, kv.Lease = nil, 0
		}
		if n := len(out.KVs); n == cap(out.KVs) {
			out.KVs = slices.Grow(out.KVs, 3*n+1) // pages are long: append would copy more often
		}
		out.KVs = append(out.KVs, kv)
		return true
	})
	return out
}

// catchUp waits until everything that was committed before the call is followed, and reports whether it is.
func (s *Store) catchUp(ctx context.Context) (bool, error) {
	if at, _ := s.reached(); at == 0 {
		return false, nil
	}
	revision, err := s.newest.get(ctx)
	if err != nil {
		return false, err
	}
	late := time.NewTimer(catchUp)
	defer late.Stop()
	for {
		at, moved := s.reached()
		if at >= revision {
			return true, nil
		}
		select {
		case <-ctx.Done():
			return false, ctx.Err()
		case <-late.C:
			return false, nil
		case <-moved:
		}
	}
}

// reached returns the revision that everything is followed up to, 0 for none, and what is closed at the next
// update.
func (s *Store) reached() (int64, <-chan struct{}) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.revision, s.moved
}
