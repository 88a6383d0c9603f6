package rig

import (
	"slices"
	"time"
)

// Durations are the durations of repeated calls.
type Durations []time.Duration

// Time calls do and records its duration.
func (s *Durations) Time(do func() error) error {
	began := time.Now()
	err := do()
	*s = append(*s, time.Since(began))
	return err
}

// Quantile returns a quantile in milliseconds.
func (s Durations) Quantile(q float64) float64 { return Quantile(slices.Sorted(slices.Values(s)), q) }
