package agents

import (
	"context"
	"sync"

	"github.com/escher-sched/escher/controlplane"
	"github.com/escher-sched/escher/types"
)

// outbox stores the reports of a node as its agent does: one transaction at a time, of
// all that came up during the last one. Each report depends on its binding being the
// one it is about, and on following the one before.
type outbox struct {
	store controlplane.Store
	wake  chan struct{}
	// stored are the revisions of the reports that are there, by the key of the binding;
	// only run looks at them.
	stored map[controlplane.Key]int64

	mu      sync.Mutex
	waiting map[controlplane.Key]*types.Report
	order   []controlplane.Key
}

func newOutbox(store controlplane.Store) *outbox {
	return &outbox{
		store: store, wake: make(chan struct{}, 1),
		stored: make(map[controlplane.Key]int64), waiting: make(map[controlplane.Key]*types.Report),
	}
}

// put adds a report. It takes the place of one of the same binding that is not on its
// way yet.
func (o *outbox) put(k controlplane.Key, r *types.Report) {
	o.mu.Lock()
	if o.waiting[k] == nil {
		o.order = append(o.order, k)
	}
	o.waiting[k] = r
	o.mu.Unlock()
	select {
	case o.wake <- struct{}{}:
	default: // It is awake.
	}
}

// letter is a report on its way to the store.
type letter struct {
	key controlplane.Key
	r   *types.Report
}

func (l letter) binding() string { return l.key.String() }
func (l letter) report() string {
	return controlplane.ReportKey(l.key.Node, l.key.Namespace, l.key.ID, l.key.Attempt)
}

// most is how many reports are in one transaction at most.
const most = 512

// take takes the oldest reports, as many as fit a transaction.
func (o *outbox) take() []letter {
	o.mu.Lock()
	defer o.mu.Unlock()
	const compares = 2 // of each
	n := min(len(o.order), most, o.store.Limits().Ops/compares)
	letters := make([]letter, n)
	for i, k := range o.order[:n] {
		letters[i] = letter{k, o.waiting[k]}
		delete(o.waiting, k)
	}
	o.order = append(o.order[:0], o.order[n:]...)
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

// deliver stores reports together, without those whose binding is gone.
func (o *outbox) deliver(ctx context.Context, letters []letter) error {
	for len(letters) > 0 {
		change := controlplane.NewChange(controlplane.NewBatch())
		for _, l := range letters {
			change.IfCreated(l.binding(), l.r.Binding)
			change.IfUnchanged(l.report(), o.stored[l.key])
			change.Put(l.report(), l.r)
		}
		res, err := controlplane.Commit(ctx, o.store, change.Txn())
		if err != nil {
			return err
		}
		if res.Committed {
			o.delivered(letters, res.Revision)
			return nil
		}
		letters = o.rest(letters, res.Read)
	}
	return nil
}

// delivered notes what is stored; a report of an end is the last one.
func (o *outbox) delivered(letters []letter, revision int64) {
	for _, l := range letters {
		if o.stored[l.key] = revision; l.r.Phase == types.ReportExited {
			delete(o.stored, l.key)
		}
	}
}

// rest returns the reports whose binding is there, as was read back.
func (o *outbox) rest(letters []letter, read []controlplane.KV) []letter {
	at := make(map[string]controlplane.KV, len(read))
	for _, kv := range read {
		at[kv.Key] = kv
	}
	var rest []letter
	for _, l := range letters {
		if at[l.binding()].CreateRevision != l.r.Binding {
			delete(o.stored, l.key)
			continue
		}
		o.stored[l.key] = at[l.report()].ModRevision
		rest = append(rest, l)
	}
	return rest
}
