package manifest

import (
	"time"

	"github.com/escher-sched/escher/types"
)

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
		return 0, types.Errorf(types.Invalid, "%q is neither a time nor a duration: write it such as 2026-01-02T15:04:05Z, or 2h after the submission", string(d))
	case after <= 0:
		return 0, types.Errorf(types.Invalid, "%s has passed when the task is submitted: give a later one", after)
	}
	return d.nanos(submitted.Add(after))
}

// nanos converts a time. It refuses a time outside of the range of moments, because the conversion
// of a time far away wraps around.
func (d Deadline) nanos(at time.Time) (int64, error) {
	switch {
	case at.After(time.Unix(0, types.MaxMoment)):
		return 0, types.Errorf(types.Invalid, "%q is after the year 2150: give an earlier time, or leave it out for no deadline", types.Cut(string(d), 40))
	case at.Before(time.Unix(0, 1)):
		return 0, types.Errorf(types.Invalid, "%q has passed: give a later time", types.Cut(string(d), 40))
	}
	return at.UnixNano(), nil
}
