//go:build linux

package watchdog

import "time"

const (
	// lookEvery is the interval of checks while the agent is gone.
	lookEvery = time.Second
	// killEvery is the interval of kills after the deadline: a start under way may finish.
	killEvery = 100 * time.Millisecond
	// lateStarts is how long after the deadline a start that an ended agent requested may still
	// finish.
	lateStarts = time.Minute
)

// SeenWithin is the longest time until the watchdog sees a new deadline. It is less than the
// shortest session: the first deadline comes without notice, and so may an earlier one, of an agent
// that restarted with a shorter time to live.
const SeenWithin = 2 * time.Second

// sight is what a watchdog knows of a node.
type sight struct {
	// now is the time, killAt the deadline of this boot; set reports whether there is one.
	now, killAt time.Duration
	set         bool
	// agent reports whether the agent runs; orderly, whether it ended in order: then no start is
	// under way.
	agent, orderly bool
	// runs reports whether a container runs that must not outlive the session. It is checked only
	// while the agent is gone or after the deadline.
	runs bool
	// ranAt is when runs was last true.
	ranAt time.Duration
}

// deed is what to do next.
type deed struct {
	// kill kills the running containers; end ends, because nothing is left to guard. Without end,
	// check again at until.
	kill, end bool
	until     time.Duration
}

// next decides what to do, without I/O and without a clock.
func next(s sight) deed {
	late := s.set && s.now >= s.killAt
	switch {
	case !s.agent && !s.runs && (s.orderly || !s.set):
		return deed{end: true}
	case !s.agent && !s.runs && late && s.now >= max(s.killAt, s.ranAt)+lateStarts:
		return deed{end: true}
	case late && s.now >= s.killAt+lateStarts:
		return deed{kill: true, until: s.now + lookEvery}
	case late:
		return deed{kill: true, until: s.now + killEvery}
	case !s.agent:
		return deed{until: s.soonest(lookEvery)}
	}
	return deed{until: s.soonest(SeenWithin)}
}

// soonest returns the time of the next check: after an interval, or at the deadline.
func (s sight) soonest(in time.Duration) time.Duration {
	if s.set {
		return min(s.now+in, s.killAt)
	}
	return s.now + in
}
