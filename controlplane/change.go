package controlplane

import (
	"cmp"
	"context"
	"maps"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/cenkalti/backoff/v5"

	"github.com/escher-sched/escher/types"
)

// A Change builds a transaction. It marks every value it puts with its batch id, so that a writer
// recognizes its own values after an unanswered commit.
type Change struct {
	// Batch is the id: unique, never 0.
	Batch uint64

	txn Txn
	// compared holds the index of the latest compare of each key.
	compared map[string]int
	// written caches the keys of the first len(written) operations; true means a put.
	written map[string]bool
	// buf has free capacity for the values of further operations. largest is the size in bytes of
	// the largest value that did not fit.
	buf     []byte
	largest int
	// bytes estimates the size of the request, and errs upward.
	bytes int
}

// NewChange returns an empty change with the given batch id.
func NewChange(batch uint64) *Change {
	return &Change{Batch: batch}
}

// NewBatch returns a fresh batch id.
func NewBatch() uint64 { return rand.Uint64() | 1 }

// IfUnchanged makes the change depend on the key's ModRevision being revision; 0 means the key is
// absent.
func (c *Change) IfUnchanged(key string, revision int64) {
	c.compare(Compare{Key: key, Target: ModRevision, Revision: revision})
}

// IfCreated is IfUnchanged for the CreateRevision of the key.
func (c *Change) IfCreated(key string, revision int64) {
	c.compare(Compare{Key: key, Target: CreateRevision, Revision: revision})
}

// IfNoneSince makes the change depend on no key below prefix being created or changed after
// revision; 0 means no such key exists. See Newest.
func (c *Change) IfNoneSince(prefix string, revision int64) {
	c.compare(Compare{Key: prefix, Target: Newest, Revision: revision})
}

func (c *Change) compare(x Compare) {
	if at, ok := c.compared[x.Key]; ok && c.txn.Compares[at] == x {
		return
	}
	if c.compared == nil {
		c.compared = make(map[string]int)
	}
	c.compared[x.Key] = len(c.txn.Compares)
	c.If(x)
}

// Depends reports whether IfUnchanged would add nothing to the change.
func (c *Change) Depends(key string, revision int64) bool {
	at, ok := c.compared[key]
	return ok && c.txn.Compares[at] == Compare{Key: key, Target: ModRevision, Revision: revision}
}

// Grow reserves capacity for further compares.
func (c *Change) Grow(compares int) {
	c.txn.Compares = slices.Grow(c.txn.Compares, compares)
	if c.compared == nil {
		c.compared = make(map[string]int, compares)
	}
}

// Expect reserves capacity for about that many further compares and operations.
func (c *Change) Expect(compares, ops int) {
	c.txn.Compares = slices.Grow(c.txn.Compares, compares)
	c.txn.Ops = slices.Grow(c.txn.Ops, ops)
}

// If adds a condition that the caller knows is not there yet. A duplicate is harmless and takes
// space.
func (c *Change) If(x Compare) {
	c.txn.Compares = append(c.txn.Compares, x)
	c.bytes += x.bytes()
}

// bytes estimates the size of a compare in a request. Its key counts twice, because a failed
// compare reads it back. A range has two ends, so its key counts four times.
func (c Compare) bytes() int {
	if c.Target == Newest {
		return 2 * (2*len(c.Key) + 2*entryBytes)
	}
	return 2*(len(c.Key)+entryBytes) + len(c.Content)
}

// Put writes m under key and returns the size of its encoding in bytes.
func (c *Change) Put(key string, m types.Message) int { return c.PutOn(key, m, 0) }

// PutOn writes m under key, on a lease.
func (c *Change) PutOn(key string, m types.Message, lease LeaseID) int {
	value := c.encode(m)
	c.txn.Invalid = cmp.Or(c.txn.Invalid, types.CheckSize(key, m, len(value)))
	c.write(Op{Key: key, Value: value, Lease: lease})
	return len(value)
}

// Change encodes values one after the other into blocks of memory. The blocks grow with the number
// of values.
const (
	firstBlock   = 256
	largestBlock = 64 << 10
)

// encode encodes m into the buffer and returns the encoding, which the change owns.
func (c *Change) encode(m types.Message) []byte {
	if free := cap(c.buf) - len(c.buf); free < max(firstBlock/2, c.largest) {
		c.buf = make([]byte, 0, min(largestBlock, max(firstBlock, 2*cap(c.buf), 2*c.largest)))
	}
	value := types.AppendEncode(c.buf[len(c.buf):], c.Batch, m)
	if len(value) <= cap(c.buf)-len(c.buf) {
		c.buf = c.buf[:len(c.buf)+len(value)]
	} else {
		c.largest = max(c.largest, len(value))
	}
	return value[:len(value):len(value)]
}

// Delete deletes key.
func (c *Change) Delete(key string) {
	c.write(Op{Key: key, Delete: true})
}

func (c *Change) write(op Op) {
	c.txn.Ops = append(c.txn.Ops, op)
	c.bytes += len(op.Key) + len(op.Value) + entryBytes
}

// writes reports whether the change writes a key; puts reports whether it puts it.
func (c *Change) writes(key string) bool {
	_, writes := c.keys()[key]
	return writes
}

func (c *Change) puts(key string) bool { return c.keys()[key] }

func (c *Change) keys() map[string]bool {
	if c.written == nil {
		c.written = make(map[string]bool)
	}
	for _, op := range c.txn.Ops[len(c.written):] {
		c.written[op.Key] = !op.Delete
	}
	return c.written
}

// Txn returns the transaction. The caller adds nothing to the change afterwards.
func (c *Change) Txn() Txn { return c.txn }

// Size returns the numbers of compares and operations.
func (c *Change) Size() (compares, ops int) { return len(c.txn.Compares), len(c.txn.Ops) }

// Bytes estimates the size of the request in bytes, and errs upward.
func (c *Change) Bytes() int { return c.bytes }

// entryBytes estimates what a compare or an operation takes in a request besides its key and value.
const entryBytes = 16

// Commit commits txn and resolves unanswered commits. An Unknown outcome is pending, not failed:
// Commit sends the identical transaction again until there is an answer or ctx is done. "Not
// committed" after an Unknown outcome may mean that the first copy was committed: then Commit looks
// for the values it put.
//
// Commit retries after Unavailable too. When ctx is done, the error is Unknown if a copy was not
// answered, and Unavailable if no copy can have been committed.
func Commit(ctx context.Context, s Store, txn Txn) (Result, error) {
	ambiguous := false
	var last error
	send := func() (Result, error) {
		res, err := s.Commit(ctx, txn)
		ambiguous = ambiguous || types.Is(err, types.Unknown)
		last = err
		return res, permanent(err)
	}
	res, err := retry(ctx, send)
	switch {
	case err != nil && ctx.Err() != nil && ambiguous:
		return res, types.Errorf(types.Unknown, "commit: %w: %w", context.Cause(ctx), last)
	case err != nil && ctx.Err() != nil:
		return res, types.Errorf(types.Unavailable, "commit: %w: %w", context.Cause(ctx), last)
	case err != nil || res.Committed || !ambiguous:
		return res, err
	}
	return settle(ctx, s, txn, res)
}

// retry calls f until it succeeds, fails for good, or ctx is done.
func retry[T any](ctx context.Context, f func() (T, error)) (T, error) {
	return backoff.Retry(ctx, f, backoff.WithBackOff(RetryPolicy()), backoff.WithMaxElapsedTime(0))
}

// permanent marks an error that a retry cannot fix.
func permanent(err error) error {
	if err == nil || types.ClassOf(err).Retryable() {
		return err
	}
	return backoff.Permanent(err)
}

// settle reports whether an unanswered copy of txn was committed. If so, the keys it put bear its
// batch id, or the keys it only deleted are gone. If another writer has overwritten them since,
// settle reports the change as not committed, which is true of the present state.
func settle(ctx context.Context, s Store, txn Txn, res Result) (Result, error) {
	if deleted(txn, res.Read) {
		return Result{Committed: true, Revision: res.Revision}, nil
	}
	for _, op := range txn.Ops {
		if op.Delete {
			continue
		}
		page, err := retry(ctx, func() (Page, error) {
			page, err := s.List(ctx, ListOptions{Key: op.Key})
			return page, permanent(err)
		})
		if err != nil {
			return res, types.Errorf(types.Unknown, "commit: the store did not answer, and the outcome cannot be read: %w", err)
		}
		if len(page.KVs) == 1 && types.Batch(page.KVs[0].Value) == types.Batch(op.Value) {
			return Result{Committed: true, Revision: page.KVs[0].ModRevision}, nil
		}
	}
	return res, nil
}

// deleted reports whether txn only deletes, and read shows its effect: the deleted keys are absent,
// and all other compares hold.
func deleted(txn Txn, read []KV) bool {
	absent := make(map[string]bool, len(txn.Compares))
	for i, kv := range read {
		absent[txn.Compares[i].Key] = kv.ModRevision == 0
	}
	deletes := make(map[string]bool, len(txn.Ops))
	for _, op := range txn.Ops {
		if deletes[op.Key] = true; !op.Delete || !absent[op.Key] {
			return false
		}
	}
	for i, c := range txn.Compares {
		if !deletes[c.Key] && !c.Holds(read[i]) {
			return false
		}
	}
	return len(deletes) > 0
}

// RetryPolicy returns the one backoff schedule for calls to the store: from 20 ms to 2 s, without
// end.
func RetryPolicy() backoff.BackOff {
	b := backoff.NewExponentialBackOff()
	b.InitialInterval = 20 * time.Millisecond
	b.MaxInterval = 2 * time.Second
	return b
}

// A ReadSet holds the keys a decision was computed from, each with the revision of its last change;
// 0 means absent. It can be sent as JSON.
type ReadSet map[string]int64

// Add merges other into r. Conflict: a key has two revisions.
func (r ReadSet) Add(other ReadSet) error {
	for _, key := range slices.Sorted(maps.Keys(other)) {
		if was, ok := r[key]; ok && was != other[key] {
			return types.Errorf(types.Conflict, "read %s: it moved from revision %d to %d while the decision was made: read again, decide again",
				key, was, other[key])
		}
		r[key] = other[key]
	}
	return nil
}

// compare makes the change depend on every key of r.
func (r ReadSet) compare(c *Change) {
	for _, key := range slices.Sorted(maps.Keys(r)) {
		c.IfUnchanged(key, r[key])
	}
}

// changed returns a Conflict, caused by types.KeyChanged, for the first found key with another revision
// than in r; nil if there is none.
func (r ReadSet) changed(found []KV) error {
	for _, kv := range found {
		if was, ok := r[kv.Key]; ok && was != kv.ModRevision {
			return types.Errorf(types.Conflict, "%w: read again, decide again", types.KeyChanged{Key: kv.Key, Was: was, Is: kv.ModRevision})
		}
	}
	return nil
}
