package types

import "cmp"

// Sooner reports whether s ends a task sooner than a stop that was asked for before: by a
// shorter grace that was given, where that of the task counts as longer than any.
func (s *Stop) Sooner(than *Stop) bool {
	return s.Grace > 0 && (than.Grace == 0 || s.Grace < than.Grace)
}

// Leaving returns what the task has an attempt of it be told, nil if that is to go on: its
// stop, or its eviction. With both it is the stop, with the grace of that which ends it
// sooner.
func (t *Task) Leaving(attempt int) *Stop {
	if attempt == 0 || t.Evict != attempt {
		return t.Stop
	}
	evict := &Stop{Reason: cmp.Or(t.EvictReason(), "evicted"), Grace: t.EvictGrace, Evicted: true}
	if t.Stop == nil {
		return evict
	}
	return t.Stop.Over(evict)
}

// Over returns s in the place of a stop that was told before, with the grace of that which
// ends it sooner.
func (s *Stop) Over(before *Stop) *Stop {
	if s.Grace == before.Grace || s.Sooner(before) {
		return s
	}
	return &Stop{Reason: s.Reason, Grace: before.Grace, Evicted: s.Evicted}
}
