// Package controlplane gives access to the state of a cluster. It has the keys, the transactions
// that change them, the one list-watch loop, and the client for applications, policy libraries,
// schedulers and agents.
package controlplane

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/escher-sched/escher/types"
	"github.com/escher-sched/escher/types/action"
)

// ErrFull is in the chain of a Precondition error when the database has reached its quota. The
// store then refuses every put and every new lease. Reads, deletions and renewals still work; the
// collector frees space. A component waits and retries: the refused call did nothing.
var ErrFull = errors.New("the database is full; compact and defragment it, or raise its quota")

// A Store is the narrow waist of Escher: every read and every change of state goes through its
// methods. There are two implementations, etcd (package etcdstore) and memory (package memstore);
// both pass storetest.Run.
//
// Every change is a revision of the whole store. Errors carry a class of package types: Unavailable
// (nothing was done), Precondition with ErrFull, Unknown (from Commit only: sent but not answered,
// may happen now, later or never), Compacted (the revision is gone), Invalid (the request exceeds a
// limit of the store).
type Store interface {
	// List reads a range of keys, all at one revision. See ListOptions.
	List(ctx context.Context, opts ListOptions) (Page, error)

	// Commit applies all operations of txn if all its compares hold, else nothing. Failed compares
	// are an answer, not an error: Result.Committed is false and Result.Read holds the compared
	// keys.
	Commit(ctx context.Context, txn Txn) (Result, error)

	// Watch delivers every change of the range from opts.From on, in the order of revisions, all
	// changes of one revision in one Batch. It ends when ctx is done or with a Batch whose Err is
	// set, and then closes the channel. It has no gaps: either it delivers an event, or it ends.
	Watch(ctx context.Context, opts WatchOptions) <-chan Batch

	// GrantLease creates a lease that ends ttl after its last renewal and then deletes its keys. It
	// rounds ttl up to whole seconds.
	GrantLease(ctx context.Context, ttl time.Duration) (LeaseID, error)

	// RenewLease renews a lease once and returns its time to live according to the store. NotFound:
	// the lease has ended.
	RenewLease(ctx context.Context, id LeaseID) (time.Duration, error)

	// RevokeLease ends a lease and deletes its keys. NotFound is success.
	RevokeLease(ctx context.Context, id LeaseID) error

	// Limits returns the largest size of a transaction.
	Limits() Limits
}

// LeaseID names a lease; 0 means no lease.
type LeaseID int64

// Limits bounds one transaction. Ops bounds its compares and its operations separately; Bytes
// bounds the whole request. etcd's own defaults are 128 and 1.5 MiB; the etcd that Escher runs
// allows 4,096 operations.
type Limits struct {
	Ops   int
	Bytes int
}

// KV is a key at some revision.
type KV struct {
	Key            string
	Value          []byte
	CreateRevision int64
	ModRevision    int64
	Lease          LeaseID
}

// ListOptions selects what List reads.
type ListOptions struct {
	// Prefix selects all keys that begin with it; Key selects a single key.
	Prefix string
	Key    string
	// Keys selects single keys, at most Limits.Ops of them; only Revision applies to them.
	Keys []string
	// After continues a listing: it selects only greater keys.
	After string
	// Limit bounds the number of keys of a page; 0 means no bound.
	Limit int
	// Revision pins the listing to a revision; 0 means the newest. Compacted: the store no longer
	// has that revision.
	Revision int64
	// KeysOnly leaves out values and leases.
	KeysOnly bool
}

// A Page is the result of List.
type Page struct {
	// KVs are in the order of their keys, or of ListOptions.Keys.
	KVs []KV
	// Revision is the revision read: the requested one, or that of the store if none was requested.
	Revision int64
	// More reports whether Limit cut the listing short.
	More bool
}

// Txn is a flat transaction: all of Ops, if all of Compares hold. It writes no key twice.
type Txn struct {
	// Compares are conditions that must all hold.
	Compares []Compare
	// Ops are applied together, at one revision.
	Ops []Op
	// Sent, unless nil, is called when the transaction is on its way, each time it is sent. A caller
	// that waits for it before it sends the next transaction keeps their order, with rare exceptions.
	Sent func()
	// Invalid, unless nil, is why the store must refuse the transaction: no reader takes a value of it.
	Invalid error
}

// Guarded reports whether applying the transaction makes one of its own compares fail, so that a
// copy of it can never be applied again.
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
	// Key is the compared key, or the prefix of a range for Newest.
	Key string
	// Target is the attribute to compare with Revision, or with Content for Value.
	Target Target
	// Revision is the expected revision; 0 means that the key is absent.
	Revision int64
	// Content is the expected value of the key for Value, to the byte.
	Content string
}

// Holds reports whether the compare holds for the key as read back.
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

// Target is the attribute of a key, or of a range of keys, to compare.
type Target int

// The targets of a Compare.
const (
	// ModRevision is the revision of the last change.
	ModRevision Target = iota
	// CreateRevision is the revision at which the key was created. For alive/<node> it is the
	// session of the node.
	CreateRevision
	// Newest is the last change of any key that begins with Key. The compare holds if that is at or
	// before Revision; with 0, if there is no such key. It does not notice deletions. The store
	// reads the whole range, values included: use it for small ranges only.
	Newest
	// Value is the value of a key, which must exist. It replaces the revision of the last change
	// before that is known, if no other change puts the same value.
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
	// Committed reports whether the compares held.
	Committed bool
	// Revision is the revision of the store after the transaction. If Committed, all its changes
	// bear it.
	Revision int64
	// Read holds, if not Committed, the compared keys in the order of Compares. It has no leases,
	// and values only for Value compares; an absent key has ModRevision 0. It is nil if a Value
	// compare fails: a caller that compares an unanswered write expects that now and then, and
	// needs no more. For a failed Newest compare it holds the key of the range that changed last.
	// For a Newest compare that holds, it holds Key itself, as if absent.
	Read []KV
}

// WatchOptions selects what Watch delivers.
type WatchOptions struct {
	// Prefix selects all keys that begin with it.
	Prefix string
	// From is the first revision to deliver.
	From int64
}

// A Batch holds the changes of one revision. Without events it reports the progress of the watch,
// or its end.
type Batch struct {
	// Revision is the revision of the events. Without events, everything up to it has been
	// delivered.
	Revision int64
	// Events are in the order of the transaction's operations, at most one a key.
	Events []Event
	// Err is set on the last batch of a watch that ended for another reason than its context:
	// Compacted or Unavailable.
	Err error
}

// Event is a change of one key.
type Event struct {
	// KV is the key after the change. A delete sets only Key and ModRevision, the revision of the
	// delete.
	KV
	// Delete reports whether the key was deleted.
	Delete bool
}

// Read decodes the value of a key into m and reports whether it is readable. A value that is
// undecodable or invalid is quarantined. Every reader treats the key as absent, and every compare
// as present at its revision. Readers skip such keys; an audit lists and repairs them.
func Read(kv KV, m types.Message) bool { return types.Decode(kv.Value, m) == nil }

// Unreadable returns the error for a key with a quarantined value: NotFound.
func Unreadable(key string) error {
	return types.Errorf(types.NotFound, "%s is unreadable, so it counts as absent: %s", key, action.RepairKey.Of(key))
}

// Scan reads a whole range at one revision, which it returns: the requested one, or the newest. It
// calls take with one part after the other, in the order of keys; take owns the part. Scan stops at
// and returns an error of take. After another error, the parts taken existed at an unknown
// revision. opts.Limit bounds the keys of a page; 0 means the default of the store. A store with a
// method Scan reads the range by it, which is faster than pages.
func Scan(ctx context.Context, s Store, opts ListOptions, take func([]KV) error) (revision int64, err error) {
	fast, ok := s.(interface {
		Scan(ctx context.Context, opts ListOptions, take func([]KV) error) (revision int64, err error)
	})
	if ok {
		return fast.Scan(ctx, opts, take)
	}
	return ScanPages(ctx, s, opts, take)
}

// The default page sizes. etcd counts all keys from a page to the end of the range, so many small
// pages are expensive.
const (
	firstPage = 1000
	maxPage   = 100_000
	pageBytes = 4 << 20
)

// ScanPages implements Scan with Store.List alone.
func ScanPages(ctx context.Context, s Store, opts ListOptions, take func([]KV) error) (revision int64, err error) {
	adapt := opts.Limit == 0
	if adapt {
		opts.Limit = firstPage
	}
	for {
		page, err := s.List(ctx, opts)
		if err != nil {
			return 0, err
		}
		if err := take(page.KVs); err != nil {
			return 0, err
		}
		if !page.More {
			return page.Revision, nil
		}
		opts.Revision, opts.After = page.Revision, page.KVs[len(page.KVs)-1].Key
		if adapt {
			opts.Limit = nextPage(page.KVs)
		}
	}
}

// nextPage returns the number of keys that fill pageBytes, if they are like those of the last page.
func nextPage(last []KV) int {
	size := 0
	for _, kv := range last {
		size += len(kv.Key) + len(kv.Value) + 16
	}
	return min(max(len(last)*pageBytes/size, 1), 8*len(last), maxPage)
}

// ListAll reads a whole range at one revision, which it returns: the requested one, or the newest.
// It ignores Limit and After.
func ListAll(ctx context.Context, s Store, opts ListOptions) ([]KV, int64, error) {
	opts.Limit, opts.After = 0, ""
	var all []KV
	revision, err := Scan(ctx, s, opts, func(part []KV) error {
		all = append(all, part...)
		return nil
	})
	if err != nil {
		return nil, 0, err
	}
	return all, revision, nil
}

// Usage describes how full a database is.
type Usage struct {
	// Revision is the revision of the store.
	Revision int64
	// InUse is the size of the data, history included, and File the size on disk, both in bytes.
	// The file never shrinks: the store reuses its free pages first.
	InUse, File int64
	// Quota is the largest size of the file in bytes. Beyond it the store refuses everything but
	// deletions. 0 means unknown.
	Quota int64
	// Alarm reports whether the store refuses writes: see ErrFull.
	Alarm bool
}

// Share returns the fraction of the quota in use; 0 if the quota is unknown.
func (u Usage) Share() float64 {
	if u.Quota <= 0 {
		return 0
	}
	return float64(u.InUse) / float64(u.Quota)
}

// roomy is the percentage of the quota below which a file accepts further writes.
const roomy = 98

// Roomy reports whether the file has free space for further writes. In a full file the next write
// raises a cleared alarm again.
func (u Usage) Roomy() bool { return u.Quota <= 0 || u.File < u.Quota/100*roomy }

// Maintenance is the part of a store that the collector needs besides reads and writes.
type Maintenance interface {
	// Usage reports how full the store is.
	Usage(ctx context.Context) (Usage, error)
	// Compact drops the history before revision; nil if that is already gone.
	Compact(ctx context.Context, revision int64) error
	// Defragment rewrites the database without its free pages. If that made space, it lets the
	// store accept writes again; otherwise the error is Precondition with ErrFull. A member answers
	// no request meanwhile.
	Defragment(ctx context.Context) error
}
