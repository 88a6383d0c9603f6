package outbox

import (
	"context"
	"slices"

	"go.uber.org/zap"

	"github.com/escher-sched/escher/controlplane"
	"github.com/escher-sched/escher/controlplane/supervise"
	"github.com/escher-sched/escher/types"
)

// deliver stores reports, as many in a transaction as fit. Those whose binding is gone are
// left out then, and what is stored of the others is known; they do not hold back each
// other. Nor does one that the store can never take.
func (o *Outbox) deliver(ctx context.Context, letters []*Letter) error {
	for len(letters) > 0 {
		change, n := o.fill(letters)
		batch, rest := letters[:n], letters[n:]
		res, err := o.commit(ctx, change.Txn())
		switch {
		case types.Is(err, types.Invalid):
			err = o.deliverAlone(ctx, batch, err)
		case err == nil && res.Committed:
			o.delivered(batch, res.Revision)
		case err == nil:
			var left []*Letter
			left, err = o.rest(ctx, batch, res.Read)
			rest = slices.Concat(left, rest)
		}
		if err != nil {
			return err
		}
		letters = rest
	}
	return nil
}

// fill makes a transaction of the first letters, as many as fit by number and by bytes;
// at least one.
func (o *Outbox) fill(letters []*Letter) (change *controlplane.Change, n int) {
	change = controlplane.NewChange(controlplane.NewBatch())
	most := min(len(letters), o.most())
	for n < most && (n == 0 || change.Bytes() < o.store.Limits().Bytes/2) {
		o.add(change, letters[n])
		n++
	}
	return change, n
}

// commit commits a transaction. What the store refuses for now, as it is full or this node
// has no permission, is sent again after a pause that grows: only Invalid and the end of ctx
// are errors.
func (o *Outbox) commit(ctx context.Context, txn controlplane.Txn) (controlplane.Result, error) {
	schedule := supervise.NewSchedule()
	for said := ""; ; {
		res, err := controlplane.Commit(ctx, o.store, txn)
		if err == nil || types.Is(err, types.Invalid) || ctx.Err() != nil {
			return res, err
		}
		if text := err.Error(); text != said {
			o.log.Warn("reports not stored: to be tried again", zap.Error(err))
			said = text
		}
		if err := schedule.Pause(ctx, 0); err != nil {
			return res, err
		}
	}
}

// deliverAlone stores each of some reports by itself, as together they were Invalid. Of one
// that is so alone, only what releases the task is stored; without that it is refused.
func (o *Outbox) deliverAlone(ctx context.Context, letters []*Letter, invalid error) error {
	if len(letters) > 1 {
		for _, l := range letters {
			if err := o.deliver(ctx, []*Letter{l}); err != nil {
				return err
			}
		}
		return nil
	}
	l := letters[0]
	if l.brief {
		o.about(l).Error("report cannot be stored", zap.Error(invalid))
		delete(o.known, l.key)
		l.tell(Refused)
		return nil
	}
	o.about(l).Error("report cannot be stored whole: its texts are left out", zap.Error(invalid))
	brief := *l.Report
	brief.Reason, brief.Image = "the report of the node was too large to be stored", ""
	if l.Report.Reason == "" {
		brief.Reason = ""
	}
	short := *l
	short.Report, short.brief = &brief, true
	return o.deliver(ctx, []*Letter{&short})
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
			o.about(l).Info("report refused: its binding is gone")
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
