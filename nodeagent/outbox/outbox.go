// Package outbox stores the reports of a node's attempts. The agent and the hollow agents of the
// benchmarks use it.
package outbox

import (
	"context"
	"sync"
	"time"

	"go.uber.org/zap"

	"github.com/escher-sched/escher/controlplane"
	"github.com/escher-sched/escher/types"
)

// Outcome is the outcome of a report.
type Outcome int

const (
	// Stored: the report is in the store.
	Stored Outcome = iota
	// Refused: its binding is gone, or the store can never accept it.
	Refused
	// Superseded: a later report of the same attempt replaced it.
	Superseded
)

// Letter is a report on its way to the store.
type Letter struct {
	// Attempt is the key of the binding of the report.
	Attempt controlplane.Key
	// Report names the revision at which its binding was made.
	Report *types.Report
	// Done is called once, with the outcome; nil means no call.
	Done func(Outcome)

	// binding is the key to compare, key the key to write.
	binding, key string
	// brief reports whether the report lacks its texts because it was too large.
	brief bool
}

// name sets the keys.
func (l *Letter) name() {
	k := l.Attempt
	l.binding = controlplane.BindingKey(k.Node, k.Namespace, k.ID, k.Attempt)
	l.key = controlplane.ReportKey(k.Node, k.Namespace, k.ID, k.Attempt)
}

func (l *Letter) tell(o Outcome) {
	if l.Done != nil {
		l.Done(o)
	}
}

// urgent reports whether the report must not wait: the session may end soon, or a user stopped the
// attempt.
func (l *Letter) urgent() bool { return l.Report.Fenced || l.Report.Stopped }

// Outbox stores reports, one transaction at a time. A transaction has all reports that came during
// the last one. While there are many, it also waits a short time for more (pace). Each report
// requires that its binding still exists and that it follows the stored report: a delayed copy of
// an earlier one changes nothing.
type Outbox struct {
	store controlplane.Store
	log   *zap.Logger
	wake  chan struct{}
	// known are the stored reports by key, as far as they are known; only Run uses it.
	known map[string]stored
	pace  pace

	mu      sync.Mutex
	waiting map[string]*Letter
	order   []string
	// urgent reports whether a waiting report is urgent.
	urgent bool
}

// stored is a report in the store.
type stored struct {
	mod int64
	// binding is the revision of its binding; 0 means not known.
	binding int64
}

// New returns an empty Outbox. A nil log means no log.
func New(store controlplane.Store, log *zap.Logger) *Outbox {
	if log == nil {
		log = zap.NewNop()
	}
	return &Outbox{
		store: store, log: log, wake: make(chan struct{}, 1),
		known: make(map[string]stored), waiting: make(map[string]*Letter),
	}
}

// about returns the log with the name of an attempt.
func (o *Outbox) about(l *Letter) *zap.Logger {
	return o.log.With(zap.String("namespace", l.Attempt.Namespace), zap.String("task", l.Attempt.ID), zap.Int("attempt", l.Attempt.Attempt))
}

// Put adds a report. It replaces a report of the same attempt that is not on its way yet.
func (o *Outbox) Put(l *Letter) {
	l.name()
	o.mu.Lock()
	old := o.waiting[l.key]
	o.waiting[l.key] = l
	if old == nil {
		o.order = append(o.order, l.key)
	}
	o.urgent = o.urgent || l.urgent()
	o.mu.Unlock()
	if old != nil {
		old.tell(Superseded)
	}
	select {
	case o.wake <- struct{}{}:
	default: // A wake-up is pending.
	}
}

// Run stores reports until ctx is done, and then returns ctx.Err(). It keeps reports that the store
// refuses for now.
func (o *Outbox) Run(ctx context.Context) error {
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		due := timer.C
		if wait, some := o.due(time.Now()); !some {
			due = nil
		} else if wait > 0 {
			timer.Reset(wait)
		} else {
			o.pace.sent(time.Now())
			if err := o.deliver(ctx, o.take()); err != nil {
				return err
			}
			continue
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-o.wake:
		case <-due:
		}
	}
}

// due returns how long to wait before the next transaction; some is false if no report waits.
func (o *Outbox) due(now time.Time) (wait time.Duration, some bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.urgent || len(o.order) >= o.most() {
		return 0, len(o.order) > 0
	}
	return o.pace.wait(now), len(o.order) > 0
}

// most returns the maximum number of reports in a transaction.
func (o *Outbox) most() int {
	const (
		compares = 2 // per report
		atMost   = 512
	)
	return max(1, min(atMost, o.store.Limits().Ops/compares))
}

// take takes the oldest reports, as many as fit in a transaction.
func (o *Outbox) take() []*Letter {
	o.mu.Lock()
	defer o.mu.Unlock()
	n := min(len(o.order), o.most())
	letters := make([]*Letter, n)
	for i, key := range o.order[:n] {
		letters[i] = o.waiting[key]
		delete(o.waiting, key)
	}
	if o.order = append(o.order[:0], o.order[n:]...); len(o.order) == 0 {
		o.urgent = false
	}
	return letters
}
