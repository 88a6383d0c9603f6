package types

import (
	"encoding/json"
	"time"
)

// Duration is a time.Duration that is written as text: "1m30s".
type Duration time.Duration

// MarshalJSON writes it as text.
func (d Duration) MarshalJSON() ([]byte, error) { return json.Marshal(time.Duration(d).String()) }

// UnmarshalJSON reads it as time.ParseDuration does.
func (d *Duration) UnmarshalJSON(text []byte) error {
	var s string
	if err := json.Unmarshal(text, &s); err != nil {
		return Errorf(Invalid, "%s is no duration: write it as text with a unit, such as \"30s\"", text)
	}
	v, err := time.ParseDuration(s)
	if err != nil {
		return Errorf(Invalid, "%q is no duration: write it such as \"1m30s\"", s)
	}
	*d = Duration(v)
	return nil
}

// Wait is a Duration of which 0s, where it is written, is no wait at all, and not the same as
// one that is left out. In Go that is AtOnce, as 0 is one that is left out.
type Wait time.Duration

// AtOnce is a Wait of 0s. Each that is negative is.
const AtOnce Wait = -1

// Or returns how long it is, or what is given if it is left out.
func (w Wait) Or(otherwise time.Duration) time.Duration {
	if w == 0 {
		return otherwise
	}
	return max(0, time.Duration(w))
}

// MarshalJSON writes it as text.
func (w Wait) MarshalJSON() ([]byte, error) { return Duration(w.Or(0)).MarshalJSON() }

// UnmarshalJSON reads it as time.ParseDuration does.
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

// Amount is an amount of a resource as text: "1", "500m", "4Gi", "inf". A number is
// read too.
type Amount string

// UnmarshalJSON reads text or a number.
func (a *Amount) UnmarshalJSON(text []byte) error {
	var s string
	if json.Unmarshal(text, &s) == nil {
		*a = Amount(s)
		return nil
	}
	var n json.Number
	if err := json.Unmarshal(text, &n); err != nil {
		return Errorf(Invalid, "%s is no amount: write it such as \"1\", \"500m\" or \"4Gi\"", text)
	}
	*a = Amount(n)
	return nil
}

// Deadline is a time as RFC 3339 has it, or a duration from the submission.
type Deadline string

// At returns the time in Unix nanoseconds of a task submitted at that time; 0 if
// there is no deadline.
func (d Deadline) At(submitted time.Time) (int64, error) {
	if d == "" {
		return 0, nil
	}
	if at, err := time.Parse(time.RFC3339, string(d)); err == nil {
		return at.UnixNano(), nil
	}
	after, err := time.ParseDuration(string(d))
	switch {
	case err != nil:
		return 0, Errorf(Invalid, "%q is no time and no duration: write it such as 2026-01-02T15:04:05Z, or 2h after the submission", string(d))
	case after <= 0:
		return 0, Errorf(Invalid, "%s has passed when the task is submitted: give a later one", after)
	}
	return submitted.Add(after).UnixNano(), nil
}
