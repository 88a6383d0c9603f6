package server

import (
	"errors"
	"time"

	"github.com/escher-sched/escher/types"
)

// Policy says what is kept for how long.
type Policy struct {
	// Interval is the time between two compactions of etcd's history; what is
	// older than one to two of them is forgotten.
	Interval time.Duration
	// Gap is the least time between two looks for what lost its owner.
	Gap time.Duration

	// KeepAge is how long finished tasks are kept, KeepNumber how many at most,
	// the latest; KeepMin is how long each is kept in any case.
	KeepAge    time.Duration
	KeepNumber int
	KeepMin    time.Duration
	// OrphanGrace is how long a task waits for its job to be written.
	OrphanGrace time.Duration
	// SpecGrace is how long a spec is kept that no task refers to.
	SpecGrace time.Duration

	// MaxPending is how many tasks may wait; who submits more is slowed until there
	// are fewer.
	MaxPending int

	// CloseAt, OpenBelow and PurgeAt are shares of the database's quota: no new
	// task is admitted from CloseAt on until there is less than OpenBelow; from
	// PurgeAt on what is finished is deleted at once.
	CloseAt, OpenBelow, PurgeAt float64
}

// DefaultPolicy returns the policy of a cluster that nobody configured.
func DefaultPolicy() Policy {
	return Policy{
		// A minute of history is what a watcher may lose its connection for
		// without having to list anew.
		Interval: 30 * time.Second,
		// People do not notice a second; a burst of ends is one look.
		Gap:         time.Second,
		KeepAge:     time.Hour,
		KeepNumber:  20_000,
		KeepMin:     5 * time.Minute,
		OrphanGrace: 10 * time.Minute,
		SpecGrace:   10 * time.Minute,
		// Some 500 bytes each in etcd, and as much in a scheduler.
		MaxPending: 2_000_000,
		// At 100 % etcd refuses every write, of schedulers and agents too.
		CloseAt:   0.70,
		OpenBelow: 0.65,
		PurgeAt:   0.85,
	}
}

// Validate reports all that is wrong at once.
func (p Policy) Validate() error {
	var errs []error
	check := func(ok bool, format string, args ...any) {
		if !ok {
			errs = append(errs, types.Errorf(types.Invalid, format, args...))
		}
	}
	check(p.Interval > 0, "interval: %s is not positive: use 30s", p.Interval)
	check(p.Gap > 0, "gap: %s is not positive: use 1s", p.Gap)
	check(p.KeepMin >= 2*p.Interval, "keep min: %s is less than two intervals of %s: a watcher that lists anew would miss ends, raise it", p.KeepMin, p.Interval)
	check(p.KeepAge >= p.KeepMin, "keep age: %s is less than keep min, %s: raise it", p.KeepAge, p.KeepMin)
	check(p.KeepNumber >= 0, "keep number: %d is negative: use 0 or more", p.KeepNumber)
	check(p.OrphanGrace > 0, "orphan grace: %s is not positive: use 10m", p.OrphanGrace)
	check(p.SpecGrace > 0, "spec grace: %s is not positive: use 10m", p.SpecGrace)
	check(p.MaxPending > 0, "max pending: %d is not positive: use 2000000", p.MaxPending)
	check(0 < p.OpenBelow && p.OpenBelow <= p.CloseAt && p.CloseAt <= p.PurgeAt && p.PurgeAt <= 1,
		"open below, close at, purge at: %g, %g and %g do not rise from 0 to 1: order them", p.OpenBelow, p.CloseAt, p.PurgeAt)
	if len(errs) == 0 {
		return nil
	}
	return types.Errorf(types.Invalid, "%w", errors.Join(errs...))
}
