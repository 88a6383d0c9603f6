// Package scheduler binds tasks to nodes. It matches request vectors with free capacity and knows
// no policy: policies are made of ephemeral resources.
//
// Schedule is the pure decision: a snapshot in, a plan out. Core does the same incrementally,
// without I/O and without a clock: changes in (Apply), transactions out (Next), answers in (Done).
// Run connects a Core to a store.
//
// A custom scheduler needs neither. It follows the cluster into a cluster.View, fills a draft.Draft of
// that view with Bind, and commits the transaction that Seal returns. Such transactions are correct
// whatever other schedulers run, because each compares the state it was decided on. The tasks that
// name the custom scheduler are left to it. While no key schedulers/<name> exists, the scheduler of
// their namespace releases and stops them. examples/framespace is one.
package scheduler

import (
	"time"

	"github.com/escher-sched/escher/controlplane"
	"github.com/escher-sched/escher/scheduler/search"
	"github.com/escher-sched/escher/types"
)

// Config configures a Core. The zero value of a field is its default.
type Config struct {
	// Name is the scheduler's name: it alone places the tasks that name it.
	Name string
	// Version is the version of the program, shown in the list of live schedulers.
	Version string
	// Shared makes live schedulers (keys schedulers/<name>) divide the namespaces. Otherwise this
	// one serves all namespaces, and the compares alone settle races with others.
	Shared bool
	// Seed makes the choice among equal nodes reproducible, and the ids of the transactions. A Core
	// driven without Run needs a seed that was never used before.
	Seed uint64
	// Placement selects among the nodes that fit; the default is search.Auto.
	Placement search.Choice
	// Limits are the limits of the store.
	Limits controlplane.Limits
	// BatchTasks bounds the tasks of one transaction. Larger transactions cost less per task, but a
	// conflict in one delays more tasks.
	BatchTasks int
	// InFlight bounds the unanswered transactions.
	InFlight int
	// Gather is the least number of work items for another transaction while some are in flight.
	// Those may then cover at most half of the nodes, or of this scheduler's part of them. With
	// fewer items the core waits for an answer. 1 means never wait.
	Gather int
	// FoldFrom is the number of tasks from which waiting tasks are kept compacted. That saves
	// memory and costs a little per placement.
	FoldFrom int
	// LossRate bounds the attempts given up on lost nodes, per second: the remaining nodes must
	// absorb them without overload.
	LossRate float64
	// StormHold is how long attempts are kept after more than half of the nodes vanished, which
	// indicates a network failure.
	StormHold time.Duration
	// Metrics count the work of Run; nil means none.
	Metrics *Metrics
	// Beat is called in every pass of Run's loop, at least every 10 s, and with true when the store
	// has answered instead; nil means no calls.
	Beat func(heard bool)
	// Quarantined receives from Run the number of unreadable stored values and some of their keys,
	// whenever something has changed; nil means no calls. It must return soon.
	Quarantined func(count int, some []string)
}

// WithDefaults returns the configuration with its defaults filled in.
func (c Config) WithDefaults() Config {
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
	return c
}

// Validate returns every error in the configuration.
func (c Config) Validate() error {
	if c.BatchTasks < 0 || c.InFlight < 0 || c.Gather < 0 || c.FoldFrom < 0 || c.LossRate < 0 || c.StormHold < 0 {
		return types.Errorf(types.Invalid, "scheduler: batch tasks %d, in flight %d, gather %d, fold from %d, loss rate %g, storm hold %s: none may be negative",
			c.BatchTasks, c.InFlight, c.Gather, c.FoldFrom, c.LossRate, c.StormHold)
	}
	if err := c.Placement.Validate(); err != nil {
		return err
	}
	if c.Name != "" {
		return types.ValidateName("scheduler name", c.Name)
	}
	return nil
}
