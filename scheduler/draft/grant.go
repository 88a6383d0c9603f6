package draft

import (
	"slices"
	"strings"

	"github.com/escher-sched/escher/controlplane"
	"github.com/escher-sched/escher/controlplane/cluster"
	"github.com/escher-sched/escher/controlplane/grants"
	"github.com/escher-sched/escher/types"
)

// RoomForGang reports whether the draft has space for the grant of n bundles, each on its own node,
// and for a task on each. A grant and its binds in one transaction write the allocations of the
// nodes only once.
func (d *Draft) RoomForGang(n int) bool { return d.Room(3+n*(nodeCompares+2), 2+3*n) }

// Grant writes the grant of a fully placed reservation; false when the draft lacks space for it and
// for more further compares and operations.
func (d *Draft) Grant(r *cluster.Reservation, spots []grants.BundlePlacement, more int) bool {
	return d.grantAs(r, grants.New(r, spots), spots, more)
}

// grantAs is grant for a grant that holds more than the placed spots.
func (d *Draft) grantAs(r *cluster.Reservation, g *types.Grant, spots []grants.BundlePlacement, more int) bool {
	keys := d.reliedOnBy(r.ID.Namespace, spots)
	nodes := make(map[*cluster.Node]struct{}, len(spots))
	for _, x := range spots {
		nodes[x.Node] = struct{}{}
	}
	if !d.Room(2+nodeCompares*len(nodes)+len(keys)+more, 2+2*len(nodes)+more) {
		return false
	}
	for _, x := range spots {
		d.CompareNode(x.Node)
		d.Keep(x.Node, x.Holds)
	}
	for _, k := range keys {
		d.Change.IfUnchanged(k.key, k.mod)
	}
	ns, id := r.ID.Namespace, r.ID.ID
	d.Change.IfUnchanged(controlplane.ReservationKey(ns, id), r.Info.Mod)
	d.Change.IfUnchanged(controlplane.GrantKey(ns, id), r.Grant.Mod)
	d.Put(controlplane.GrantKey(ns, id), g, r.Grant.Mod)
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

// Move writes the grant of r with the released bundles at their spots; false when the draft lacks
// space. It compares that the nodes are still gone or draining.
func (d *Draft) Move(r *cluster.Reservation, from *types.Grant, spots []grants.BundlePlacement) bool {
	more := 0
	for _, at := range from.Nodes {
		more += 3 + len(at.Holds)
	}
	if !d.grantAs(r, grants.Moved(r.Grant.V, from, grants.New(r, spots)), spots, more) {
		return false
	}
	for _, at := range from.Nodes {
		n := d.view.Nodes[at.Node]
		d.Keep(n, at.Holds)
		d.Change.IfCreated(d.keysOf(n).alive, n.Session())
		if n.Alive.V != nil {
			d.Change.IfUnchanged(controlplane.CordonKey(n.Name), n.Cordon.Mod)
		}
	}
	return true
}

// RoomToClaim reports whether the draft has space to bind a task and to delete its grant.
func (d *Draft) RoomToClaim(g *types.Grant, needs []cluster.Need) bool {
	held := 0
	for _, at := range g.Nodes {
		held += 1 + len(at.Holds)
	}
	return d.Empty() || d.Room(4+nodeCompares+8*len(needs)+held, 6+len(needs)+held)
}

// ReleaseGrant returns the capacity of a grant, so that searches find it. ReacquireGrant or
// Dissolve follows.
func (d *Draft) ReleaseGrant(g *types.Grant) {
	for _, at := range g.Nodes {
		d.GiveBack(d.view.Nodes[at.Node], at.Holds)
	}
}

// ReacquireGrant takes the capacity that ReleaseGrant returned.
func (d *Draft) ReacquireGrant(g *types.Grant) {
	for _, at := range g.Nodes {
		d.Take(d.view.Nodes[at.Node], at.Holds)
	}
}

// Dissolve deletes the released grant of a task and the leadership that goes with it.
func (d *Draft) Dissolve(x *cluster.Reservation) {
	for _, at := range x.Grant.V.Nodes {
		d.Keep(d.view.Nodes[at.Node], at.Holds)
	}
	key := controlplane.GrantKey(x.ID.Namespace, x.ID.ID)
	d.Change.IfUnchanged(key, x.Grant.Mod)
	d.Remove(key)
	d.EndLead(grants.AccumulateRole, x.ID)
}

// EndLead deletes a leadership if id has it.
func (d *Draft) EndLead(role string, id cluster.ID) {
	if l := d.view.Leaders[role]; l != nil && l.V.Holder == id.String() {
		d.Change.IfUnchanged(controlplane.LeaderKey(role), l.Mod)
		d.Remove(controlplane.LeaderKey(role))
	}
}

// RoomToHandOver reports whether the draft has space for one grant of all that r collects on nodes,
// one for each bundle, and for the hand-over. It then has space to collect any part of it.
func (d *Draft) RoomToHandOver(r *cluster.Reservation, on []string) bool {
	spots := grants.BundleOrder(d.view, r)
	nodes, pools := make(map[string]struct{}), make(map[types.ResourceID]struct{})
	for i := range spots {
		spots[i].Node = d.view.Nodes[on[spots[i].Index]]
		nodes[on[spots[i].Index]] = struct{}{}
		for _, x := range spots[i].Needs {
			if d.view.Pool(x.ID) != nil {
				pools[x.ID] = struct{}{}
			}
		}
	}
	keys := len(d.reliedOnBy(r.ID.Namespace, spots)) + len(pools)
	return d.Room(controlplane.HandOverCompares(len(nodes), keys)-Spare, handOverCompares+2*len(nodes)+len(pools))
}

// RoomForHeir reports whether the draft has space for one more heir of a grant of n nodes, and for
// the hand-over.
func (d *Draft) RoomForHeir(n int) bool {
	return d.Room(2*nodeCompares+n+handOverCompares, nodeCompares+n)
}

// handOverCompares is the number of compares of a hand-over besides those of its nodes: both
// reservations, their grants, and the namespace.
const handOverCompares = 5

// RoomFor reports whether the draft has space for any step of collecting for r.
func (d *Draft) RoomFor(r *cluster.Reservation) bool {
	n := len(r.Info.V.Bundles)
	if r.Grant.V != nil {
		n += len(r.Grant.V.Nodes)
	}
	return d.Empty() || d.Room((nodeCompares+2)*n+4, n+4)
}
