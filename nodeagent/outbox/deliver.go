package outbox

import (
	"context"
	"slices"

	"go.uber.org/zap"

	"github.com/escher-sched/escher/controlplane"
	"github.com/escher-sched/escher/controlplane/supervise"
	"github.com/escher-sched/escher/types"
)

// deliver stores reports, as many per transaction as fit. A report whose binding is gone, or that
// the store can never accept, does not hold back the others.
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

// fill makes a transaction of the first reports: as many as fit by number and by bytes, and at
// least one.
func (o *Outbox) fill(letters []*Letter) (change *controlplane.Change, n int) {
	change = controlplane.NewChange(controlplane.NewBatch())
	most := min(len(letters), o.most())
	for n < most && (n == 0 || change.Bytes() < o.store.Limits().Bytes/2) {
		o.add(change, letters[n])
		n++
	}
	return change, n
}

// commit commits a transaction. If the store refuses it for now, because it is full or this node
// lacks permission, commit retries after a growing pause. It returns an error only for Invalid and
// when ctx ends.
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

// deliverAlone stores each of some reports alone, because together they were Invalid. It stores a
// report that is Invalid alone without its texts, or else refuses it.
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

// add adds a report to a transaction. If a stored report is known to be of the same binding, the
// transaction does not compare the binding: it is deleted together with its report.
func (o *Outbox) add(change *controlplane.Change, l *Letter) {
	last := o.known[l.key]
	if last.mod == 0 || last.binding != l.Report.Binding {
		change.IfCreated(l.binding, l.Report.Binding)
	}
	change.IfUnchanged(l.key, last.mod)
	change.Put(l.key, l.Report)
}

// delivered records the stored reports.
func (o *Outbox) delivered(letters []*Letter, revision int64) {
	for _, l := range letters {
		if l.Report.Phase == types.ReportExited {
			delete(o.known, l.key) // No report follows.
		} else {
			o.known[l.key] = stored{mod: revision, binding: l.Report.Binding}
		}
		l.tell(Stored)
	}
}

// isStored reports whether the key has the same report at a revision: that of a killed agent may
// arrive after this agent has read the reports.
func (o *Outbox) isStored(ctx context.Context, l *Letter, revision int64) bool {
	page, err := o.store.List(ctx, controlplane.ListOptions{Key: l.key})
	// After an error it is written again, without harm.
	return err == nil && len(page.KVs) == 1 && page.KVs[0].ModRevision == revision && types.Same(page.KVs[0].Value, l.Report)
}

// rest refuses the reports whose binding is gone, according to the values read back. It returns the
// others, which are retried.
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
			// The binding tells whose report it is.
			learnt = true
			if o.isStored(ctx, l, now) {
				o.delivered([]*Letter{l}, now)
				continue
			}
			o.known[l.key] = stored{mod: now}
		}
		rest = append(rest, l)
	}
	if len(rest) < len(letters) || learnt || len(rest) == 1 {
		return rest, nil
	}
	// Every report could be stored when it was read back: others' changes come and go. Each alone
	// cannot be held back.
	for _, l := range rest {
		if err := o.deliver(ctx, []*Letter{l}); err != nil {
			return nil, err
		}
	}
	return nil, nil
}
