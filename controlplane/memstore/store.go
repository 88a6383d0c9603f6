// Package memstore is the store of a cluster in memory: etcd's semantics with
// nothing underneath, for tests and simulations. It passes storetest.Run.
//
// Every method but Watch runs to its end in the caller's goroutine, so that a
// single-threaded simulation needs no other one: it commits, and reads what
// happened with Events. Time is the time package's, which testing/synctest
// replaces; WithoutExpiry leaves it out altogether.
//
// A store keeps the values it is given and hands out the same slices: nobody may
// modify a value after Commit or after reading it.
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

// Store is a controlplane.Store in memory. Its methods may be called
// concurrently.
type Store struct {
	limits controlplane.Limits
	expire bool

	mu sync.RWMutex
	// revision is the newest; an empty store is at 1, as etcd's is.
	revision int64
	// compacted is the last revision given to Compact.
	compacted int64
	// history holds the changes of each revision from base on, none missing.
	history []controlplane.Batch
	base    int64
	// entries finds a key, ordered walks them in order; both hold the same.
	entries map[string]*entry
	ordered *btree.Map[string, *entry]
	// txn counts transactions, to find keys that one writes twice.
	txn int64

	// used is what the versions take in bytes, file how much that was at most since the
	// last defragmentation, quota how much file may be, and full whether the alarm is raised.
	used, file, quota int64
	full              bool

	leases    map[controlplane.LeaseID]*lease
	lastLease controlplane.LeaseID

	watchers      watchers
	progressArmed bool
}

// entry is a key with what is kept of its past, the newest last.
type entry struct {
	key      string
	versions []controlplane.Event
	lease    *lease
	// writtenBy is the transaction that wrote it last.
	writtenBy int64
}

var _ controlplane.Store = (*Store)(nil)

// Option changes a Store that is being made.
type Option func(*Store)

// WithLimits sets what Limits returns and Commit enforces. The default is the
// limits of the etcd that Escher runs itself.
func WithLimits(limits controlplane.Limits) Option {
	return func(s *Store) { s.limits = limits }
}

// WithoutExpiry makes leases last until they are revoked or given to ExpireLease.
func WithoutExpiry() Option {
	return func(s *Store) { s.expire = false }
}

// New makes an empty store.
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

// Limits says how large a transaction may be.
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

// readable tells whether a listing can be pinned to the revision; 0 is no pin.
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

// newest returns the key as it is now; a deleted one has revisions of 0.
func (e *entry) newest() controlplane.KV {
	if last := e.versions[len(e.versions)-1]; !last.Delete {
		return last.KV
	}
	return controlplane.KV{Key: e.key}
}

// at returns the key as it was at a revision.
func (e *entry) at(revision int64) (controlplane.KV, bool) {
	n := len(e.versions)
	// Most reads are of the newest revision.
	if last := e.versions[n-1]; last.ModRevision <= revision {
		return last.KV, !last.Delete
	}
	i := sort.Search(n, func(i int) bool { return e.versions[i].ModRevision > revision })
	if i == 0 {
		return controlplane.KV{}, false
	}
	return e.versions[i-1].KV, !e.versions[i-1].Delete
}
