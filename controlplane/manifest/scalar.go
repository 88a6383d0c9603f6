package manifest

import (
	"time"

	"github.com/escher-sched/escher/types"
)

// Scalars of package types, by the names that parameters of policies have them.
type (
	Duration = types.Duration
	Amount   = types.Amount
)

// Wait is a Duration that distinguishes a written 0s from one left out. In Go, AtOnce is a written
// 0s, and 0 means left out.
type Wait time.Duration

// AtOnce is a Wait of 0s. Every negative Wait means the same.
const AtOnce Wait = -1

// Or returns the wait, or otherwise if it was left out.
func (w Wait) Or(otherwise time.Duration) time.Duration {
	if w == 0 {
		return otherwise
	}
	return max(0, time.Duration(w))
}

// MarshalJSON encodes it as text.
func (w Wait) MarshalJSON() ([]byte, error) { return Duration(w.Or(0)).MarshalJSON() }

// UnmarshalJSON decodes it like time.ParseDuration.
func (w *Wait) UnmarshalJSON(text []byte) error {
	var d Duration
	if err := d.UnmarshalJSON(text); err != nil {
		return err
	}
	if *w = Wait(d); d <= 0 {
		*w = AtOnce
	}
	return nil
}
