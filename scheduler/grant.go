package scheduler

import (
	"slices"
	"strings"

	"github.com/escher-sched/escher/controlplane"
	"github.com/escher-sched/escher/controlplane/cluster"
	"github.com/escher-sched/escher/controlplane/match"
	"github.com/escher-sched/escher/scheduler/grants"
	"github.com/escher-sched/escher/scheduler/queue"
	"github.com/escher-sched/escher/types"
)

// placeBundles grants a reservation if all its bundles fit, or moves the bundles of a granted one:
// everything in this draft, or nothing.
func (c *Core) placeBundles(d *Draft, s *queue.Shape, r *cluster.Reservation) (outcome, []types.ResourceID) {
	if r.Grant.V != nil {
		return c.placeMove(d, r)
	}
	if !d.empty() && !d.roomForGang(len(r.Info.V.Bundles)) {
		return full, nil
	}
	p := packing{core: c, draft: d, spots: grants.BundleOrder(c.view, r)}
	p.looks = looksBack + len(p.spots)
	if !p.place(0) {
		result, lacks := c.grantCollected(d, r)
		if p.skipped && result == noFit {
			return stalled, nil
		}
		return result, lacks
	}
	if !d.grant(r, p.spots, 0) {
		for _, x := range p.spots {
			d.Undo(x.Node, x.Holds)
		}
		if !d.empty() {
			return full, nil
		}
		return c.beginGranting(d, r, p.spots)
	}
	return placed, nil
}

// roomForGang reports whether the draft has space for the grant of n bundles, each on its own node,
// and for a task on each. A grant and its binds in one transaction write the allocations of the
// nodes only once.
func (d *Draft) roomForGang(n int) bool { return d.room(2+n*(nodeCompares+2), 2+3*n) }

// looksBack is the number of further nodes that the search for a reservation tries when the first
// fits leave no capacity for another bundle. With fewer, even a small cluster would be searched
// completely only by chance. With more, a large one pays for every reservation that does not fit.
const looksBack = 2000

// packing is the search for nodes for all bundles of a reservation. Each bundle goes where a task
// would go. If the rest does not fit then, it goes elsewhere while looks remain.
type packing struct {
	core    *Core
	draft   *Draft
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

// grant writes the grant of a fully placed reservation; false when the draft lacks space for it and
// for more further compares and operations.
func (d *Draft) grant(r *cluster.Reservation, spots []grants.BundlePlacement, more int) bool {
	return d.grantAs(r, grants.New(r, spots), spots, more)
}

// grantAs is grant for a grant that holds more than the placed spots.
func (d *Draft) grantAs(r *cluster.Reservation, g *types.Grant, spots []grants.BundlePlacement, more int) bool {
	keys := d.reliedOnBy(r.ID.Namespace, spots)
	nodes := make(map[*cluster.Node]struct{}, len(spots))
	for _, x := range spots {
		nodes[x.Node] = struct{}{}
	}
	if !d.room(2+nodeCompares*len(nodes)+len(keys)+more, 2+2*len(nodes)+more) {
		return false
	}
	for _, x := range spots {
		d.compareNode(x.Node)
		d.keep(x.Node, x.Holds)
	}
	for _, k := range keys {
		d.Change.IfUnchanged(k.key, k.mod)
	}
	ns, id := r.ID.Namespace, r.ID.ID
	d.Change.IfUnchanged(controlplane.ReservationKey(ns, id), r.Info.Mod)
	d.Change.IfUnchanged(controlplane.GrantKey(ns, id), r.Grant.Mod)
	d.put(controlplane.GrantKey(ns, id), g, r.Grant.Mod)
	d.granted[r.ID] = g
	var resource, scoped types.ResourceID
	for _, x := range spots {
		for _, h := range x.Holds {
			if h.Resource != resource { // most gangs repeat the resource
				resource, scoped = h.Resource, h.Resource.Scope(ns, id)
			}
			d.offer(x.Node, scoped, h.Amount)
		}
	}
	d.claim(r)
	d.items++
	d.bundles += len(spots) + 1
	d.Grants = append(d.Grants, r.ID)
	return true
}

// reliedOnBy returns the keys that spots depend on, each once.
func (d *Draft) reliedOnBy(ns string, spots []grants.BundlePlacement) []relied {
	var keys []relied
	for i, x := range spots {
		same := func(y grants.BundlePlacement) bool {
			return y.Node == x.Node && len(x.Needs) > 0 && len(y.Needs) > 0 && &y.Needs[0] == &x.Needs[0]
		}
		if !slices.ContainsFunc(spots[max(0, i-1):i], same) {
			keys = d.alsoReliedOn(keys, ns, x.Node, x.Needs)
		}
	}
	slices.SortFunc(keys, func(a, b relied) int { return strings.Compare(a.key, b.key) })
	return slices.Compact(keys)
}

// grantBehind returns the reservation that a scoped resource draws on.
func (c *Core) grantBehind(rid types.ResourceID) *cluster.Reservation {
	if !rid.Scoped() {
		return nil
	}
	ns, _, name := rid.Split()
	return c.view.Reservations[cluster.ID{Namespace: ns, ID: name}]
}
