package controlplane

import (
	"context"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/escher-sched/escher/controlplane/supervise"
	"github.com/escher-sched/escher/types"
)

// An edit is one requested change, such as setting a resource. Its writes depend on the present
// state: perform drafts it, sends it, and drafts it again if a compared key has changed meanwhile.
type edit interface {
	// verb names the action for errors: "set resource x".
	verb() string
	// draw reads what it needs and adds its compares and writes to change.
	draw(ctx context.Context, s Store, change *Change) error
	// refused receives the compared keys that had changed. It returns an error if a new draft
	// cannot succeed.
	refused(ctx context.Context, s Store, keys []KV) error
	// done is called once the latest draft is committed.
	done(revision int64)
	// once reports whether its writes can only ever happen once, because their keys are never
	// reused.
	once() bool
}

// A guesser is an edit that can be drafted without reading, from what its client remembers.
type guesser interface {
	edit
	// guess allows that for the next draft.
	guess()
}

// maxRedraws bounds the drafts for one transaction: each one more lost to another writer.
const maxRedraws = 100

// perform commits edits as one transaction on the condition of reads, and returns its revision.
// Conflict: a key in reads has changed; the error names it.
func perform(ctx context.Context, s Store, reads ReadSet, edits ...edit) (int64, error) {
	for _, e := range edits {
		if g, ok := e.(guesser); ok {
			g.guess()
		}
	}
	for try := range maxRedraws {
		change, err := draw(ctx, s, reads, edits)
		if err != nil {
			return 0, err
		}
		rec := &recorder{Store: s}
		res, err := Commit(ctx, rec, change.Txn())
		switch {
		case err != nil:
			return 0, failed(edits, err)
		case !res.Committed && rec.unanswered:
			res, err = recheckUnanswered(ctx, s, reads, edits, change, res)
		case !res.Committed:
			err = explain(ctx, s, reads, edits, differing(change.Txn(), res.Read))
		}
		if err != nil {
			return 0, failed(edits, err)
		}
		if res.Committed {
			for _, e := range edits {
				e.done(res.Revision)
			}
			return res.Revision, nil
		}
		if err := supervise.Pause(ctx, time.Duration(rand.Int64N(int64(try+1)))*time.Millisecond); err != nil {
			return 0, failed(edits, types.Errorf(types.Unavailable, "other writers keep changing the same keys: %w", err))
		}
	}
	return 0, failed(edits, types.Errorf(types.Conflict, "other writers changed it %d times in a row: try again later", maxRedraws))
}

// failed prefixes an error with the action that failed. It keeps the class of the cause.
func failed(edits []edit, err error) error {
	text, launches := edits[0].verb(), func(e edit) bool { _, ok := e.(*launch); return ok }
	if len(edits) > 1 && (!launches(edits[0]) || slices.ContainsFunc(edits[1:], launches)) {
		text = "commit"
	}
	return types.Errorf(types.ClassOf(err), "%s: %w", text, err)
}

// draw drafts one transaction of the edits, within the limits of the store.
func draw(ctx context.Context, s Store, reads ReadSet, edits []edit) (*Change, error) {
	change, err := drawn(ctx, s, reads, edits)
	if err != nil {
		return nil, err
	}
	if err := fits(change, s.Limits()); err != nil {
		return nil, failed(edits, err)
	}
	return change, nil
}

// drawn drafts one transaction of the edits, however large.
func drawn(ctx context.Context, s Store, reads ReadSet, edits []edit) (*Change, error) {
	change := NewChange(NewBatch())
	reads.compare(change)
	for _, e := range edits {
		if err := e.draw(ctx, s, change); err != nil {
			return nil, types.Errorf(types.ClassOf(err), "%s: %w", e.verb(), err)
		}
	}
	return change, nil
}

// fits refuses a transaction larger than the store takes at once.
func fits(change *Change, limits Limits) error {
	compares, ops := change.Size()
	if n := max(compares, ops); n > limits.Ops {
		return errorTooLarge("the transaction has %d compares and %d operations, and the store takes %d at once: "+
			"make it smaller, or run etcd with a larger --max-txn-ops", compares, ops, limits.Ops)
	}
	if n := change.bytes; n > limits.Bytes {
		return errorTooLarge("the transaction has %d bytes, and the store takes %d at once: make it smaller, "+
			"or run etcd with a larger --max-request-bytes", n, limits.Bytes)
	}
	return nil
}

// differing returns the found values of the compares that did not hold.
func differing(txn Txn, found []KV) []KV {
	var out []KV
	for i, c := range txn.Compares {
		if i == len(found) {
			break
		}
		if !c.Holds(found[i]) {
			out = append(out, found[i])
		}
	}
	return out
}

// explain returns why another draft of the edits cannot succeed, or nil if it may.
func explain(ctx context.Context, s Store, reads ReadSet, edits []edit, found []KV) error {
	if err := reads.changed(found); err != nil {
		return err
	}
	for _, e := range edits {
		if err := e.refused(ctx, s, found); err != nil {
			return err
		}
	}
	return nil
}

// recheckUnanswered decides about a transaction with an unanswered copy that left no trace. Another commit
// might undo what another writer did after that copy. So it counts as committed only if nothing is
// left to write.
func recheckUnanswered(ctx context.Context, s Store, reads ReadSet, edits []edit, sent *Change, res Result) (Result, error) {
	if !slices.ContainsFunc(edits, func(e edit) bool { return !e.once() }) {
		return res, explain(ctx, s, reads, edits, differing(sent.Txn(), res.Read))
	}
	change, err := draw(ctx, s, nil, edits)
	if err != nil {
		return res, err
	}
	if _, ops := change.Size(); ops == 0 {
		return Result{Committed: true, Revision: res.Revision}, nil
	}
	return res, types.Errorf(types.Conflict, "the store did not answer, and the keys to write have changed since: read again, decide again")
}

// recorder notes whether a commit was not answered.
type recorder struct {
	Store
	unanswered bool
}

// Commit implements Store.
func (r *recorder) Commit(ctx context.Context, txn Txn) (Result, error) {
	res, err := r.Store.Commit(ctx, txn)
	r.unanswered = r.unanswered || types.Is(err, types.Unknown)
	return res, err
}
