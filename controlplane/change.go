package controlplane

import (
	"context"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/cenkalti/backoff/v5"

	"github.com/escher-sched/escher/types"
)

// Change builds a transaction. Every value it puts is marked with its batch id,
// so that a writer whose commit was not answered can recognise it.
type Change struct {
	// Batch is the id; unique, not 0.
	Batch uint64

	txn Txn
	// compared says where the compare of a key is that was added last.
	compared map[string]int
	// written are the keys of its first operations, as many as were asked about, and
	// whether they are put.
	written map[string]bool
	// buf has room for the values of further operations; largest is how long those were
	// that it had no room for.
	buf     []byte
	largest int
	// bytes is about how large the request is, rather more than less.
	bytes int
}

// NewChange returns an empty change with the given batch id.
func NewChange(batch uint64) *Change {
	return &Change{Batch: batch}
}

// NewBatch returns a fresh batch id.
func NewBatch() uint64 { return rand.Uint64() | 1 }

// IfUnchanged makes the change depend on the key's last change being that of
// revision; 0: on its absence.
func (c *Change) IfUnchanged(key string, revision int64) {
	c.compare(Compare{Key: key, Target: ModRevision, Revision: revision})
}

// IfCreated makes the change depend on the key having been created at revision;
// 0: on its absence.
func (c *Change) IfCreated(key string, revision int64) {
	c.compare(Compare{Key: key, Target: CreateRevision, Revision: revision})
}

// IfNoneSince makes the change depend on no key that begins with prefix having
// come, or changed, after revision; 0: on there being none. See Newest.
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

// Grow makes room for so many compares more.
func (c *Change) Grow(compares int) {
	c.txn.Compares = slices.Grow(c.txn.Compares, compares)
	if c.compared == nil {
		c.compared = make(map[string]int, compares)
	}
}

// Expect makes room for so many compares and operations more: about how many will come.
func (c *Change) Expect(compares, ops int) {
	c.txn.Compares = slices.Grow(c.txn.Compares, compares)
	c.txn.Ops = slices.Grow(c.txn.Ops, ops)
}

// If adds a condition of which the caller knows that it is not there yet: once too
// often would do no harm but take room.
func (c *Change) If(x Compare) {
	c.txn.Compares = append(c.txn.Compares, x)
	c.bytes += x.bytes()
}

// bytes is about what a compare takes in a request. Its key is sent twice, as it is
// read back if a compare fails, and of a range that is both ends.
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
	c.write(Op{Key: key, Value: value, Lease: lease})
	return len(value)
}

// Values are encoded one behind the other into blocks of memory, larger ones as
// there are more.
const (
	firstBlock   = 256
	largestBlock = 64 << 10
)

// encode encodes a value.
func (c *Change) encode(m types.Message) []byte {
	if room := cap(c.buf) - len(c.buf); room < max(firstBlock/2, c.largest) {
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

// writes reports whether the change writes a key, puts whether it puts it.
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

// Txn returns the transaction; the change must not be added to afterwards.
func (c *Change) Txn() Txn { return c.txn }

// Size returns how many compares and operations the change has.
func (c *Change) Size() (compares, ops int) { return len(c.txn.Compares), len(c.txn.Ops) }

// Bytes returns about how large the change is as a request, rather more than less.
func (c *Change) Bytes() int { return c.bytes }

// entryBytes is about what a compare or an operation takes in a request besides
// its key and value.
const entryBytes = 16

// Commit commits txn and settles what is not answered: an Unknown outcome is
// pending, not failed, so the identical transaction is sent again until there is
// an answer or ctx is done. An answer "not committed" after an Unknown one may be
// the doing of the first copy: then what it put is looked for.
//
// Unavailable is tried again too. When ctx is done the error is Unknown if a copy
// was not answered, and Unavailable if nothing can have happened.
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

// permanent marks an error after which trying again is of no use.
func permanent(err error) error {
	if err == nil || types.ClassOf(err).Retryable() {
		return err
	}
	return backoff.Permanent(err)
}

// settle finds out whether an unanswered copy of txn was committed: then what it
// put is there, marked with its batch id; of one that only deletes, the keys are gone. When it was overwritten since, the
// change is reported as not committed, which is true of the present state.
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
			return res, types.Errorf(types.Unknown, "commit: it was not answered, and what became of it cannot be read: %w", err)
		}
		if len(page.KVs) == 1 && types.Batch(page.KVs[0].Value) == types.Batch(op.Value) {
			return Result{Committed: true, Revision: page.KVs[0].ModRevision}, nil
		}
	}
	return res, nil
}

// deleted reports whether txn only deletes, and what was read is what it leaves behind: the
// keys that it deletes are absent, and all other compares hold.
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

// RetryPolicy is the one way in which calls to the store are tried again.
func RetryPolicy() backoff.BackOff {
	b := backoff.NewExponentialBackOff()
	b.InitialInterval = 20 * time.Millisecond
	b.MaxInterval = 2 * time.Second
	return b
}
