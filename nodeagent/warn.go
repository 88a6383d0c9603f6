package nodeagent

import (
	"fmt"
	"time"

	"github.com/escher-sched/escher/controlplane"
	"github.com/escher-sched/escher/types"
)

// A process may request a warning signal some time before its stop signal. If its end is known in
// advance, by a deadline or a limit of its running time, the warning comes that long before the
// end. A stop sends the warning at once, and the stop signal that much later. Each process gets one
// warning.

// specPatience is how long a restarted agent delays a stop while it does not know the spec.
const specPatience = 10 * time.Second

// warning returns the warning that the process requests; nil means none, or no time for it: while
// the session cannot be renewed, its deadline decides.
func warning(d *Desired) *types.Warn {
	if d.Spec == nil || d.fencing() {
		return nil
	}
	return d.Spec.Warn
}

// urgent reports whether a stop leaves no time for a warning: its grace is less than that of the
// task.
func urgent(d *Desired) bool {
	return d.Stop != nil && d.Stop.Grace > 0 && d.Stop.Grace < controlplane.GraceOf(d.Spec)
}

// warnAt returns when to warn a running process because its end is known; zero means never.
func warnAt(d *Desired, s *Seen) time.Time {
	w := warning(d)
	limit := d.limit(s.began())
	if w == nil || limit.IsZero() || !s.Warned.IsZero() {
		return time.Time{}
	}
	return limit.Add(-w.Before)
}

// warnNow returns why to warn a running process now, if it is not being ended; "" means no warning.
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

// stopAt returns when a process gets its stop signal for a stop: after its warning and the time
// that it requests. The zero time means at once, unless held is true: then the warning comes first.
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
	// Do not wait for a clock that was set back.
	return held && (at.IsZero() || now.Before(at) && !s.Warned.After(now))
}
