// Package memstore is the store of a cluster in memory, with etcd's semantics, for tests and
// simulations. It passes storetest.Run.
//
// Every method except Watch completes in the caller's goroutine, so that a single-threaded
// simulation needs no other one: it commits, and reads the history with Events. Time is that of
// package time, which testing/synctest replaces; WithoutExpiry does without it.
//
// A store keeps the values it is given and returns the same slices. The caller must not modify a
// value after Commit or after reading it.
package memstore

import (
	"context"
	"sort"
	"strings"
	"sync"

	"github.com/tidwall/btree"

	"github.com/escher-sched/escher/controlplane"
	"github.com/escher-sched/escher/types"
)

// Store is a controlplane.Store in memory. Its methods may be called concurrently.
type Store struct {
	limits controlplane.Limits
	expire bool

	mu sync.RWMutex
	// revision is the newest revision; an empty store is at 1, like etcd.
	revision int64
	// compacted is the last revision passed to Compact.
	compacted int64
	// history holds the changes of each revision from base on, without gaps.
	history []controlplane.Batch
	base    int64
	// entries finds a key, and ordered walks the keys in order; both have the same content.
	entries map[string]*entry
	ordered *btree.Map[string, *entry]
	// txn counts transactions, to find keys that one writes twice.
	txn int64

	// used is the size of the versions in bytes. file is its largest value since the last
	// defragmentation, and quota the limit of file. full reports whether the alarm is raised.
	used, file, quota int64
	full              bool

	leases    map[controlplane.LeaseID]*lease
	lastLease controlplane.LeaseID

	watchers      watchers
	progressArmed bool
}

// entry is a key with its stored versions, newest last.
type entry struct {
	key      string
	versions []controlplane.Event
	lease    *lease
	// writtenBy is the last transaction that wrote it.
	writtenBy int64
}

var _ controlplane.Store = (*Store)(nil)

// Option configures a Store in New.
type Option func(*Store)

// WithLimits sets the limits. The default is those of Escher's own etcd.
func WithLimits(limits controlplane.Limits) Option {
	return func(s *Store) { s.limits = limits }
}

// WithoutExpiry makes leases last until they are revoked or passed to ExpireLease.
func WithoutExpiry() Option {
	return func(s *Store) { s.expire = false }
}

// New returns an empty store.
func New(opts ...Option) *Store {
	s := &Store{
		limits:   controlplane.Limits{Ops: 4096, Bytes: 1536 << 10},
		expire:   true,
		quota:    defaultQuota,
		revision: 1,
		base:     2,
		entries:  map[string]*entry{},
		ordered:  btree.NewMap[string, *entry](0),
		leases:   map[controlplane.LeaseID]*lease{},
		watchers: watchers{byPrefix: map[string][]*watcher{}},
	}
	for _, opt := range opts {
		opt(s)
	}
	return s
}

// Limits returns the largest size of a transaction.
func (s *Store) Limits() controlplane.Limits { return s.limits }

// Revision returns the newest revision.
func (s *Store) Revision() int64 {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return s.revision
}

// List reads a range of keys: see controlplane.Store.
func (s *Store) List(ctx context.Context, opts controlplane.ListOptions) (controlplane.Page, error) {
	if err := ctx.Err(); err != nil {
		return controlplane.Page{}, types.Errorf(types.Unavailable, "list %s%s: %w", opts.Key, opts.Prefix, err)
	}
	s.mu.RLock()
	defer s.mu.RUnlock()
	if err := s.readable(opts.Revision); err != nil {
		return controlplane.Page{}, err
	}
	page := controlplane.Page{Revision: opts.Revision}
	if page.Revision == 0 {
		page.Revision = s.revision
	}
	if len(opts.Keys) > s.limits.Ops {
		return controlplane.Page{}, types.Errorf(types.Invalid, "list %d keys: the store reads %d at once: ask for fewer", len(opts.Keys), s.limits.Ops)
	}
	for _, key := range opts.Keys {
		if e := s.entries[key]; e != nil {
			if kv, ok := e.at(page.Revision); ok {
				page.KVs = append(page.KVs, kv)
			}
		}
	}
	if len(opts.Keys) > 0 {
		return page, nil
	}
	s.walk(opts, func(e *entry) bool {
		kv, ok := e.at(page.Revision)
		if !ok {
			return true
		}
		if opts.Limit > 0 && len(page.KVs) == opts.Limit {
			page.More = true
			return false
		}
		if opts.KeysOnly {
			kv.Value, kv.Lease = nil, 0
		}
		page.KVs = append(page.KVs, kv)
		return true
	})
	return page, nil
}

// readable returns an error unless a listing can be pinned to the revision; 0 means no pin.
func (s *Store) readable(revision int64) error {
	switch {
	case revision == 0:
		return nil
	case revision > s.revision:
		return types.Errorf(types.Invalid, "list at revision %d: the newest is %d", revision, s.revision)
	case revision < s.compacted:
		return types.Errorf(types.Compacted, "list at revision %d: compacted at %d", revision, s.compacted)
	}
	return nil
}

// walk calls visit for the entries of a range, in order, until it returns false.
func (s *Store) walk(opts controlplane.ListOptions, visit func(*entry) bool) {
	if opts.Key != "" {
		if e := s.entries[opts.Key]; e != nil && opts.Key > opts.After {
			visit(e)
		}
		return
	}
	s.ordered.Ascend(max(opts.Prefix, opts.After), func(key string, e *entry) bool {
		if !strings.HasPrefix(key, opts.Prefix) {
			return false
		}
		if opts.After != "" && key <= opts.After {
			return true
		}
		return visit(e)
	})
}

// newest returns the present state of the key; a deleted one has revisions of 0.
func (e *entry) newest() controlplane.KV {
	if last := e.versions[len(e.versions)-1]; !last.Delete {
		return last.KV
	}
	return controlplane.KV{Key: e.key}
}

// at returns the key at a revision.
func (e *entry) at(revision int64) (controlplane.KV, bool) {
	n := len(e.versions)
	// Most reads want the newest revision.
	if last := e.versions[n-1]; last.ModRevision <= revision {
		return last.KV, !last.Delete
	}
	i := sort.Search(n, func(i int) bool { return e.versions[i].ModRevision > revision })
	if i == 0 {
		return controlplane.KV{}, false
	}
	return e.versions[i-1].KV, !e.versions[i-1].Delete
}
