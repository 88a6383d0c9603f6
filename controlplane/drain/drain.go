// Package drain takes nodes out of service, for administrators: what a drain is asked to do, what stays
// on a node, and when it is empty. A server makes the tasks leave (controlplane/server).
package drain

import (
	"time"

	"github.com/escher-sched/escher/controlplane"
	"github.com/escher-sched/escher/types"
)

// DefaultDeadline is how long tasks may go on by default, in mode finish.
const DefaultDeadline = time.Hour

// Order is what a drain is asked to do.
type Order struct {
	// Mode is how tasks leave; empty means finish.
	Mode types.DrainMode
	// Deadline, of mode finish, is how long tasks may go on; nil means DefaultDeadline, and 0 no limit.
	Deadline *time.Duration
	// Grace is the time between the stop signal and the kill; nil means that of each task.
	Grace  *time.Duration
	Reason string
}

// Cordon returns the cordon that drains a node. Invalid: a field is wrong.
func (o Order) Cordon(now time.Time) (types.Cordon, error) {
	c := types.Cordon{Reason: o.Reason, Drain: o.Mode}
	if c.Drain == types.DrainNone {
		c.Drain = types.DrainFinish
	}
	switch c.Drain {
	case types.DrainFinish, types.DrainMove, types.DrainStop:
	default:
		return c, types.Errorf(types.Invalid, "mode: %q is unknown: use finish, move or stop", types.Cut(string(o.Mode), types.MaxName))
	}
	deadline := DefaultDeadline
	if o.Deadline != nil {
		deadline = *o.Deadline
	}
	switch {
	case deadline < 0:
		return c, types.Errorf(types.Invalid, "deadline: %s is negative: use 0 or more", deadline)
	case c.Drain != types.DrainFinish && o.Deadline != nil:
		return c, types.Errorf(types.Invalid, "deadline: is for mode finish: leave it out, as nothing is waited for")
	case o.Grace != nil && *o.Grace < 0:
		return c, types.Errorf(types.Invalid, "grace: %s is negative: use 0 or more", *o.Grace)
	}
	if c.Drain == types.DrainFinish && deadline > 0 {
		c.DrainBy = now.Add(deadline).UnixNano()
	}
	if o.Grace != nil {
		if c.Grace = *o.Grace; c.Grace == 0 {
			c.Grace = controlplane.NoGrace
		}
	}
	return c, nil
}
