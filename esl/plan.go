package esl

import (
	"cmp"
	"slices"
	"strings"
	"time"

	"github.com/escher-sched/escher/controlplane"
	"github.com/escher-sched/escher/controlplane/cluster"
	"github.com/escher-sched/escher/types"
)

// Plan holds the changes that a policy wants now, all or none, in one transaction. Its condition is
// that the policy has not changed. Evict and Stop skip attempts and tasks that have ended by then.
// A plan of only resource changes, only evictions or only stops that is too large for one
// transaction is carried out in part, and the policy decides again.
type Plan struct {
	// Set may have resources of other namespaces: see State.Ref.
	Set     []controlplane.Resource
	Reserve []controlplane.Reservation
	// Unreserve may name reservations of other namespaces: see State.Ref.
	Unreserve []string
	Stop      []Stop
	Evict     []Evict
	Raise     []Raise
	Request   []Request
	// Whole forbids to carry out the plan in part.
	Whole bool
	// If holds further objects that must not have changed.
	If controlplane.ReadSet
	// RequeueAfter is when to call Next again even without a change; zero means never.
	RequeueAfter time.Time
	// Reason explains the plan in the log.
	Reason string
	// Idle explains in the log of decisions why the plan has no changes; empty means that all is as the
	// policy wants it.
	Idle string
}

// Stop ends a task for good.
type Stop struct {
	Task string
	controlplane.StopOptions
}

// Evict ends an attempt of a task, which then waits for its next one. Task may be of another namespace: see
// State.Ref.
type Evict struct {
	Task    string
	Attempt int
	// Reason is for the status of the task; empty means a general text about eviction.
	Reason string
}

// Raise puts a waiting task, or with Reservation a reservation, earlier in the queue, as if its
// priority were that much higher: see controlplane.Transaction.Raise.
type Raise struct {
	ID          string
	Reservation bool
	By          int
}

// Request changes what a waiting task requests: see controlplane.Transaction.Request.
type Request struct {
	Task     string
	Requests types.Requests
}

// Nothing reports whether the plan has no changes.
func (p *Plan) Nothing() bool {
	return len(p.Set)+len(p.Reserve)+len(p.Unreserve)+len(p.Stop)+len(p.Evict)+len(p.Raise)+len(p.Request) == 0
}

// WhenIdle returns the plan with a text for Idle, unless it has one.
func (p Plan) WhenIdle(text string) Plan {
	p.Idle = cmp.Or(p.Idle, text)
	return p
}

func SortNodes(nodes []*cluster.Node) {
	slices.SortFunc(nodes, func(a, b *cluster.Node) int { return strings.Compare(a.Name, b.Name) })
}

// PlanBase is the least number of compares of a plan besides those of its changes.
const PlanBase = 8

// SetCost is the most compares that one change of a pool takes: it is unchanged, it is on no node,
// and its owner exists.
const SetCost = 3

// PerPlan is the most changes in a plan, whatever the store takes.
const PerPlan = 100

// MaxChanges is how many pools a plan may set: as many as fit in a transaction of the store.
func (s *State) MaxChanges() int {
	if s.Ops == 0 {
		return PerPlan
	}
	return min(PerPlan, max(1, (s.Ops-PlanBase)/SetCost))
}
