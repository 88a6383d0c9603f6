package outbox

import (
	"context"

	"go.uber.org/zap"

	"github.com/escher-sched/escher/controlplane"
	"github.com/escher-sched/escher/types"
)

// deliver stores reports together. Those whose binding is gone are left out then,
// and what is stored of the others is known; they do not hold back each other.
func (o *Outbox) deliver(ctx context.Context, letters []*Letter) error {
	for len(letters) > 0 {
		change := controlplane.NewChange(controlplane.NewBatch())
		for _, l := range letters {
			o.add(change, l)
		}
		res, err := controlplane.Commit(ctx, o.store, change.Txn())
		if err != nil {
			return err
		}
		if res.Committed {
			o.delivered(letters, res.Revision)
			return nil
		}
		if letters, err = o.rest(ctx, letters, res.Read); err != nil {
			return err
		}
	}
	return nil
}

// add adds a report. One that is known to be of the same binding ends with it, in one
// transaction: while that is as it was, the binding is there.
func (o *Outbox) add(change *controlplane.Change, l *Letter) {
	last := o.known[l.key]
	if last.mod == 0 || last.binding != l.Report.Binding {
		change.IfCreated(l.binding, l.Report.Binding)
	}
	change.IfUnchanged(l.key, last.mod)
	change.Put(l.key, l.Report)
}

// delivered notes what is stored.
func (o *Outbox) delivered(letters []*Letter, revision int64) {
	for _, l := range letters {
		if l.Report.Phase == types.ReportExited {
			delete(o.known, l.key) // It is the last one.
		} else {
			o.known[l.key] = stored{mod: revision, binding: l.Report.Binding}
		}
		l.tell(Stored)
	}
}

// rest tells those whose binding is gone, as was read back, and returns the others,
// which are tried again.
func (o *Outbox) rest(ctx context.Context, letters []*Letter, read []controlplane.KV) ([]*Letter, error) {
	at := make(map[string]controlplane.KV, len(read))
	for _, kv := range read {
		at[kv.Key] = kv
	}
	var rest []*Letter
	learnt := false
	for _, l := range letters {
		last, now := o.known[l.key], at[l.key].ModRevision
		binding, compared := at[l.binding]
		if compared && binding.CreateRevision != l.Report.Binding {
			delete(o.known, l.key)
			o.log.Info("report refused: its binding is gone",
				zap.String("namespace", l.Attempt.Namespace), zap.String("task", l.Attempt.ID), zap.Int("attempt", l.Attempt.Attempt))
			l.tell(Refused)
			continue
		}
		if last.mod != now {
			// Whose it is, if it is there, says the binding.
			learnt = true
			o.known[l.key] = stored{mod: now}
		}
		rest = append(rest, l)
	}
	if len(rest) < len(letters) || learnt || len(rest) == 1 {
		return rest, nil
	}
	// All of them were there again when it was read back: others' changes come
	// and go. Each alone cannot be held back.
	for _, l := range rest {
		if err := o.deliver(ctx, []*Letter{l}); err != nil {
			return nil, err
		}
	}
	return nil, nil
}
