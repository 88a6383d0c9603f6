package types

import (
	"encoding/json"
	"time"
)

// Duration is a time.Duration with a text form: "1m30s".
type Duration time.Duration

// MarshalJSON encodes it as text.
func (d Duration) MarshalJSON() ([]byte, error) { return json.Marshal(time.Duration(d).String()) }

// UnmarshalJSON decodes it like time.ParseDuration.
func (d *Duration) UnmarshalJSON(text []byte) error {
	var s string
	if err := json.Unmarshal(text, &s); err != nil {
		return Errorf(Invalid, "%s is not a duration: write it as text with a unit, such as \"30s\"", text)
	}
	v, err := time.ParseDuration(s)
	if err != nil {
		return Errorf(Invalid, "%q is not a duration: write it such as \"1m30s\"", s)
	}
	*d = Duration(v)
	return nil
}

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

// Amount is an amount of a resource as text: "1", "500m", "4Gi", "inf". It also accepts a number.
type Amount string

// UnmarshalJSON decodes a text or a number.
func (a *Amount) UnmarshalJSON(text []byte) error {
	var s string
	if json.Unmarshal(text, &s) == nil {
		*a = Amount(s)
		return nil
	}
	var n json.Number
	if err := json.Unmarshal(text, &n); err != nil {
		return Errorf(Invalid, "%s is not an amount: write it such as \"1\", \"500m\" or \"4Gi\"", text)
	}
	*a = Amount(n)
	return nil
}

// Deadline is a time in RFC 3339 form, or a duration after the submission.
type Deadline string

// At returns the deadline in Unix nanoseconds for a task submitted at that time; 0 means no
// deadline.
func (d Deadline) At(submitted time.Time) (int64, error) {
	if d == "" {
		return 0, nil
	}
	if at, err := time.Parse(time.RFC3339, string(d)); err == nil {
		return d.nanos(at)
	}
	after, err := time.ParseDuration(string(d))
	switch {
	case err != nil:
		return 0, Errorf(Invalid, "%q is neither a time nor a duration: write it such as 2026-01-02T15:04:05Z, or 2h after the submission", string(d))
	case after <= 0:
		return 0, Errorf(Invalid, "%s has passed when the task is submitted: give a later one", after)
	}
	return d.nanos(submitted.Add(after))
}

// nanos converts a time. It refuses a time outside of the range of moments, because the conversion
// of a time far away wraps around.
func (d Deadline) nanos(at time.Time) (int64, error) {
	switch {
	case at.After(time.Unix(0, MaxMoment)):
		return 0, Errorf(Invalid, "%q is after the year 2150: give an earlier time, or leave it out for no deadline", shorten(string(d)))
	case at.Before(time.Unix(0, 1)):
		return 0, Errorf(Invalid, "%q has passed: give a later time", shorten(string(d)))
	}
	return at.UnixNano(), nil
}
