package esl

import (
	"slices"
	"strings"
	"time"

	"github.com/escher-sched/escher/controlplane"
	"github.com/escher-sched/escher/controlplane/cluster"
)

// Plan is what a policy wants done now, all of it or nothing, in one transaction. It is
// done on the condition that the policy is there as it was; Evict and Stop are of
// attempts and tasks that have not ended by then. Of one that has nothing but changes of
// resources, or evictions, or stops, and is larger than the store takes at once, a part is
// done, and the policy decides anew.
type Plan struct {
	Set       []Set
	Reserve   []Reservation
	Unreserve []string
	Stop      []Stop
	Evict     []Evict
	Raise     []Raise
	// Whole tells that the plan is never to be done in parts.
	Whole bool
	// If is what must not have changed besides.
	If controlplane.ReadSet
	// Again is when to look again even if nothing changes; zero: never.
	RequeueAfter time.Time
	// Reason says in words why, for the log.
	Reason string
}

// Stop ends a task for good.
type Stop struct {
	Task string
	controlplane.StopOptions
}

// Evict ends an attempt of a task, which then waits for its next one.
type Evict struct {
	Task    string
	Attempt int
	// Reason is in words, for the status of the task; empty: that it is evicted.
	Reason string
}

// Raise has a task, or with Reservation a reservation, come earlier while it waits, as if
// its priority were higher by so much: see controlplane.Transaction.Raise.
type Raise struct {
	ID          string
	Reservation bool
	By          int
}

// Nothing reports whether there is nothing to be done.
func (p *Plan) Nothing() bool {
	return len(p.Set)+len(p.Reserve)+len(p.Unreserve)+len(p.Stop)+len(p.Evict)+len(p.Raise) == 0
}

func SortNodes(nodes []*cluster.Node) {
	slices.SortFunc(nodes, func(a, b *cluster.Node) int { return strings.Compare(a.Name, b.Name) })
}

// PlanBase is how many compares a plan has besides those of its changes, at least.
const PlanBase = 8

// SetCost is how many compares the change of a pool takes at most: that it is as it was,
// that it is on no node, and that its owner is there.
const SetCost = 3

// PerPlan is how many changes a plan has at most, whatever the store takes.
const PerPlan = 100

// MaxChanges is how many pools a plan may set: as many as fit a transaction of the store.
func (s *State) MaxChanges() int {
	if s.Ops == 0 {
		return PerPlan
	}
	return min(PerPlan, max(1, (s.Ops-PlanBase)/SetCost))
}
