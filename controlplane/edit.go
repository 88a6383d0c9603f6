package controlplane

import (
	"context"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/escher-sched/escher/controlplane/supervise"
	"github.com/escher-sched/escher/types"
)

// edit is a change that somebody asked for, such as a resource to be set. What it
// writes depends on what is there: it is drawn up, sent, and drawn up again if
// something it depends on has changed meanwhile.
type edit interface {
	// verb says what it does, for errors: "set resource x".
	verb() string
	// draw reads what it needs and adds its compares and writes to change.
	draw(ctx context.Context, s Store, change *Change) error
	// refused is told the compared keys that were not as expected, and returns
	// an error if drawing up again is of no use.
	refused(ctx context.Context, s Store, keys []KV) error
	// done is told that what was drawn up last is committed.
	done(revision int64)
	// once tells that what it writes is never written twice, as it is about
	// keys that are never used again.
	once() bool
}

// guesser is an edit that can be drawn up without reading, going by what its client
// remembers.
type guesser interface {
	edit
	// guess lets it do so the next time.
	guess()
}

// maxRedraws bounds how often edits are drawn up for one transaction: each time,
// somebody else's change came in between.
const maxRedraws = 100

// perform commits edits as one transaction on the condition of reads, and returns
// its revision. Conflict: something read has changed, which the error names.
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
			res, err = lookAgain(ctx, s, reads, edits, change, res)
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
			return 0, failed(edits, types.Errorf(types.Unavailable, "others change the same: %w", err))
		}
	}
	return 0, failed(edits, types.Errorf(types.Conflict, "it was changed by others %d times in a row: try again later", maxRedraws))
}

// failed says what could not be done. The class is the cause's.
func failed(edits []edit, err error) error {
	text := edits[0].verb()
	if len(edits) > 1 {
		text = "commit"
	}
	return types.Errorf(types.ClassOf(err), "%s: %w", text, err)
}

// draw makes one transaction of the edits, which the store can take.
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

// drawn makes one transaction of the edits, however large it is.
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

// fits refuses a transaction that is larger than the store takes at once.
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

// differing returns what was found of the compares that did not hold.
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

// explain returns why drawing up the edits again is of no use, nil if it is.
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

// lookAgain decides about a transaction of which a copy was not answered, and that
// left no trace that is still there. Sending it anew might undo what somebody did
// after that copy; only if there is nothing left to write it has succeeded.
func lookAgain(ctx context.Context, s Store, reads ReadSet, edits []edit, sent *Change, res Result) (Result, error) {
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
	return res, types.Errorf(types.Conflict, "the store did not answer, and what was to be written has changed since: read again, decide again")
}

// recorder notes whether a commit was not answered.
type recorder struct {
	Store
	unanswered bool
}

// Commit commits: see Store.
func (r *recorder) Commit(ctx context.Context, txn Txn) (Result, error) {
	res, err := r.Store.Commit(ctx, txn)
	r.unanswered = r.unanswered || types.Is(err, types.Unknown)
	return res, err
}
