package watchdog

import "time"

const (
	// lookEvery is how often it looks around while the agent is not there.
	lookEvery = time.Second
	// killEvery is how often it looks for more to kill after the deadline: a start that
	// was under way may have come to its end.
	killEvery = 100 * time.Millisecond
	// lateStarts is how long after the deadline a start may come to its end that an
	// agent asked for which is not there any more.
	lateStarts = time.Minute
)

// SeenWithin is when it looks at the latest whether there is another deadline. It is less
// than the shortest session lasts: the first deadline, or one of an agent that was started
// again with a shorter time to live, comes unasked and may be sooner than the last.
const SeenWithin = 2 * time.Second

// sight is what a watchdog sees of a node.
type sight struct {
	// now is the time, killAt the deadline of this boot; set tells that there is one.
	now, killAt time.Duration
	set         bool
	// agent tells that the agent is there; orderly, that it has ended in order: then
	// there is no start under way.
	agent, orderly bool
	// runs tells that something runs which must not outlive the session. It is looked
	// at only while the agent is not there, or after the deadline.
	runs bool
	// ranAt is when that was the case last, as far as it was seen.
	ranAt time.Duration
}

// deed is what to do next.
type deed struct {
	// kill what runs; end, as there is nothing left to look after; else look again at
	// until.
	kill, end bool
	until     time.Duration
}

// next decides, without I/O and without a clock.
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

// soonest is when to look again, in some time or at the deadline.
func (s sight) soonest(in time.Duration) time.Duration {
	if s.set {
		return min(s.now+in, s.killAt)
	}
	return s.now + in
}
