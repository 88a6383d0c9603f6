// Package outbox stores what a node reports of its attempts. Both the agent and the
// hollow agents that are measured use it.
package outbox

import (
	"context"
	"sync"
	"time"

	"go.uber.org/zap"

	"github.com/escher-sched/escher/controlplane"
	"github.com/escher-sched/escher/types"
)

// Outcome is what became of a report.
type Outcome int

const (
	// Stored: it is in the store.
	Stored Outcome = iota
	// Refused: the binding it is about is gone.
	Refused
	// Superseded: a later one of the same attempt took its place.
	Superseded
)

// Letter is a report on its way to the store.
type Letter struct {
	// Attempt is the key of the binding that the report is of.
	Attempt controlplane.Key
	// Report names its binding: the revision at which it was made.
	Report *types.Report
	// Done is told once what became of it; nil is nobody.
	Done func(Outcome)

	// binding and key are those that are compared and written.
	binding, key string
	// brief reports whether texts were left out of the report, as it was too large.
	brief bool
}

// name fills in the keys.
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

// urgent reports whether it must not wait: the session may end soon, or somebody has
// asked for the end.
func (l *Letter) urgent() bool { return l.Report.Fenced || l.Report.Stopped }

// Outbox stores reports: one transaction at a time, of all that came up during the
// last one, and of what comes up within a short time while there are many (pace).
// Each report depends on its binding being the one it is about, and on being the
// next one: a copy of an earlier one that was long on its way changes nothing.
type Outbox struct {
	store controlplane.Store
	log   *zap.Logger
	wake  chan struct{}
	// known are the reports that are stored, by key, as far as is known; only Run
	// looks at them.
	known map[string]stored
	pace  pace

	mu      sync.Mutex
	waiting map[string]*Letter
	order   []string
	// urgent tells that one of them must not wait.
	urgent bool
}

// stored is a report that is there.
type stored struct {
	mod int64
	// binding is the one that it is known to be of, 0 if that is not known.
	binding int64
}

// New returns an empty Outbox to Run. A nil log is nobody's.
func New(store controlplane.Store, log *zap.Logger) *Outbox {
	if log == nil {
		log = zap.NewNop()
	}
	return &Outbox{
		store: store, log: log, wake: make(chan struct{}, 1),
		known: make(map[string]stored), waiting: make(map[string]*Letter),
	}
}

// about returns the log, about an attempt.
func (o *Outbox) about(l *Letter) *zap.Logger {
	return o.log.With(zap.String("namespace", l.Attempt.Namespace), zap.String("task", l.Attempt.ID), zap.Int("attempt", l.Attempt.Attempt))
}

// Put adds a report. It takes the place of one of the same attempt that is not on
// its way yet.
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
	default: // It is awake.
	}
}

// Run stores reports until ctx is done, and returns ctx.Err() then. It keeps what the store
// does not take for now.
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

// due returns how long to wait with what is there; some is false if there is nothing.
func (o *Outbox) due(now time.Time) (wait time.Duration, some bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.urgent || len(o.order) >= o.most() {
		return 0, len(o.order) > 0
	}
	return o.pace.wait(now), len(o.order) > 0
}

// most is how many reports fit a transaction.
func (o *Outbox) most() int {
	const (
		compares = 2 // of each
		atMost   = 512
	)
	return max(1, min(atMost, o.store.Limits().Ops/compares))
}

// take takes the oldest reports, as many as fit a transaction.
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
