package server

import (
	"time"

	"github.com/escher-sched/escher/types"
)

// drainAtOnce is how many attempts leave a node at a time: what they wait for next is
// found while others still run.
const drainAtOnce = 32

// stuckAfter is how long after its grace an attempt may take to end, before others leave in
// its place: it hangs in the kernel, or its agent does.
const stuckAfter = time.Minute

// boundHere is an attempt on a node that is drained.
type boundHere struct {
	attempt
	// leaving reports whether the attempt was told to end, told whether this was as the
	// cordon has it, stuck whether it should have ended by now.
	leaving, told, stuck bool
}

// leaveNow reports whether what is on the node is to leave, and not to end by itself.
func leaveNow(c *types.Cordon, now time.Time) bool {
	switch c.Drain {
	case types.DrainMove, types.DrainStop:
		return true
	case types.DrainFinish:
		return c.DrainBy != 0 && now.UnixNano() >= c.DrainBy
	}
	return false
}

// nextDrain decides which attempts are told to leave next, of those that are there. What
// leaves already is told once, too: the cordon may want it sooner, or for good. What is
// stuck takes the place of nothing.
func nextDrain(c *types.Cordon, there []boundHere, now time.Time) []attempt {
	if !leaveNow(c, now) {
		return nil
	}
	room, again := drainAtOnce, drainAtOnce
	for _, b := range there {
		if (b.leaving || b.told) && !b.stuck {
			room--
		}
	}
	var next []attempt
	for _, b := range there {
		left := &room
		if b.leaving {
			left = &again
		}
		if !b.told && *left > 0 {
			next = append(next, b.attempt)
			*left--
		}
	}
	return next
}
