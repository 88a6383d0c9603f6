package controlplane

import (
	"context"
	"errors"

	"github.com/escher-sched/escher/types"
)

// InParts lets Commit write the tasks of launched jobs ahead of the transaction. It does so if the
// whole is larger than the store takes at once, in as many transactions as the tasks need.
// Schedulers ignore tasks until their job exists, and the jobs are still written with the rest at
// one revision: so the transaction stays all or nothing. The tasks of a transaction that fails are
// deleted.
func (t *Transaction) InParts() *Transaction {
	t.inParts = true
	return t
}

// commitInParts commits a transaction that is too large, for the reason in cause. It returns the
// number of transactions as Parts.
func (t *Transaction) commitInParts(ctx context.Context, cause error) (Committed, error) {
	var ahead []*launch
	for _, e := range t.edits {
		if l, ok := e.(*launch); ok && l.job != nil && len(l.tasks) > 1 {
			ahead = append(ahead, l)
		}
	}
	if len(ahead) == 0 {
		return Committed{}, cause
	}
	// Checks everything else first: an error here must come before the first write.
	for _, l := range ahead {
		l.start = len(l.tasks)
	}
	if _, err := draw(ctx, t.c.store, t.reads, t.edits); err != nil {
		return Committed{}, err
	}
	res, err := t.writeAhead(ctx, ahead)
	if err != nil {
		for _, l := range ahead {
			err = l.brokeOff(ctx, err)
		}
	}
	return res, err
}

// writeAhead writes the tasks of some launches, then the rest of the transaction.
func (t *Transaction) writeAhead(ctx context.Context, ahead []*launch) (Committed, error) {
	res := Committed{Parts: 1}
	for _, l := range ahead {
		l.start, l.end, l.inParts, l.withoutJob = 0, 0, true, true
		for l.start < len(l.tasks) {
			if _, err := perform(ctx, t.c.store, nil, l); err != nil {
				return res, err
			}
			res.Parts++
		}
		l.inParts, l.withoutJob = false, false
	}
	var err error
	res.Revision, err = perform(ctx, t.c.store, t.reads, t.edits...)
	return res, err
}

// tooLarge is the error for a transaction larger than the store takes.
type tooLarge struct{ error }

func (e tooLarge) Unwrap() error { return e.error }

func errorTooLarge(format string, args ...any) error {
	return tooLarge{types.Errorf(types.Invalid, format, args...)}
}

func isTooLarge(err error) bool {
	_, ok := errors.AsType[tooLarge](err)
	return ok
}
