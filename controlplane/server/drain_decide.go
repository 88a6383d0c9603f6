package server

import (
	"time"

	"github.com/escher-sched/escher/types"
)

// drainAtOnce is the number of attempts that leave a node at a time: the first ones find new nodes
// while others still run.
const drainAtOnce = 32

// stuckAfter is the time after its grace until an attempt counts as stuck, in the kernel or in its
// agent. Then others leave in its place.
const stuckAfter = time.Minute

// boundHere is an attempt on a node under drain.
type boundHere struct {
	attempt
	// leaving reports whether the attempt was told to end, told whether under this cordon, and
	// stuck whether it should have ended by now.
	leaving, told, stuck bool
}

// leaveNow reports whether attempts on the node must leave now, and not only end by themselves.
func leaveNow(c *types.Cordon, now time.Time) bool {
	switch c.Drain {
	case types.DrainMove, types.DrainStop:
		return true
	case types.DrainFinish:
		return c.DrainBy != 0 && now.UnixNano() >= c.DrainBy
	}
	return false
}

// nextDrain decides which of the attempts to tell next. It tells leaving ones once more, because
// the cordon may want it sooner, or for good. Stuck attempts do not count against the limit.
func nextDrain(c *types.Cordon, there []boundHere, now time.Time) []attempt {
	if !leaveNow(c, now) {
		return nil
	}
	slots, retells := drainAtOnce, drainAtOnce
	for _, b := range there {
		if (b.leaving || b.told) && !b.stuck {
			slots--
		}
	}
	var next []attempt
	for _, b := range there {
		left := &slots
		if b.leaving {
			left = &retells
		}
		if !b.told && *left > 0 {
			next = append(next, b.attempt)
			*left--
		}
	}
	return next
}
