package nodeagent

import (
	"context"
	"sync"

	"go.uber.org/zap"

	"github.com/escher-sched/escher/controlplane"
	"github.com/escher-sched/escher/types"
)

// maxLetters bounds the reports of one transaction; etcd's stock limit is lower.
const maxLetters = 512

// outcome is what became of a report.
type outcome int

const (
	// stored: it is in the store.
	stored outcome = iota
	// refused: the binding it is about is gone.
	refused
	// superseded: a later one of the same attempt took its place.
	superseded
)

// letter is a report on its way to the store.
type letter struct {
	attempt Attempt
	report  *types.Report
	done    func(outcome)
}

func (l *letter) binding() string {
	return controlplane.BindingKey(l.attempt.Node, l.attempt.Namespace, l.attempt.Task, l.attempt.Number)
}

func (l *letter) key() string {
	return controlplane.ReportKey(l.attempt.Node, l.attempt.Namespace, l.attempt.Task, l.attempt.Number)
}

// outbox stores reports: one transaction at a time, of all that came up during the
// last one. Each report depends on its binding being the one it is about, and on being
// the next one: a copy of an earlier one that was long on its way changes nothing.
type outbox struct {
	store controlplane.Store
	log   *zap.Logger
	wake  chan struct{}
	// mods are the revisions of the reports that are stored, by key, as far as they
	// are known; only run looks at them.
	mods map[string]int64

	mu      sync.Mutex
	waiting map[string]*letter
	order   []string
}

func newOutbox(store controlplane.Store, log *zap.Logger) *outbox {
	return &outbox{
		store: store, log: log, wake: make(chan struct{}, 1),
		mods: make(map[string]int64), waiting: make(map[string]*letter),
	}
}

// put adds a report. It takes the place of one of the same attempt that is not on
// its way yet.
func (o *outbox) put(l *letter) {
	key := l.key()
	o.mu.Lock()
	old := o.waiting[key]
	o.waiting[key] = l
	if old == nil {
		o.order = append(o.order, key)
	}
	o.mu.Unlock()
	if old != nil {
		old.done(superseded)
	}
	select {
	case o.wake <- struct{}{}:
	default: // It is awake.
	}
}

// take takes the oldest reports, as many as fit a transaction.
func (o *outbox) take() []*letter {
	o.mu.Lock()
	defer o.mu.Unlock()
	const compares = 2 // of each
	n := min(len(o.order), maxLetters, o.store.Limits().Ops/compares)
	letters := make([]*letter, n)
	for i, key := range o.order[:n] {
		letters[i] = o.waiting[key]
		delete(o.waiting, key)
	}
	o.order = o.order[n:]
	return letters
}

// run stores reports until ctx is done.
func (o *outbox) run(ctx context.Context) error {
	for {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-o.wake:
		}
		for letters := o.take(); len(letters) > 0; letters = o.take() {
			if err := o.deliver(ctx, letters); err != nil {
				return err
			}
		}
	}
}

// deliver stores reports together. Those whose binding is gone are left out then,
// and what is stored of the others is known; they do not hold back each other.
func (o *outbox) deliver(ctx context.Context, letters []*letter) error {
	for len(letters) > 0 {
		change := controlplane.NewChange(controlplane.NewBatch())
		for _, l := range letters {
			change.IfCreated(l.binding(), l.report.Binding)
			change.IfUnchanged(l.key(), o.mods[l.key()])
			change.Put(l.key(), l.report)
		}
		res, err := controlplane.Commit(ctx, o.store, change.Txn())
		if err != nil {
			return err
		}
		if res.Committed {
			for _, l := range letters {
				if o.mods[l.key()] = res.Revision; l.report.Phase == types.ReportExited {
					delete(o.mods, l.key()) // It is the last one.
				}
				l.done(stored)
			}
			return nil
		}
		if letters, err = o.rest(ctx, letters, res.Read); err != nil {
			return err
		}
	}
	return nil
}

// rest tells those whose binding is gone, as was read back, and returns the others.
func (o *outbox) rest(ctx context.Context, letters []*letter, read []controlplane.KV) ([]*letter, error) {
	created, mods := make(map[string]int64, len(read)), make(map[string]int64, len(read))
	for _, kv := range read {
		created[kv.Key], mods[kv.Key] = kv.CreateRevision, kv.ModRevision
	}
	var rest []*letter
	learnt := false
	for _, l := range letters {
		key := l.key()
		if created[l.binding()] == l.report.Binding {
			learnt = learnt || o.mods[key] != mods[key]
			o.mods[key] = mods[key]
			rest = append(rest, l)
			continue
		}
		delete(o.mods, key)
		o.log.Info("report refused: its binding is gone",
			logged(l.attempt))
		l.done(refused)
	}
	if len(rest) < len(letters) || learnt {
		return rest, nil
	}
	// All of them were there again when it was read back: others' changes come
	// and go. Each alone cannot be held back.
	if len(rest) == 1 {
		return rest, nil
	}
	for _, l := range rest {
		if err := o.deliver(ctx, []*letter{l}); err != nil {
			return nil, err
		}
	}
	return nil, nil
}
