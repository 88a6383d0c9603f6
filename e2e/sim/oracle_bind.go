package sim

import (
	"fmt"
	"time"

	"github.com/escher-sched/escher/controlplane"
	"github.com/escher-sched/escher/types"
)

// checkBind: what is bound was to be bound, there, then, and fits.
func (o *oracle) checkBind(c *cell, b *types.Binding) {
	k := c.key
	what := fmt.Sprintf("bind %s/%s to %s", k.Namespace, k.ID, k.Node)
	o.checkEligible(what, k.Node)
	if session := o.session(k.Node); b.Session != session {
		o.find("%s: in session %d, and the node is in %d", what, b.Session, session)
	}
	t, _ := o.get(controlplane.TaskKey(k.Namespace, k.ID)).(*types.Task)
	switch {
	case t == nil:
		o.find("%s: there is no such task", what)
		return
	case t.Stop != nil:
		o.find("%s: it is stopped", what)
	case t.Job != "" && o.get(controlplane.JobKey(k.Namespace, t.Job)) == nil:
		o.find("%s: its job %s is not there", what, t.Job)
	}
	requests := t.Requests
	if len(t.Alternatives) > 0 {
		a := t.Alternatives[b.Alternative]
		requests = requests.Plus(a.Requests)
		if time.Duration(b.Bound-t.Submitted) < a.After {
			o.find("%s: alternative %d is allowed after %s, and taken after %s", what, b.Alternative, a.After, time.Duration(b.Bound-t.Submitted))
		}
	}
	o.checkHolds(what, k.Node, b.Holds, o.needs(k.Namespace, requests))
	o.checkFits(what, k.Node, b.Holds)
}

func (o *oracle) checkEligible(what, node string) {
	if o.get(controlplane.NodeKey(node)) == nil {
		o.find("%s: the node is not registered", what)
	}
	if o.get(controlplane.CordonKey(node)) != nil {
		o.find("%s: the node is cordoned", what)
	}
	if o.session(node) == 0 {
		o.find("%s: the node is not alive", what)
	}
}

// needs resolves a vector of a namespace, with what the namespace adds.
func (o *oracle) needs(ns string, requests types.Requests) map[types.ResourceID]types.Quantity {
	out := make(map[types.ResourceID]types.Quantity)
	for _, r := range requests {
		out[types.Resolve(ns, r.Name)] += r.Amount
	}
	if space, ok := o.get(controlplane.NamespaceKey(ns)).(*types.Namespace); ok {
		for _, r := range space.Requests {
			out[types.Resolve(ns, r.Name)] += r.Amount
		}
		for _, q := range space.Quotas {
			if amount := requests.Get(string(q.Resource)); amount > 0 {
				out[q.Pool] += amount
			}
		}
	}
	return out
}

// checkHolds: what is held is what was needed, from where it has to come.
func (o *oracle) checkHolds(what, node string, holds []types.Holding, needs map[types.ResourceID]types.Quantity) {
	info, _ := o.get(controlplane.NodeKey(node)).(*types.Node)
	if info == nil {
		return
	}
	held := make(map[types.ResourceID]types.Quantity)
	for _, h := range holds {
		held[h.Resource] += h.Amount
		if pool := o.isPool(h.Resource); pool != h.Cluster {
			o.find("%s: %s is held from a pool: %t, and is one: %t", what, h.Resource, h.Cluster, pool)
		}
		o.checkHealthy(what, node, h)
	}
	for rid, amount := range needs {
		switch {
		case rid.IsPlacement():
			if !labelled(node, info, rid) {
				o.find("%s: it is not %s", what, rid)
			}
		case held[rid] != amount:
			o.find("%s: needs %d of %s, and holds %d", what, amount, rid, held[rid])
		}
		delete(held, rid)
	}
	for rid, amount := range held {
		o.find("%s: holds %d of %s, and does not need it", what, amount, rid)
	}
}

func (o *oracle) isPool(rid types.ResourceID) bool {
	ns, name, reservation := rid.Split()
	return ns != "" && reservation == "" && o.get(controlplane.ResourceKey(ns, name, types.ClusterWide)) != nil
}

// checkHealthy: the devices held are there, healthy, and make up the amount.
func (o *oracle) checkHealthy(what, node string, h types.Holding) {
	devices, _ := o.get(controlplane.DevicesKey(node)).(*types.Devices)
	base := h.Resource.Unscoped()
	known := make(map[string]string)
	if devices != nil {
		for _, d := range devices.Devices {
			if d.Resource == base {
				known[d.ID] = d.Unhealthy + "."
			}
		}
	}
	if len(known) == 0 && len(h.Devices) == 0 {
		return
	}
	sum := types.Quantity(0)
	for _, d := range h.Devices {
		sum += d.Share
		if known[d.ID] != "." && !h.Resource.Scoped() {
			o.find("%s: device %s is not there or not healthy: %q", what, d.ID, known[d.ID])
		}
	}
	if sum != h.Amount {
		o.find("%s: devices %v do not make up %d of %s", what, h.Devices, h.Amount, h.Resource)
	}
}

// checkFits: of nothing held is more in use than there is.
func (o *oracle) checkFits(what, node string, holds []types.Holding) {
	for _, h := range holds {
		used, capacity := types.Quantity(0), types.Quantity(0)
		if h.Cluster {
			ns, name, _ := h.Resource.Split()
			pool, _ := o.get(controlplane.ResourceKey(ns, name, types.ClusterWide)).(*types.Resource)
			if pool != nil {
				capacity = pool.Capacity
			}
			used = o.expectedOfPool(h.Resource).of(h.Resource)
		} else {
			capacity = o.capacity(node, h.Resource)
			used = o.expected(node).of(h.Resource)
		}
		if used > capacity {
			o.find("%s: %d of %s are in use then, and there are %d", what, used, h.Resource, capacity)
		}
	}
}

// checkGrant: a reservation that is there is granted whole, where it fits, and only
// one that is gone is released.
func (o *oracle) checkGrant(before, after *cell, g *types.Grant) {
	k := after.key
	what := fmt.Sprintf("grant %s/%s", k.Namespace, k.ID)
	key := controlplane.ReservationKey(k.Namespace, k.ID)
	r, _ := o.get(key).(*types.Reservation)
	current := r != nil && o.cells[key].create == g.Reservation
	if g.Phase == types.Releasing {
		if current {
			o.find("%s: is released, and its reservation is there", what)
		}
		return
	}
	if !current {
		o.find("%s: is for a reservation that is not there", what)
		return
	}
	var was *types.Grant
	if before != nil {
		was = before.message.(*types.Grant)
		if was.Reservation != g.Reservation || was.Phase != types.Accumulating {
			o.find("%s: replaces a grant that is %s", what, was.Phase)
		}
	}
	if g.Phase == types.Granted {
		o.checkWhole(what, k.Namespace, r, g)
	}
	for _, at := range g.Nodes {
		if grown := grownOn(was, g, at.Node); len(grown) > 0 {
			o.checkEligible(what, at.Node)
			o.checkFits(what, at.Node, grown)
		}
	}
}

// grownOn returns the holdings on a node of which there is more than before.
func grownOn(was, is *types.Grant, node string) []types.Holding {
	var out []types.Holding
	for _, h := range is.On(node) {
		before := types.Quantity(0)
		if was != nil {
			for _, x := range was.On(node) {
				if x.Resource == h.Resource {
					before = x.Amount
				}
			}
		}
		if h.Amount > before {
			out = append(out, h)
		}
	}
	return out
}

// checkWhole: every bundle has its node, and all of it is held there.
func (o *oracle) checkWhole(what, ns string, r *types.Reservation, g *types.Grant) {
	if len(g.Bundles) != len(r.Bundles) {
		o.find("%s: has %d bundles of %d", what, len(g.Bundles), len(r.Bundles))
		return
	}
	sums := make(map[string]map[types.ResourceID]types.Quantity)
	for i, node := range g.Bundles {
		if want := r.Bundles[i].Node; want != "" && want != node {
			o.find("%s: bundle %d is on %s, and must be on %s", what, i, node, want)
		}
		if sums[node] == nil {
			sums[node] = make(map[types.ResourceID]types.Quantity)
		}
		for rid, q := range o.needs(ns, r.Bundles[i].Requests) {
			sums[node][rid] += q
		}
	}
	for node, needs := range sums {
		for rid, q := range needs {
			held := types.Quantity(0)
			for _, h := range g.On(node) {
				if h.Resource == rid {
					held += h.Amount
				}
			}
			if held < q && !rid.IsPlacement() {
				o.find("%s: needs %d of %s on %s, and holds %d", what, q, rid, node, held)
			}
		}
	}
}

// checkReport: a report is of the binding that is there.
func (o *oracle) checkReport(c *cell, r *types.Report) {
	k := c.key
	k.Kind = controlplane.Bindings
	if b := o.cells[k.String()]; b == nil || b.create != r.Binding {
		o.find("%s: is of a binding that is not there", c.key)
	}
}

// checkRelease: an attempt is over when its agent said so or its session ended; and
// the task goes on as that says.
func (o *oracle) checkRelease(was *cell) {
	b, k := was.message.(*types.Binding), was.key
	status := controlplane.StatusKey(k.Namespace, k.ID)
	s, _ := o.get(status).(*types.Status)
	lost := b.OnLoss != types.Keep && o.session(k.Node) != b.Session
	r := o.lastReport(reportKey(k))
	exited := r != nil && r.Phase == types.ReportExited && r.Binding == was.create
	switch {
	case !lost && !exited:
		o.find("%s: is deleted, and its attempt is not over", k)
	case s == nil || s.Attempt != k.Attempt:
		o.find("%s: is deleted, and the status is %s", k, phaseOf(s))
	case s.Phase == types.Succeeded && (!exited || r.ExitCode != 0 || r.Fenced):
		o.find("%s: succeeded, and its report is %+v", status, r)
	case exited && !r.Fenced && !r.Stopped && !s.Phase.Ended():
		o.find("%s: is %s, and it ended by itself", status, s.Phase)
	case s.Phase == types.Cancelled && (b.Stop == nil || b.Stop.Evicted):
		o.find("%s: is cancelled, and nobody stopped it", status)
	}
}

// lastReport returns a report as it was before this revision.
func (o *oracle) lastReport(key string) *types.Report {
	c, changed := o.was[key]
	if !changed {
		c = o.cells[key]
	}
	if c == nil {
		return nil
	}
	return c.message.(*types.Report)
}
