package controlplane

import (
	"context"
	"errors"

	"github.com/escher-sched/escher/types"
)

// InParts lets the tasks of jobs that the transaction launches be written ahead of it, in
// as many transactions as they take, if all together is more than the store takes at
// once. Nobody sees them before their job, which is still of one revision with the rest:
// so it is all or nothing as before. What is left of one that fails is deleted.
func (t *Transaction) InParts() *Transaction {
	t.inParts = true
	return t
}

// commitInParts is Commit of what is too large, as cause says, and how many transactions
// it took.
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
	// Whatever else is wrong, or too large, is refused before anything is written.
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

// writeAhead writes the tasks of some launches, and then the rest of the transaction.
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

// tooLarge is a refusal of a transaction that is larger than the store takes.
type tooLarge struct{ error }

func (e tooLarge) Unwrap() error { return e.error }

func errorTooLarge(format string, args ...any) error {
	return tooLarge{types.Errorf(types.Invalid, format, args...)}
}

func isTooLarge(err error) bool {
	_, ok := errors.AsType[tooLarge](err)
	return ok
}
