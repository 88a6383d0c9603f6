// Package scheduler binds tasks to nodes. It matches request vectors with what is
// free, and knows no policy: policies are made of ephemeral resources.
//
// Schedule is the pure decision: a snapshot in, a plan out. Core does the same
// incrementally, without I/O and without a clock: changes in (Apply), transactions
// out (Next), answers in (Done). Run connects a Core to a store.
//
// Core is also for somebody's own scheduler: the transactions it makes are correct
// whoever else schedules, because every one compares what it was decided on.
package scheduler

import (
	"time"

	"github.com/escher-sched/escher/controlplane"
	"github.com/escher-sched/escher/types"
)

// Config says how a Core works. The zero value of a field is its default.
type Config struct {
	// Name is the scheduler's: tasks that name a scheduler are left to it.
	Name string
	// Version is that of the program, for whoever looks at live schedulers.
	Version string
	// Shared tells that live schedulers (keys schedulers/<name>) divide the
	// namespaces among them. Without it this one takes all, and races with
	// others are settled by the compares alone.
	Shared bool
	// Seed makes the choice among equal nodes reproducible, and the ids of the
	// transactions: a Core that is not driven by Run needs one that was never
	// used before.
	Seed uint64
	// Placement says which of the nodes that fit is taken: Spread unless given.
	Placement Choice
	// Limits are those of the store.
	Limits controlplane.Limits
	// BatchTasks bounds the tasks of one transaction. Larger ones cost less
	// for each task and hold more back when one of them conflicts.
	BatchTasks int
	// InFlight bounds the transactions that are not answered yet.
	InFlight int
	// Gather is how much there must be to do for another transaction to be sent while some
	// are in flight, which then are on no more than half of the nodes, or of this
	// scheduler's part of them: what is less waits for an answer. With 1 nothing waits.
	Gather int
	// FoldFrom is how many tasks there must be for as little as possible to be kept of those
	// that wait: that saves memory, and costs a little for each when it is placed.
	FoldFrom int
	// LossRate is how many attempts a second are given up on lost nodes: the
	// rest of the cluster must take them, and must not drown.
	LossRate float64
	// StormHold is how long attempts are left alone after more than half of
	// the nodes vanished: then it is the network.
	StormHold time.Duration
	// AccumulateAfter is how long a reservation that may accumulate waits
	// before it does.
	AccumulateAfter time.Duration
	// Units, unless nil, are somebody's own: tasks that are decided on as a whole.
	Units Units
	// Metrics, unless nil, count what Run does.
	Metrics *Metrics
	// Beat, unless nil, is called by Run whenever its loop runs, every 10 s at
	// least, and with true when it has heard from the store instead.
	Beat func(heard bool)
	// Quarantined, unless nil, is told by Run how many stored values cannot be read, and
	// some of their keys, whenever something has changed. It must return soon.
	Quarantined func(count int, some []string)
}

// withDefaults returns the configuration with its defaults filled in.
func (c Config) withDefaults() Config {
	if c.Name == "" {
		c.Name = "scheduler"
	}
	if c.Limits.Ops == 0 {
		c.Limits.Ops = 128
	}
	if c.Limits.Bytes == 0 {
		c.Limits.Bytes = 3 << 19
	}
	if c.BatchTasks == 0 {
		c.BatchTasks = 256
	}
	if c.InFlight == 0 {
		c.InFlight = 8
	}
	if c.Gather == 0 {
		c.Gather = min(64, c.Limits.Ops/4)
	}
	if c.FoldFrom == 0 {
		c.FoldFrom = 1 << 17
	}
	if c.LossRate == 0 {
		c.LossRate = 200
	}
	if c.StormHold == 0 {
		c.StormHold = 5 * time.Minute
	}
	if c.AccumulateAfter == 0 {
		c.AccumulateAfter = 30 * time.Second
	}
	return c
}

// Validate returns all that is wrong with the configuration.
func (c Config) Validate() error {
	if c.BatchTasks < 0 || c.InFlight < 0 || c.Gather < 0 || c.FoldFrom < 0 || c.LossRate < 0 || c.StormHold < 0 || c.AccumulateAfter < 0 {
		return types.Errorf(types.Invalid, "scheduler: batch tasks %d, in flight %d, gather %d, fold from %d, loss rate %g, storm hold %s, accumulate after %s: none may be negative",
			c.BatchTasks, c.InFlight, c.Gather, c.FoldFrom, c.LossRate, c.StormHold, c.AccumulateAfter)
	}
	if err := c.Placement.Validate(); err != nil {
		return err
	}
	if c.Name != "" {
		return types.ValidateName("scheduler name", c.Name)
	}
	return nil
}
