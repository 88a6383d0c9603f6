package types

import "cmp"

// Sooner reports whether s ends a task sooner than an earlier stop: by a shorter explicit grace.
// The task's own grace counts as longer than any.
func (s *Stop) Sooner(than *Stop) bool {
	return s.Grace > 0 && (than.Grace == 0 || s.Grace < than.Grace)
}

// Leaving returns the order to end an attempt of the task: its stop or its eviction, nil if the
// attempt continues. With both it is the stop, with the shorter grace.
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

// Over returns s in place of an earlier stop, with the shorter grace of both.
func (s *Stop) Over(before *Stop) *Stop {
	if s.Grace == before.Grace || s.Sooner(before) {
		return s
	}
	return &Stop{Reason: s.Reason, Grace: before.Grace, Evicted: s.Evicted}
}
