package nodeagent

import (
	"fmt"
	"time"

	"github.com/escher-sched/escher/controlplane"
	"github.com/escher-sched/escher/types"
)

// A process may ask for a signal some time before it is asked to end. When its end is
// known beforehand, by a deadline or as it may run only so long, that comes so much ahead
// of it; a stop has the warning come at once, and the stop signal so much later. It comes
// once to each process.

// specPatience is how long an agent that begins anew, and does not know yet what it runs,
// leaves a stop waiting for that.
const specPatience = 10 * time.Second

// warning is what the process asks for, nil if nothing, or there is no time for it:
// without a session the deadline of that is what counts.
func warning(d *Desired) *types.Warn {
	if d.Spec == nil || d.fencing() {
		return nil
	}
	return d.Spec.Warn
}

// urgent reports whether a stop leaves no time for a warning: it gives less grace than
// the task has of its own.
func urgent(d *Desired) bool {
	return d.Stop != nil && d.Stop.Grace > 0 && d.Stop.Grace < controlplane.GraceOf(d.Spec)
}

// warnAt is when a process that runs is to be warned because its end is known, zero is
// never.
func warnAt(d *Desired, s *Seen) time.Time {
	w := warning(d)
	limit := d.limit(s.began())
	if w == nil || limit.IsZero() || !s.Warned.IsZero() {
		return time.Time{}
	}
	return limit.Add(-w.Before)
}

// warnNow returns why a process that runs, and is not being ended, is to be warned now,
// empty if it is not.
func warnNow(d *Desired, s *Seen, now time.Time) string {
	w := warning(d)
	if w == nil || !s.Warned.IsZero() {
		return ""
	}
	if d.Stop != nil && !urgent(d) {
		return fmt.Sprintf("it is asked to end in %s: %s", w.Before, d.Stop.Reason)
	}
	if at := warnAt(d, s); !at.IsZero() && !now.Before(at) {
		return fmt.Sprintf("it has to end in %s", d.limit(s.began()).Sub(now).Round(time.Second))
	}
	return ""
}

// stopAt is when a process that is to be stopped gets its stop signal: once it was warned,
// and had its time. The zero time is at once, unless held is true: then it is to be warned
// before.
func stopAt(d *Desired, s *Seen) (at time.Time, held bool) {
	w := warning(d)
	switch {
	case d.Stop == nil || s.Container != Running || s.Cause != "" || urgent(d):
		return time.Time{}, false
	case d.Spec == nil && !d.fencing() && !s.Since.IsZero():
		return s.Since.Add(specPatience), true
	case w == nil:
		return time.Time{}, false
	case s.Warned.IsZero():
		return time.Time{}, true
	}
	return s.Warned.Add(w.Before), true
}

// stopHeld reports whether the stop signal has to wait.
func stopHeld(d *Desired, s *Seen, now time.Time) bool {
	at, held := stopAt(d, s)
	// A clock that was set back is not waited for.
	return held && (at.IsZero() || now.Before(at) && !s.Warned.After(now))
}
