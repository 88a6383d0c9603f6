package server

import (
	"errors"
	"time"

	"github.com/escher-sched/escher/types"
)

// Policy says how long finished objects are kept.
type Policy struct {
	// Interval is the time between two compactions of etcd's history: it keeps one to two
	// intervals.
	Interval time.Duration
	// Gap is the shortest time between two passes.
	Gap time.Duration

	// KeepAge is the time finished tasks are kept, and KeepNumber the largest number of them,
	// latest first. KeepMin is the time each is kept in any case.
	KeepAge    time.Duration
	KeepNumber int
	KeepMin    time.Duration
	// OrphanGrace is the time a task waits for its job to be written.
	OrphanGrace time.Duration
	// SpecGrace is the time a spec without tasks is kept.
	SpecGrace time.Duration

	// MaxPending is the largest number of waiting tasks; submitters of more wait until there are
	// fewer.
	MaxPending int

	// CloseAt, OpenBelow and PurgeAt are fractions of the database's quota. Admission closes at
	// CloseAt and opens below OpenBelow. From PurgeAt on, finished tasks are deleted at once.
	CloseAt, OpenBelow, PurgeAt float64
}

// DefaultPolicy returns the policy of an unconfigured cluster.
func DefaultPolicy() Policy {
	return Policy{
		// A watcher may lose its connection for up to a minute of history without listing again.
		Interval: 30 * time.Second,
		// People do not notice a second, and a burst of ends is one pass.
		Gap:         time.Second,
		KeepAge:     time.Hour,
		KeepNumber:  20_000,
		KeepMin:     5 * time.Minute,
		OrphanGrace: 10 * time.Minute,
		SpecGrace:   10 * time.Minute,
		// Each takes some 500 bytes in etcd, and as much in a scheduler.
		MaxPending: 2_000_000,
		// At 100 % etcd refuses every write, also of schedulers and agents.
		CloseAt:   0.70,
		OpenBelow: 0.65,
		PurgeAt:   0.85,
	}
}

// Validate returns all problems at once.
func (p Policy) Validate() error {
	var errs []error
	check := func(ok bool, format string, args ...any) {
		if !ok {
			errs = append(errs, types.Errorf(types.Invalid, format, args...))
		}
	}
	check(p.Interval > 0, "interval: %s is not positive: use 30s", p.Interval)
	check(p.Gap > 0, "gap: %s is not positive: use 1s", p.Gap)
	check(p.KeepMin >= 2*p.Interval, "keep min: %s is less than two intervals of %s: a watcher that lists again would miss ends, raise it", p.KeepMin, p.Interval)
	check(p.KeepAge >= p.KeepMin, "keep age: %s is less than keep min, %s: raise it", p.KeepAge, p.KeepMin)
	check(p.KeepNumber >= 0, "keep number: %d is negative: use 0 or more", p.KeepNumber)
	check(p.OrphanGrace > 0, "orphan grace: %s is not positive: use 10m", p.OrphanGrace)
	check(p.SpecGrace > 0, "spec grace: %s is not positive: use 10m", p.SpecGrace)
	check(p.MaxPending > 0, "max pending: %d is not positive: use 2000000", p.MaxPending)
	check(0 < p.OpenBelow && p.OpenBelow <= p.CloseAt && p.CloseAt <= p.PurgeAt && p.PurgeAt <= 1,
		"open below, close at, purge at: %g, %g and %g are not in ascending order from 0 to 1: order them", p.OpenBelow, p.CloseAt, p.PurgeAt)
	if len(errs) == 0 {
		return nil
	}
	return types.Errorf(types.Invalid, "%w", errors.Join(errs...))
}
