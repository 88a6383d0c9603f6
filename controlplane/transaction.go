package controlplane

import (
	"context"

	"github.com/escher-sched/escher/types"
)

// A Transaction makes several changes together or not at all, on the condition that nothing they
// were computed from has changed. Build it with the methods named like those of Client, then Commit
// it. Use it once, in one goroutine.
type Transaction struct {
	c     *Client
	reads ReadSet
	edits []edit
	errs  []error
	// inParts allows writing the tasks of jobs ahead of the transaction.
	inParts bool
}

// Committed is the result of a Transaction.
type Committed struct {
	// Revision is the revision of all its changes.
	Revision int64
	// Parts is the number of transactions it took: see Transaction.InParts.
	Parts int
}

// Begin returns a transaction on the condition that reads are unchanged. Without reads it has no
// condition, and its changes still go together.
func (c *Client) Begin(reads ...ReadSet) *Transaction {
	t := &Transaction{c: c, reads: make(ReadSet)}
	for _, r := range reads {
		t.If(r)
	}
	return t
}

// If adds keys that must be unchanged. A key with two revisions makes Commit fail with Conflict.
func (t *Transaction) If(reads ReadSet) *Transaction {
	if err := t.reads.Add(reads); err != nil {
		t.errs = append(t.errs, err)
	}
	return t
}

// IfNoTaskSince makes the transaction depend on no task being launched or changed after a revision
// under an id that Launch made of name: Conflict. So of two callers that look for a name at once,
// find nothing and launch it, one succeeds. 0 means no condition.
func (t *Transaction) IfNoTaskSince(name string, revision int64) *Transaction {
	if revision == 0 {
		return t
	}
	return t.add(&first{Tasks, t.c.ns, name, revision}, nil)
}

// In makes the changes that are added next concern the namespace of another client of the store.
func (t *Transaction) In(c *Client) *Transaction {
	t.c = c
	return t
}

func (t *Transaction) add(e edit, err error) *Transaction {
	if err != nil {
		t.errs = append(t.errs, err)
		return t
	}
	t.edits = append(t.edits, e)
	return t
}

// SetResource adds what Client.SetResource does.
func (t *Transaction) SetResource(name string, capacity types.Quantity, where Where, opts SetOptions) *Transaction {
	e, err := t.c.newSet(name, capacity, where, opts)
	return t.add(e, err)
}

// Launch adds what Client.Launch does, but makes no job of several tasks, which become visible
// together anyway. It returns their ids; Commit returns the errors.
func (t *Transaction) Launch(tasks ...Submission) []string { return t.launch(nil, tasks).Tasks }

// LaunchJob adds what Client.LaunchJob does, and returns the ids.
func (t *Transaction) LaunchJob(job Job) Launched { return t.launch(&job, job.Tasks) }

func (t *Transaction) launch(job *Job, tasks []Submission) Launched {
	e, err := t.c.newLaunch(job, tasks)
	if err != nil {
		t.errs = append(t.errs, err)
		return Launched{}
	}
	t.edits = append(t.edits, e)
	return e.launched()
}

// Reserve adds what Client.Reserve does.
func (t *Transaction) Reserve(id string, r types.Reservation) *Transaction {
	e, err := t.c.newReserve(id, r)
	return t.add(e, err)
}

// Unreserve adds what Client.Unreserve does.
func (t *Transaction) Unreserve(id string) *Transaction {
	return t.add(&unreserve{ns: t.c.ns, id: id}, nil)
}

// Stop adds what Client.Stop does; id is the full id.
func (t *Transaction) Stop(id string, opts StopOptions) *Transaction {
	return t.add(&stop{c: t.c, id: id, opts: opts}, opts.validate())
}

// Evict adds what Client.Evict does; id is the full id.
func (t *Transaction) Evict(id string, attempt int) *Transaction {
	return t.add(&evict{c: t.c, id: id, attempt: attempt}, validAttempt(attempt))
}

// EvictFor is Evict with a reason in words, which the status of the task shows.
func (t *Transaction) EvictFor(id string, attempt int, reason string) *Transaction {
	return t.add(&evict{c: t.c, id: id, attempt: attempt, reason: reason}, validAttempt(attempt))
}

// Commit makes the changes in one transaction. Invalid: one of them is wrong, or together they are
// too large. Conflict: a key in the read set has changed, which the error names; nothing was done.
func (t *Transaction) Commit(ctx context.Context) (Committed, error) {
	if err := t.problems(); err != nil {
		return Committed{}, err
	}
	revision, err := perform(ctx, t.c.store, t.reads, t.edits...)
	if t.inParts && isTooLarge(err) {
		return t.commitInParts(ctx, err)
	}
	return Committed{Revision: revision, Parts: 1}, err
}

// A Preview shows what a Transaction would do now.
type Preview struct {
	// Writes are the operations it would perform.
	Writes []Op
	// TooLarge is the reason if it exceeds one transaction of the store; nil if it fits.
	TooLarge error
}

// Preview returns what Commit would do now, and changes nothing. It has the errors of Commit,
// except the one for a transaction that is too large.
func (t *Transaction) Preview(ctx context.Context) (Preview, error) {
	if err := t.problems(); err != nil {
		return Preview{}, err
	}
	change, err := drawn(ctx, t.c.store, t.reads, t.edits)
	if err != nil {
		return Preview{}, err
	}
	return Preview{Writes: change.Txn().Ops, TooLarge: fits(change, t.c.store.Limits())}, nil
}

// problems returns what is wrong with the transaction: everything Invalid, or else the first
// Conflict.
func (t *Transaction) problems() error {
	var wrong []error
	for _, err := range t.errs {
		if types.Is(err, types.Invalid) {
			wrong = append(wrong, err)
		}
	}
	switch {
	case len(wrong) > 0:
		return invalid(wrong)
	case len(t.errs) > 0:
		return t.errs[0]
	case len(t.edits) == 0:
		return types.Errorf(types.Invalid, "commit: the transaction is empty: add a change")
	}
	if err := oneKindEach(t.edits); err != nil {
		return types.Errorf(types.Invalid, "commit: %w", err)
	}
	return nil
}
