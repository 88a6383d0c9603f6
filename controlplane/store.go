// Package controlplane is the way to the state of a cluster: its keys, the
// transactions that change them, the one list-watch loop, and the client that
// applications, libraries of policies, schedulers and agents are written with.
package controlplane

import (
	"context"
	"errors"
	"slices"
	"time"
)

// ErrFull is in the chain of an error of class Precondition when the store refuses every
// put and every new lease, as its database has reached its quota. Reads, transactions that
// only delete and renewals go on; the collector makes room. A component waits and tries
// again: nothing was done.
var ErrFull = errors.New("the database is full; compact and defragment it, or raise its quota")

// Store is the narrow waist of Escher: everything that is read or changed goes
// through these methods. There are two implementations, etcd (package
// etcdstore) and memory (package memstore); both pass storetest.Run.
//
// Every change is a revision of the whole store. Errors carry a class of
// package types: Unavailable (nothing was done), Precondition with ErrFull, Unknown (Commit only: sent, not
// answered, may happen now, later or never), Compacted (the revision is gone),
// Invalid (the request exceeds a limit of the store).
type Store interface {
	// List reads a range of keys, all at one revision. See ListOptions.
	List(ctx context.Context, opts ListOptions) (Page, error)

	// Commit applies all of txn's operations if all its compares hold, else
	// nothing. A transaction whose compares do not hold is an answer, not an
	// error: Result.Committed is false and Result.Read tells what was there.
	Commit(ctx context.Context, txn Txn) (Result, error)

	// Watch delivers every change of the range from opts.From on, in the
	// order of revisions, all changes of one revision in one Batch. It ends
	// when ctx is done or with a Batch whose Err is set, and the channel is
	// closed after that. There is no gap: either an event is delivered, or
	// the watch ends.
	Watch(ctx context.Context, opts WatchOptions) <-chan Batch

	// GrantLease makes a lease that ends ttl after the last renewal and takes
	// its keys with it. ttl is rounded up to whole seconds.
	GrantLease(ctx context.Context, ttl time.Duration) (LeaseID, error)

	// RenewLease renews a lease once and returns its time to live as the
	// store has it. NotFound: the lease has ended.
	RenewLease(ctx context.Context, id LeaseID) (time.Duration, error)

	// RevokeLease ends a lease and deletes its keys. NotFound is success.
	RevokeLease(ctx context.Context, id LeaseID) error

	// Limits says how large a transaction may be.
	Limits() Limits
}

// LeaseID names a lease; 0 is none.
type LeaseID int64

// Limits bounds one transaction: compares and operations are counted
// separately, each against Ops; Bytes is the size of the whole request.
// etcd's stock limits are 128 and 1.5 MiB; the etcd that Escher runs itself
// allows 4,096 operations.
type Limits struct {
	Ops   int
	Bytes int
}

// KV is a key as it is at some revision.
type KV struct {
	Key            string
	Value          []byte
	CreateRevision int64
	ModRevision    int64
	Lease          LeaseID
}

// ListOptions selects what List reads.
type ListOptions struct {
	// Prefix selects all keys that begin with it; for a single key set Key.
	Prefix string
	Key    string
	// After continues a listing: only keys greater than it are returned.
	After string
	// Limit bounds the number of keys of a page; 0 is no bound.
	Limit int
	// Revision pins the listing to a revision; 0 is the newest. Compacted
	// when it is no longer kept.
	Revision int64
	// KeysOnly leaves the values out, and the leases.
	KeysOnly bool
}

// Page is what List read.
type Page struct {
	// KVs are in the order of their keys.
	KVs []KV
	// Revision is the one that was read: of the store for an unpinned
	// listing, else the one asked for.
	Revision int64
	// More tells that Limit cut the listing short.
	More bool
}

// Txn is a flat transaction: all of Ops if all of Compares hold. No key is
// written twice.
type Txn struct {
	// Compares must all hold.
	Compares []Compare
	// Ops are applied together, at one revision.
	Ops []Op
	// Sent, unless nil, is called when the transaction is on its way: of those of one
	// caller that are sent in an order, seldom one arrives before another one then. Of one
	// that was not sent it is not called, of one that is sent again more than once.
	Sent func()
}

// Guarded reports whether the transaction, once applied, makes one of its own compares fail:
// a copy of it can then never be applied again.
func (t Txn) Guarded() bool {
	put := make(map[string]bool, len(t.Ops))
	for _, op := range t.Ops {
		put[op.Key] = !op.Delete
	}
	return slices.ContainsFunc(t.Compares, func(c Compare) bool {
		return put[c.Key] && (c.Target == ModRevision || c.Target == CreateRevision && c.Revision == 0)
	})
}

// Compare is one condition of a transaction.
type Compare struct {
	// Key is the key; of a Newest it is the prefix of a range of keys.
	Key string
	// Target says what is compared with Revision or, of a Value, with Content.
	Target Target
	// Revision is the expected value; 0 means that the key is absent.
	Revision int64
	// Content is the value of the key that is expected by a Value, to the byte.
	Content string
}

// Holds tells whether the compare holds for the key as it was read back.
func (c Compare) Holds(found KV) bool {
	switch c.Target {
	case CreateRevision:
		return found.CreateRevision == c.Revision
	case Newest:
		return found.ModRevision <= c.Revision
	case Value:
		return found.ModRevision != 0 && string(found.Value) == c.Content
	default:
		return found.ModRevision == c.Revision
	}
}

// Target is the attribute of a key, or of a range of keys, that is compared.
type Target int

// The targets of a Compare.
const (
	// ModRevision: the revision of the last change.
	ModRevision Target = iota
	// CreateRevision: the revision at which the key came to be. For
	// alive/<node> it is the session of the node.
	CreateRevision
	// Newest: the last change of any key that begins with Key is that of
	// Revision, or one before it; with 0 there is no such key. That one was
	// deleted is not noticed. The store reads the whole range, values
	// included, to tell: it is for small ranges alone.
	Newest
	// Value: the value of the key, which is there. It says what the revision of the last
	// change does before that is known, if no other change puts the same value.
	Value
)

// Op is one change: a put, or a delete when Delete is set.
type Op struct {
	Key    string
	Value  []byte
	Lease  LeaseID
	Delete bool
}

// Result is the answer to a transaction.
type Result struct {
	// Committed tells whether the compares held.
	Committed bool
	// Revision is the store's after the transaction: if Committed, the one
	// that all its changes bear.
	Revision int64
	// Read holds, if not Committed, the keys that were compared, in the order
	// of Compares, without leases, and without values but for a Value; an absent key has
	// ModRevision 0. It is nil if a Value does not hold: who compares what is not answered
	// yet expects that now and then, and needs no more. For a Newest that does not hold it is a key of the range that changed
	// last; for one that holds it is Key itself, as if absent.
	Read []KV
}

// WatchOptions selects what Watch delivers.
type WatchOptions struct {
	// Prefix selects all keys that begin with it.
	Prefix string
	// From is the first revision to deliver.
	From int64
}

// Batch is what changed at one revision or, without events, the progress of the
// watch, or its end.
type Batch struct {
	// Revision of the events. Without events: everything up to it has been
	// delivered.
	Revision int64
	// Events in the order of the transaction's operations, at most one a key.
	Events []Event
	// Err is set on the last batch of a watch that ended for another reason
	// than its context: Compacted or Unavailable.
	Err error
}

// Event is a change of one key.
type Event struct {
	// KV as it is after the change; for a delete only Key and ModRevision,
	// the revision of the delete, are set.
	KV
	// Delete tells that the key is gone.
	Delete bool
}
