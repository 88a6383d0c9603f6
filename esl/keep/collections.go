package keep

import (
	"time"

	"github.com/escher-sched/escher/controlplane"
	"github.com/escher-sched/escher/controlplane/cluster"
	"github.com/escher-sched/escher/esl/collect"
)

// collections runs the collections over time: see package collect. They need what policies need: the
// view of the cluster, and one program that decides.
type collections struct {
	// state is nil if this program runs none.
	state *collect.State
	// moved reports whether something has changed since the last decision. due is when to decide
	// next without a change; zero means never.
	moved bool
	due   time.Time
	// asked is when it last decided, rest the least time from then to the next decision.
	asked time.Time
	rest  time.Duration
	// busy reports whether a plan is being committed. after is the revision of the last commit: the
	// view must include it before the next decision.
	busy     bool
	after    int64
	revision int64
	// retry is the earliest next decision after a failure, and said the error of the last one.
	retry    time.Time
	failures int
	said     string
	results  chan collected
}

// collected is the outcome of a plan.
type collected struct {
	plan     collect.Plan
	revision int64
	err      error
}

// collectGap is the least time between two decisions.
const collectGap = 50 * time.Millisecond

func newCollections(cfg *collect.Config) collections {
	if cfg == nil {
		return collections{}
	}
	return collections{state: collect.New(*cfg), results: make(chan collected, 1)}
}

// touch notes a change, which may call for a decision.
func (c *collections) touch(v *cluster.View, at controlplane.Key) {
	if c.state != nil && c.state.Touch(v, at) {
		c.moved = true
	}
}

func (c *collections) further(revision int64) { c.revision = revision }

// next returns when to decide next; ok is false to wait for a change.
func (c *collections) next() (at time.Time, ok bool) {
	if c.busy || c.revision < c.after || !c.moved && c.due.IsZero() {
		return at, false
	}
	if at = c.asked.Add(max(collectGap, c.rest)); at.Before(c.retry) {
		at = c.retry
	}
	if !c.moved && at.Before(c.due) {
		at = c.due
	}
	return at, true
}

// idle reports whether nothing can collect.
func (c *collections) idle(v *cluster.View) bool { return c.state == nil || !c.busy && c.state.Idle(v) }

// drain waits for the plan in progress.
func (c *collections) drain() {
	if c.busy {
		<-c.results
	}
}

// ended returns the tasks that could collect and have ended, by key, with their revisions.
func (c *collections) ended(v *cluster.View) map[string]int64 {
	out := make(map[string]int64)
	if c.state == nil {
		return out
	}
	for t := range v.Tasks() {
		if t.Info.V != nil && t.Info.V.Accumulate {
			out[controlplane.TaskKey(t.ID.Namespace, t.ID.ID)] = t.Info.Mod
		}
	}
	return out
}
