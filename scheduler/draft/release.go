package draft

import (
	"slices"

	"github.com/escher-sched/escher/controlplane"
	"github.com/escher-sched/escher/controlplane/cluster"
	"github.com/escher-sched/escher/controlplane/grants"
	"github.com/escher-sched/escher/types"
)

// Release takes a grant one step towards its end. Holdings that no task draws on return at once, or
// node by node if the draft has too little space. The rest returns as its holders end, and the
// grant goes last. A grant of an existing reservation that no task may draw on yet keeps its phase
// until then. It returns false when the draft lacks space.
func (d *Draft) Release(r *cluster.Reservation) bool {
	g := r.Grant.V
	next := *g
	next.Bundles, next.Nodes = slices.Clone(g.Bundles), nil
	if !r.Current() {
		next.Phase = types.Releasing
	}
	if !d.Empty() && !d.Room(2, 2+2*len(g.Nodes)) {
		return false
	}
	changed, full := next.Phase != g.Phase, false
	for _, at := range g.Nodes {
		whole := g.Phase != types.Releasing || at.Whole
		switch {
		case len(at.Holds) == 0:
			whole, changed = false, true
		case !whole || full:
		case d.ReturnUndrawn(r, at):
			whole, changed = false, true
		case d.Empty() && len(d.order) == 0:
			at, changed, full = d.returnSome(r, at), true, true
		default:
			full = true
		}
		at.Whole = whole && next.Phase == types.Releasing
		if whole || grants.DrawnOn(r, d.view.Nodes[at.Node], at) {
			next.Nodes = append(next.Nodes, at)
		}
	}
	if !changed && len(next.Nodes) > 0 {
		return true // it waits for the tasks that draw on it
	}
	for i, name := range next.Bundles {
		if next.On(name) == nil {
			next.Bundles[i] = ""
		}
	}
	key := controlplane.GrantKey(r.ID.Namespace, r.ID.ID)
	d.Change.IfUnchanged(key, r.Grant.Mod)
	d.Change.IfUnchanged(controlplane.ReservationKey(r.ID.Namespace, r.ID.ID), r.Info.Mod)
	if len(next.Nodes) > 0 {
		d.Put(key, &next, r.Grant.Mod)
	} else {
		d.Remove(key)
	}
	if ends := next.Phase == types.Releasing || len(next.Nodes) == 0; ends && g.Phase == types.Collecting {
		d.EndLead(grants.AccumulateRole, r.ID)
	} else if ends && g.Phase == types.Granting {
		d.EndLead(grants.GrantRole, r.ID)
	}
	d.claim(r)
	d.items++
	return true
}

// undrawn returns the holdings of a grant on a node that no task draws on, and the number of pools
// among them.
func (d *Draft) undrawn(r *cluster.Reservation, at types.GrantNode) (holds []types.Holding, pools int) {
	n := d.view.Nodes[at.Node]
	for _, h := range at.Holds {
		scoped := h.Resource.Scope(r.ID.Namespace, r.ID.ID)
		h.Amount -= n.Used(scoped)
		h.Devices = grants.Without(h.Devices, d.used(n, scoped))
		if h.Amount != 0 || len(h.Devices) > 0 {
			holds = append(holds, h)
			if h.Cluster {
				pools++
			}
		}
	}
	return holds, pools
}

// ReturnUndrawn returns the holdings of a grant on a node that no task draws on. It returns false,
// and changes nothing, when the draft lacks space.
func (d *Draft) ReturnUndrawn(r *cluster.Reservation, at types.GrantNode) bool {
	holds, pools := d.undrawn(r, at)
	if !d.Room(1+pools, 1+pools) {
		return false
	}
	d.GiveBack(d.view.Nodes[at.Node], holds)
	d.Keep(d.view.Nodes[at.Node], holds)
	return true
}

// returnSome returns undrawn holdings of one node that exceeds a draft, as far as there is space.
// It returns what the grant then still holds there.
func (d *Draft) returnSome(r *cluster.Reservation, at types.GrantNode) types.GrantNode {
	n := d.view.Nodes[at.Node]
	holds, _ := d.undrawn(r, at)
	for _, h := range holds {
		if n.Used(h.Resource.Scope(r.ID.Namespace, r.ID.ID)) > 0 || !d.Room(2, 2) {
			continue
		}
		d.GiveBack(n, []types.Holding{h})
		d.Keep(n, []types.Holding{h})
		at.Holds = slices.DeleteFunc(slices.Clone(at.Holds), func(x types.Holding) bool { return x.Resource == h.Resource && x.Cluster == h.Cluster })
	}
	return at
}
