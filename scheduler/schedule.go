package scheduler

import (
	"maps"
	"math"
	"slices"
	"time"

	"github.com/escher-sched/escher/controlplane"
	"github.com/escher-sched/escher/controlplane/cluster"
	"github.com/escher-sched/escher/controlplane/grants"
	"github.com/escher-sched/escher/scheduler/draft"
	"github.com/escher-sched/escher/types"
)

// Decision is what a cluster can place, and what must wait.
type Decision struct {
	// Binds are the tasks that fit, with their nodes, in order of placement: each takes what the
	// earlier ones left.
	Binds []draft.Bind
	// Grants are the reservations that fit, complete.
	Grants []cluster.ID
	// Waiting are those that do not fit, by priority and age.
	Waiting []Waiting
}

// Waiting is a task or reservation that must wait.
type Waiting struct {
	ID cluster.ID
	// Reservation reports whether it is a reservation; otherwise it is a task.
	Reservation bool
	// Lacks are the resources that must become free before it can fit.
	Lacks []types.ResourceID
}

// Schedule places everything that waits in a cluster: a snapshot in, a decision out, by the rules
// of Core, in one pass. It reads the view without changing it, does no I/O, and knows the time only
// as now. The same view, configuration and time give the same decision.
//
// The decision is that of one transaction without limits. Capacity that a reservation accumulates
// stays held. Attempts that end meanwhile do not count.
func Schedule(view *cluster.View, cfg Config, now time.Time) Decision {
	decision, _ := Simulate(view, cfg, now)
	return decision
}

// Simulate is Schedule, and returns the cluster as the decision leaves it.
func Simulate(view *cluster.View, cfg Config, now time.Time) (Decision, *draft.Draft) {
	c := New(cfg)
	c.lookAt(view)
	c.now = now
	c.batch = math.MaxInt
	c.load()
	d := c.newDraft(controlplane.Limits{Ops: math.MaxInt, Bytes: math.MaxInt}, 1)
	c.placeWaiting(d)
	return Decision{Binds: d.Binds, Grants: d.Grants, Waiting: c.waiting()}, d.Draft
}

// load rechecks everything in a view that the core did not build.
func (c *Core) load() {
	for _, name := range slices.Sorted(maps.Keys(c.view.Nodes)) {
		n := c.view.Nodes[name]
		c.touchNode(n, controlplane.Nodes)
		c.state(n).alloc = n.Allocated.V
	}
	c.touchInOrder(slices.Collect(c.view.Tasks()))
	for _, id := range slices.SortedFunc(maps.Keys(c.view.Reservations), cluster.ID.Compare) {
		c.touchReservation(c.view.Reservations[id])
	}
	c.touchPools()
}

// waiting returns what is queued, in order.
func (c *Core) waiting() []Waiting {
	entries := c.queue.All()
	out := make([]Waiting, 0, len(entries))
	for _, e := range entries {
		lacks := slices.DeleteFunc(e.Shape.Lacking(), func(rid types.ResourceID) bool { return rid == grants.AnyNode || rid == lendable })
		out = append(out, Waiting{ID: e.ID, Reservation: e.Reservation, Lacks: lacks})
	}
	return out
}
