package esl

import (
	"reflect"
	"slices"
	"strings"
	"time"

	"github.com/escher-sched/escher/controlplane"
	"github.com/escher-sched/escher/controlplane/cluster"
	"github.com/escher-sched/escher/types"
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
	Again time.Time
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

// does reports whether the plan does what another one does, whenever it is looked again,
// and whatever is said of it.
func (p *Plan) does(other *Plan) bool {
	a, b := *p, *other
	a.Again, b.Again = time.Time{}, time.Time{}
	a.Reason, b.Reason = "", ""
	return reflect.DeepEqual(a, b)
}

// transaction makes a transaction of a plan.
func (p *Plan) transaction(c *controlplane.Client, reads ...controlplane.ReadSet) *controlplane.Transaction {
	t := c.Begin(append(reads, p.If)...)
	for _, id := range p.Unreserve {
		t.Unreserve(id)
	}
	for _, r := range p.Reserve {
		t.Reserve(r.ID, r.Reservation)
	}
	for _, s := range p.Set {
		t.SetResource(s.Name, s.Capacity, s.Where, s.Options)
	}
	for _, s := range p.Stop {
		t.Stop(s.Task, s.StopOptions)
	}
	for _, e := range p.Evict {
		t.EvictFor(e.Task, e.Attempt, e.Reason)
	}
	for _, r := range p.Raise {
		if r.Reservation {
			t.RaiseReservation(r.ID, r.By)
		} else {
			t.Raise(r.ID, r.By)
		}
	}
	return t
}

// reads returns the resources that the plan sets as the view has them: whoever changed
// one since, it was not decided on.
func (p *Plan) reads(v *cluster.View, ns string) controlplane.ReadSet {
	reads := make(controlplane.ReadSet)
	for _, s := range p.Set {
		rid := types.Resolve(ns, s.Name)
		read := func(where string, c *cluster.Cell[types.Resource]) {
			revision := int64(0)
			if c != nil {
				revision = c.Mod
			}
			reads[controlplane.ResourceKey(ns, s.Name, where)] = revision
		}
		switch {
		case s.Where.Cluster:
			if pool := v.Pools[rid]; pool != nil {
				read(types.ClusterWide, &pool.Info)
			} else {
				read(types.ClusterWide, nil)
			}
		case s.Where.Among != nil:
		case len(s.Where.Nodes) > 0:
			for _, name := range s.Where.Nodes {
				if n := v.Nodes[name]; n != nil {
					read(name, n.Own[rid])
				}
			}
		default:
			read(types.EveryNode, v.Everywhere[rid])
		}
	}
	return reads
}

func sortNodes(nodes []*cluster.Node) {
	slices.SortFunc(nodes, func(a, b *cluster.Node) int { return strings.Compare(a.Name, b.Name) })
}
