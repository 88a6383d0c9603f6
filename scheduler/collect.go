package scheduler

import (
	"slices"

	"github.com/escher-sched/escher/controlplane/cluster"
	"github.com/escher-sched/escher/types"
)

// collect takes what is free and wanted, as much as goes into the draft: what does not is
// for the next one, and nobody else's meanwhile. The grant is granted once nothing is missing.
func (c *Core) collect(d *Draft, r *cluster.Reservation, g *types.Grant) {
	missing := slices.Contains(g.Bundles, "")
	devices := devicesRelied(c.view, r, g)
	for i := range g.Nodes {
		wanted := wantedOn(c.view, r, g, g.Nodes[i].Node)
		if !d.roomToCollect(wanted, devices) {
			missing = true
			if len(d.order) == 0 {
				continue // there will never be
			}
			c.first, d.closed = true, true
			c.accumulateAgain()
			break
		}
		if !c.collectOn(d, r, &g.Nodes[i], wanted) {
			missing = true
		}
	}
	if !missing {
		g.Phase = types.Granted
		c.relyOnDevices(d, r, g)
	}
}

// roomToCollect reports whether the draft has room for what is wanted on one more node, and
// for so many compares of devices that the grant takes in the end.
func (d *Draft) roomToCollect(wanted []wish, devices int) bool {
	n := len(wanted)
	return d.room(nodeCompares+2*n+devices, 1+n)
}

// collectOn takes what is free and wanted on a node of a grant, and reports whether all of
// it is held then.
func (c *Core) collectOn(d *Draft, r *cluster.Reservation, at *types.GrantNode, wanted []wish) bool {
	n, all := c.view.Nodes[at.Node], true
	for _, x := range wanted {
		if d.madeOfDevices(n, x.ID) || x.chooses() {
			all = c.collectDevices(d, r, at, x) && all
			continue
		}
		rest := cluster.Need{ID: x.ID, Amount: x.sum() - heldOf(at.Holds, x.ID)}
		if rest.Amount <= 0 {
			continue
		}
		h, ok := c.collectable(d, n, rest)
		if ok {
			d.take(n, []types.Holding{h})
			d.keep(n, []types.Holding{h})
			d.compareNode(n)
			for _, k := range d.reliedOn(r.ID.Namespace, n, []cluster.Need{rest}) {
				d.Change.IfUnchanged(k.key, k.mod)
			}
			at.Holds = addHolding(at.Holds, h)
		}
		all = all && ok && h.Amount == rest.Amount
	}
	return all
}

// wish is what the bundles given to a node want there of one resource.
type wish struct {
	ID types.ResourceID
	// Needs are those of the bundles, in their order.
	Needs []cluster.Need
}

// add adds those of needs that are of its resource.
func (w *wish) add(needs []cluster.Need) {
	for _, x := range needs {
		if x.ID == w.ID {
			w.Needs = append(w.Needs, x)
		}
	}
}

// sum is all of it.
func (w wish) sum() types.Quantity {
	var sum types.Quantity
	for _, x := range w.Needs {
		sum = sum.Add(x.Amount)
	}
	return sum
}

// wantedOn returns what the bundles given to a node want there, sorted by resource.
func wantedOn(v *cluster.View, r *cluster.Reservation, g *types.Grant, node string) []wish {
	var out []wish
	for i, name := range g.Bundles {
		if name != node {
			continue
		}
		for _, x := range bundleNeeds(v, r.ID.Namespace, r.Info.V.Bundles[i]) {
			if x.ID.IsPlacement() || x.Amount == 0 {
				continue
			}
			at, ok := slices.BinarySearchFunc(out, x.ID, func(w wish, rid types.ResourceID) int { return compareResource(w.ID, rid) })
			if !ok {
				out = slices.Insert(out, at, wish{ID: x.ID})
			}
			out[at].Needs = append(out[at].Needs, x)
		}
	}
	return out
}

// chooses reports whether not any devices will do.
func (w wish) chooses() bool {
	return slices.ContainsFunc(w.Needs, func(x cluster.Need) bool { return x.Devices != nil })
}

// collectable returns as much of x, which is not made of devices, as is free on n; ok is
// false if nothing is, or if it is in flight.
func (c *Core) collectable(d *Draft, n *cluster.Node, x cluster.Need) (h types.Holding, ok bool) {
	p := c.view.Pool(x.ID)
	if c.locked(n) || p != nil && c.locked(p) {
		c.accum.skipped = true
		return h, false
	}
	if p != nil {
		h = types.Holding{Resource: x.ID, Amount: min(x.Amount, d.poolFree(p)), Cluster: true}
		return h, h.Amount > 0
	}
	free, _ := d.free(n, x.ID)
	amount, step := min(x.Amount, free), types.Quantity(1)
	if isPort(x.ID) {
		step = whole
	}
	for amount -= amount % step; amount > 0; amount -= step {
		y := cluster.Need{ID: x.ID, Amount: amount}
		if d.devicesFit(n, y) {
			return types.Holding{Resource: x.ID, Amount: amount, Devices: d.pickDevices(n, y)}, true
		}
	}
	return h, false
}

func heldOf(holds []types.Holding, rid types.ResourceID) types.Quantity {
	var sum types.Quantity
	for _, h := range holds {
		if h.Resource == rid {
			sum += h.Amount
		}
	}
	return sum
}

// addHolding adds to the holding of the same resource, without changing holds.
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
