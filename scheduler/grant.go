package scheduler

import (
	"github.com/escher-sched/escher/controlplane/cluster"
	"github.com/escher-sched/escher/controlplane/match"
	"github.com/escher-sched/escher/scheduler/draft"
	"github.com/escher-sched/escher/scheduler/grants"
	"github.com/escher-sched/escher/scheduler/queue"
	"github.com/escher-sched/escher/types"
)

// placeBundles grants a reservation if all its bundles fit, or moves the bundles of a granted one:
// everything in this draft, or nothing.
func (c *Core) placeBundles(d *Transaction, s *queue.Shape, r *cluster.Reservation) (outcome, []types.ResourceID) {
	if r.Grant.V != nil {
		return c.placeMove(d, r)
	}
	if !d.Empty() && !d.RoomForGang(len(r.Info.V.Bundles)) {
		return full, nil
	}
	p := packing{core: c, draft: d.Draft, spots: grants.BundleOrder(c.view, r)}
	p.looks = looksBack + len(p.spots)
	if !p.place(0) {
		result, lacks := c.grantCollected(d, r)
		if p.skipped && result == noFit {
			return stalled, nil
		}
		return result, lacks
	}
	if !d.Grant(r, p.spots, 0) {
		for _, x := range p.spots {
			d.Undo(x.Node, x.Holds)
		}
		if !d.Empty() {
			return full, nil
		}
		return c.beginGranting(d, r, p.spots)
	}
	return placed, nil
}

// looksBack is the number of further nodes that the search for a reservation tries when the first
// fits leave no capacity for another bundle. With fewer, even a small cluster would be searched
// completely only by chance. With more, a large one pays for every reservation that does not fit.
const looksBack = 2000

// packing is the search for nodes for all bundles of a reservation. Each bundle goes where a task
// would go. If the rest does not fit then, it goes elsewhere while looks remain.
type packing struct {
	core    *Core
	draft   *draft.Draft
	spots   []grants.BundlePlacement
	looks   int
	skipped bool // nodes or pools in flight might have fit
}

// place places the bundles from the i-th on, or none of them.
func (p *packing) place(i int) bool {
	if i == len(p.spots) {
		return true
	}
	x := &p.spots[i]
	s := queue.NewShape()
	first, _, skipped := p.core.find(p.draft, s, x.Needs)
	p.skipped = p.skipped || skipped
	if first == nil {
		p.looks -= len(p.core.nodes)
		return false
	}
	if p.put(i, first) {
		return true
	}
	others, _ := p.core.candidates(p.draft, s, x.Needs)
	var some [8]match.Filter
	filters := p.core.index.Filters(x.Needs, some[:0])
	for _, n := range others {
		if !p.core.passes(filters, n) {
			continue
		}
		if p.looks--; p.looks < 0 {
			return false
		}
		if n == first || !n.Eligible() || p.core.closed(n) {
			continue
		}
		if _, ok := p.draft.Fits(n, x.Needs); ok && p.put(i, n) {
			return true
		}
	}
	return false
}

// put places the i-th bundle on n, then the following ones, or none of them.
func (p *packing) put(i int, n *cluster.Node) bool {
	x := &p.spots[i]
	x.Node, x.Holds = n, p.draft.Hold(n, x.Needs)
	p.draft.Take(n, x.Holds)
	if p.place(i + 1) {
		return true
	}
	p.draft.Undo(n, x.Holds)
	return false
}

// grantBehind returns the reservation that a scoped resource draws on.
func (c *Core) grantBehind(rid types.ResourceID) *cluster.Reservation {
	if !rid.Scoped() {
		return nil
	}
	ns, _, name := rid.Split()
	return c.view.Reservations[cluster.ID{Namespace: ns, ID: name}]
}
