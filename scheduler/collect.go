package scheduler

import (
	"slices"

	"github.com/escher-sched/escher/controlplane/cluster"
	"github.com/escher-sched/escher/controlplane/match"
	"github.com/escher-sched/escher/types"
)

// collect takes the free and wanted capacity, as much as fits into the draft. The remainder stays
// reserved for the next draft. The grant is granted once nothing is missing.
func (c *Core) collect(d *Draft, r *cluster.Reservation, g *types.Grant) {
	devices, on := devicesRelied(c.view, r, g), bundlesOn(g)
	d.whole = len(on[""]) == 0
	for i := range g.Nodes {
		at := &g.Nodes[i]
		d.whole = d.whole && c.view.Nodes[at.Node].Eligible()
		for _, x := range wanted(c.view, r, on[at.Node]) {
			switch {
			case !c.view.Nodes[at.Node].Eligible() || d.holdsAll(at, x):
			case d.roomToCollect(devices):
				d.whole = c.collectOne(d, r, at, x) && d.whole
			case len(d.order) == 0:
				d.whole = false // it will never fit
			default:
				d.whole = false
				c.first, d.closed = true, true
				c.accumulateAgain()
				return
			}
		}
	}
	if d.whole {
		g.Phase = types.Granted
		c.relyOnDevices(d, r, g)
	}
}

// roomToCollect reports whether the draft has space for one more resource of a node, and for the
// final compares of that many devices.
func (d *Draft) roomToCollect(devices int) bool { return d.room(nodeCompares+2+devices, 2) }

// holdsAll reports whether a grant holds all of a wanted resource on a node. It returns false for
// devices, because the devices may change: see collectDevices.
func (d *Draft) holdsAll(at *types.GrantNode, x Want) bool {
	return HeldOf(at.Holds, x.ID) >= x.Sum() && !x.chooses() && !d.madeOfDevices(d.view.Nodes[at.Node], x.ID)
}

// collectOn takes the free and wanted capacity on a node of a grant, if it is eligible.
func (c *Core) collectOn(d *Draft, r *cluster.Reservation, at *types.GrantNode, wanted []Want) {
	if !c.view.Nodes[at.Node].Eligible() {
		return
	}
	for _, x := range wanted {
		c.collectOne(d, r, at, x)
	}
}

// collectOne takes the free and wanted capacity of one resource on a node of a grant. It reports
// whether the grant then holds all of it.
func (c *Core) collectOne(d *Draft, r *cluster.Reservation, at *types.GrantNode, x Want) bool {
	n := c.view.Nodes[at.Node]
	if d.madeOfDevices(n, x.ID) || x.chooses() {
		return c.collectDevices(d, r, at, x)
	}
	rest := cluster.Need{ID: x.ID, Amount: x.Sum() - HeldOf(at.Holds, x.ID)}
	if rest.Amount <= 0 {
		return true
	}
	h, ok := c.collectable(d, n, rest)
	if ok {
		d.Take(n, []types.Holding{h})
		d.keep(n, []types.Holding{h})
		d.compareNode(n)
		for _, k := range d.reliedOn(r.ID.Namespace, n, []cluster.Need{rest}) {
			d.Change.IfUnchanged(k.key, k.mod)
		}
		at.Holds = addHolding(at.Holds, h)
	}
	return ok && h.Amount == rest.Amount
}

// Want is the demand for one resource of the bundles given to a node.
type Want struct {
	ID types.ResourceID
	// Needs are those of the bundles, in their order.
	Needs []cluster.Need
}

// add adds those of needs that are of its resource.
func (w *Want) add(needs []cluster.Need) {
	for _, x := range needs {
		if x.ID == w.ID {
			w.Needs = append(w.Needs, x)
		}
	}
}

// Sum is the total amount.
func (w Want) Sum() types.Quantity {
	var sum types.Quantity
	for _, x := range w.Needs {
		sum = sum.Add(x.Amount)
	}
	return sum
}

// bundlesOn returns the bundles of a grant by node.
func bundlesOn(g *types.Grant) map[string][]int {
	on := make(map[string][]int, len(g.Nodes))
	for i, name := range g.Bundles {
		on[name] = append(on[name], i)
	}
	return on
}

// WantedOn returns the demand of the bundles given to a node, sorted by resource.
func WantedOn(v *cluster.View, r *cluster.Reservation, g *types.Grant, node string) []Want {
	var bundles []int
	for i, name := range g.Bundles {
		if name == node {
			bundles = append(bundles, i)
		}
	}
	return wanted(v, r, bundles)
}

// wanted returns the demand of bundles on the node that they share, sorted by resource.
func wanted(v *cluster.View, r *cluster.Reservation, bundles []int) []Want {
	var out []Want
	for _, i := range bundles {
		for _, x := range bundleNeeds(v, r.ID.Namespace, r.Info.V.Bundles[i]) {
			if x.ID.IsPlacement() || x.Amount == 0 {
				continue
			}
			at, ok := slices.BinarySearchFunc(out, x.ID, func(w Want, rid types.ResourceID) int { return compareResource(w.ID, rid) })
			if !ok {
				out = slices.Insert(out, at, Want{ID: x.ID})
			}
			out[at].Needs = append(out[at].Needs, x)
		}
	}
	return out
}

// chooses reports whether the Want restricts the devices.
func (w Want) chooses() bool {
	return slices.ContainsFunc(w.Needs, func(x cluster.Need) bool { return x.Devices != nil })
}

// collectable returns the free part of x, which is not made of devices, on n. ok is false if none
// is free or it is in flight.
func (c *Core) collectable(d *Draft, n *cluster.Node, x cluster.Need) (h types.Holding, ok bool) {
	p := c.view.Pool(x.ID)
	if c.locked(n) || p != nil && c.locked(p) {
		c.accum.skipped = true
		return h, false
	}
	if p != nil {
		h = types.Holding{Resource: x.ID, Amount: min(x.Amount, d.PoolFree(p)), Cluster: true}
		return h, h.Amount > 0
	}
	free, _ := d.Free(n, x.ID)
	amount, step := min(x.Amount, free), types.Quantity(1)
	if match.IsPort(x.ID) {
		step = whole
	}
	for amount -= amount % step; amount > 0; amount -= step {
		y := cluster.Need{ID: x.ID, Amount: amount}
		if r := d.RoomOn(n); r.DevicesFit(y) {
			return types.Holding{Resource: x.ID, Amount: amount, Devices: r.PickDevices(y)}, true
		}
	}
	return h, false
}

func HeldOf(holds []types.Holding, rid types.ResourceID) types.Quantity {
	var sum types.Quantity
	for _, h := range holds {
		if h.Resource == rid {
			sum += h.Amount
		}
	}
	return sum
}

// addHolding adds h to the holding of the same resource, without changing holds.
func addHolding(holds []types.Holding, h types.Holding) []types.Holding {
	var pools []types.Holding
	sum := &types.Allocated{}
	for _, x := range append(slices.Clone(holds), h) {
		if x.Cluster {
			pools = append(pools, x)
			continue
		}
		sum.Take(x)
	}
	for _, x := range mergePools(pools) {
		x.Cluster = true
		sum.Holds = append(sum.Holds, x)
	}
	return sum.Holds
}

func mergePools(pools []types.Holding) []types.Holding {
	sum := &types.Allocated{}
	for _, x := range pools {
		sum.Take(x)
	}
	return sum.Holds
}
