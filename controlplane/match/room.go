package match

import (
	"slices"

	"github.com/escher-sched/escher/controlplane/cluster"
	"github.com/escher-sched/escher/types"
)

// Room is one node as a decision leaves it. Several rooms of a node are independent of one
// another, unless they share an Overlay.
type Room struct {
	// Node is the node.
	Node *cluster.Node

	view *cluster.View
	over Overlay
	// empty reports that nothing stored counts as in use.
	empty bool
}

// Overlay is the unstored changes of a decision on a node. The zero value changes nothing.
type Overlay struct {
	// Allocated is the allocated amounts; nil means the stored ones. The room changes others.
	Allocated *types.Allocated
	// Offered is capacity that the decision itself brings: provided, or granted.
	Offered map[types.ResourceID]types.Quantity
	// Ended are the bindings that the decision ends: what they provide does not count.
	Ended []*cluster.Binding
	// Granted are the grants that the decision changes, by the id of the reservation.
	Granted map[cluster.ID]*types.Grant
	// Bound is the number of tasks that the decision binds to the node.
	Bound int
}

// On returns a node as it is stored.
func On(v *cluster.View, n *cluster.Node) Room { return Room{Node: n, view: v} }

// Over returns a node as it is stored, changed by an overlay.
func Over(v *cluster.View, n *cluster.Node, o Overlay) Room { return Room{Node: n, view: v, over: o} }

// Clone returns a copy: Hold and Return change one of the two only.
func (r *Room) Clone() Room {
	c := *r
	if c.over.Allocated != nil {
		c.over.Allocated = c.over.Allocated.Clone()
	}
	return c
}

// allocated returns the allocated amounts; nil means none.
func (r *Room) allocated() *types.Allocated {
	if r.over.Allocated != nil || r.empty {
		return r.over.Allocated
	}
	return r.Node.Allocated.V
}

// Holds returns the allocated amounts, sorted by resource. The caller must not change them.
func (r *Room) Holds() []types.Holding {
	if a := r.allocated(); a != nil {
		return a.Holds
	}
	return nil
}

// Used returns the allocated shares of devices, or the ports, of a resource.
func (r *Room) Used(id types.ResourceID) []types.DeviceShare {
	if a := r.allocated(); a != nil {
		return a.DevicesOf(id)
	}
	return nil
}

// Tasks returns the number of tasks on the node.
func (r *Room) Tasks() int { return len(r.Node.Bindings) + r.over.Bound }

// Free returns the free amount of a resource, which is negative if more is allocated than exists.
// ok reports whether the node has the resource.
func (r *Room) Free(id types.ResourceID) (q types.Quantity, ok bool) {
	a := r.allocated()
	if a.Full(id) {
		return 0, true
	}
	q, ok = r.view.CapacityWithout(r.Node, id, r.over.Ended)
	if len(r.over.Offered) > 0 {
		if x, more := r.over.Offered[id]; more {
			q, ok = q.Add(x), true
		}
	}
	if a == nil {
		return q.Minus(0), ok
	}
	return q.Minus(a.Of(id)), ok
}

// Capacity returns the total capacity of a resource on the node, stored or not.
func (r *Room) Capacity(id types.ResourceID) types.Quantity {
	q, _ := r.capacity(id)
	return q
}

func (r *Room) capacity(id types.ResourceID) (q types.Quantity, ok bool) {
	return r.view.Capacity(r.Node, id)
}

// grantHolds returns what the grant of a scoped resource holds on the node.
func (r *Room) grantHolds(id types.ResourceID) []types.Holding {
	if len(r.over.Granted) > 0 {
		ns, _, reservation := id.Split()
		if g := r.over.Granted[cluster.ID{Namespace: ns, ID: reservation}]; g != nil {
			return g.On(r.Node.Name)
		}
	}
	return r.view.GrantHolds(r.Node, id)
}

// Fits reports whether needs fit on the node. It ignores cluster-wide resources.
func (r *Room) Fits(needs []cluster.Need) bool {
	_, ok := r.Short(needs)
	return ok
}

// EverFits reports whether the node would have room for needs if nothing were in use and all
// devices were healthy. Cluster-wide resources are not considered.
func (r *Room) EverFits(needs []cluster.Need) bool {
	empty := emptied(r.view, r.Node)
	return empty.Fits(needs)
}

// Overdrawn reports whether the resource of a holding, or one of its devices, has more allocated
// than its capacity. Unhealthy devices count with theirs: only the holder can have got one.
func (r *Room) Overdrawn(h types.Holding) bool {
	if free, ok := r.Free(h.Resource); ok && free < 0 {
		return true
	}
	if len(h.Devices) == 0 {
		return false
	}
	var some someSlots
	return slices.ContainsFunc(r.allSlots(h.Resource, some[:0]), func(s Slot) bool {
		return s.Used > s.Capacity && ShareOf(h.Devices, s.ID) > 0
	})
}

// Short returns the first resource of needs that is short on the node; ok reports that needs fit.
// It ignores cluster-wide resources.
func (r *Room) Short(needs []cluster.Need) (short types.ResourceID, ok bool) {
	for i := range needs {
		x := &needs[i]
		if r.view.Pool(x.ID) != nil {
			continue
		}
		free, known := r.Free(x.ID)
		if !known || free < x.Amount || !r.DevicesFit(*x) {
			return x.ID, false
		}
	}
	return "", true
}

// Pick returns the holdings of a task or grant on the node for needs, which fit: including devices,
// ports, and draws on cluster-wide resources.
func (r *Room) Pick(needs []cluster.Need) []types.Holding {
	holds := make([]types.Holding, 0, len(needs))
	for _, x := range needs {
		switch {
		case x.ID.IsPlacement():
		case r.view.Pool(x.ID) != nil:
			holds = append(holds, types.Holding{Resource: x.ID, Amount: x.Amount, Cluster: true})
		default:
			holds = append(holds, types.Holding{Resource: x.ID, Amount: x.Amount, Devices: r.PickDevices(x)})
		}
	}
	return holds
}

// Take counts what a task holds when it gets needs, which fit, as in use: Hold of Pick. Cluster-wide
// resources are not considered.
func (r *Room) Take(needs []cluster.Need) {
	a := r.own()
	for _, x := range needs {
		if !x.ID.IsPlacement() && r.view.Pool(x.ID) == nil {
			a.Take(types.Holding{Resource: x.ID, Amount: x.Amount, Devices: r.PickDevices(x)})
		}
	}
}

// Put takes equal needs as often as they fit, but at most n times, and returns how often.
func (r *Room) Put(needs []cluster.Need, n int) int {
	if most, plain := r.plainly(needs, n); plain {
		if most == 0 {
			return 0
		}
		a := r.own()
		for _, x := range needs {
			if !x.ID.IsPlacement() && r.view.Pool(x.ID) == nil {
				a.Take(types.Holding{Resource: x.ID, Amount: x.Amount * types.Quantity(most)})
			}
		}
		return most
	}
	for i := range n {
		if !r.Fits(needs) {
			return i
		}
		r.Take(needs)
	}
	return n
}

// plainly returns how often needs fit, at most n times; plain reports whether a division of amounts
// says so, because none of them is made of devices or ports.
func (r *Room) plainly(needs []cluster.Need, n int) (most int, plain bool) {
	for i := range needs {
		x := &needs[i]
		if r.view.Pool(x.ID) != nil {
			continue
		}
		if x.Amount <= 0 || x.Devices != nil || IsPort(x.ID) || r.MadeOfDevices(x.ID) {
			return 0, false
		}
		free, known := r.Free(x.ID)
		if !known {
			n = 0
		}
		n = min(n, int(max(0, min(free, types.MaxAllocated))/x.Amount))
	}
	return n, true
}

// own returns the allocated amounts, for changes.
func (r *Room) own() *types.Allocated {
	switch a := &r.over.Allocated; {
	case *a != nil:
	case r.Node.Allocated.V != nil && !r.empty:
		*a = r.Node.Allocated.V.Clone()
	default:
		*a = &types.Allocated{}
	}
	return r.over.Allocated
}

// Hold counts holdings as allocated. It ignores cluster-wide ones.
func (r *Room) Hold(holds []types.Holding) {
	a := r.own()
	for _, h := range holds {
		if !h.Cluster {
			a.Take(h)
		}
	}
}

// Return counts holdings as free. It ignores cluster-wide ones. An amount may be negative: that is
// capacity that disappears with its provider.
func (r *Room) Return(holds []types.Holding) {
	a := r.own()
	for _, h := range holds {
		switch {
		case h.Cluster:
		case a.Of(h.Resource) == 0 && len(a.DevicesOf(h.Resource)) == 0:
			a.Take(types.Holding{Resource: h.Resource, Amount: -h.Amount})
		default:
			a.Return(h)
		}
	}
}
