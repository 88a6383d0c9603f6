package explain

import (
	"cmp"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/escher-sched/escher/controlplane/cluster"
	"github.com/escher-sched/escher/controlplane/grants"
	"github.com/escher-sched/escher/controlplane/match"
	"github.com/escher-sched/escher/controlplane/why"
	"github.com/escher-sched/escher/scheduler"
	"github.com/escher-sched/escher/types"
	"github.com/escher-sched/escher/types/action"
)

// holdersOn returns the holders of rid on n: leaving tasks first, then the largest.
func (e *explainer) holdersOn(n *cluster.Node, rid types.ResourceID) []why.Holder {
	var out []why.Holder
	e.read.bound(n)
	e.read.grants()
	for _, b := range scheduler.SortedBindings(n) {
		e.looks++
		out = append(out, e.bindingHolds(b, rid, false)...)
	}
	if !rid.Scoped() {
		for _, r := range e.v.Reservations {
			e.looks++
			out = append(out, e.grantHolds(r, n.Name, rid, false)...)
		}
	}
	return inOrderOfEnd(append(out, e.draftHolds(n.Name, rid)...))
}

// holdersOfPool returns the holders of a cluster-wide resource, in the same order.
func (e *explainer) holdersOfPool(rid types.ResourceID) []why.Holder {
	var out []why.Holder
	e.read.bindings()
	e.read.grants()
	for _, n := range e.v.Nodes {
		for _, b := range n.Bindings {
			e.looks++
			out = append(out, e.bindingHolds(b, rid, true)...)
		}
	}
	for _, r := range e.v.Reservations {
		e.looks++
		if r.Grant.V == nil {
			continue
		}
		for _, at := range r.Grant.V.Nodes {
			out = append(out, e.grantHolds(r, at.Node, rid, true)...)
		}
	}
	out = append(out, e.draftHolds("", rid)...)
	for i := range out {
		out[i].Node = ""
	}
	return inOrderOfEnd(out)
}

// inOrderOfEnd sorts holders: leaving ones first, then the largest.
func inOrderOfEnd(holders []why.Holder) []why.Holder {
	stays := func(h why.Holder) int {
		if h.Leaving == "" {
			return 1
		}
		return 0
	}
	slices.SortFunc(holders, func(a, b why.Holder) int {
		return cmp.Or(cmp.Compare(stays(a), stays(b)), cmp.Compare(b.Quantity, a.Quantity), cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.ID, b.ID), cmp.Compare(a.Node, b.Node))
	})
	return holders
}

// bindingHolds returns the amount of rid that a binding holds.
func (e *explainer) bindingHolds(b *cluster.Binding, rid types.ResourceID, pool bool) []why.Holder {
	if b.Info.V == nil {
		return nil
	}
	h := why.Holder{
		Kind: why.KindTask, ID: b.Task.ID.ID, Namespace: b.Task.ID.Namespace, Resource: rid, Node: b.Node.Name, EndsBy: endOf(b.Info.V),
	}
	if h.EndsBy != nil {
		h.Left = h.EndsBy.Sub(e.now)
	}
	if t := e.v.Task(b.Task.ID); t != nil {
		h.Phase = string(t.Phase())
		if t.Info.V != nil {
			h.Priority, h.Leaving = t.Info.V.Priority, leavingAs(t.Info.V.Leaving(b.Number))
		}
	}
	return holding(h, b.Info.V.Holds, b.Node, rid, pool)
}

// leavingAs says how an attempt was told to end; nil means it was not.
func leavingAs(stop *types.Stop) string {
	switch {
	case stop == nil:
		return ""
	case stop.Evicted:
		return "evicted"
	}
	return "stopped"
}

// holding completes h with the amount of rid in holds; no holder if there is none.
func holding(h why.Holder, holds []types.Holding, n *cluster.Node, rid types.ResourceID, pool bool) []why.Holder {
	for _, x := range holds {
		if x.Cluster != pool || !takes(x, n, rid) {
			continue
		}
		h.Quantity += x.Amount
		for _, dev := range x.Devices {
			if x.Resource == rid {
				h.Devices = append(h.Devices, dev.ID)
			}
		}
	}
	if h.Quantity == 0 {
		return nil
	}
	h.Amount = h.Quantity.Format(rid)
	return []why.Holder{h}
}

// takes reports whether a holding reduces rid on n. A port is the same whether requested by number
// or not.
func takes(x types.Holding, n *cluster.Node, rid types.ResourceID) bool {
	if x.Resource == rid {
		return true
	}
	if number, fixed := rid.FixedPort(); fixed && x.Resource == types.Port {
		return match.ShareOf(x.Devices, strconv.Itoa(number)) > 0
	}
	number, fixed := x.Resource.FixedPort()
	return fixed && rid == types.Port && n != nil && n.HasInRange(number)
}

// endOf is when a binding ends at the latest; nil if unknown.
func endOf(b *cluster.BindingValue) *time.Time {
	at := b.Deadline
	if end := b.Bound + int64(b.MaxRun); b.MaxRun > 0 && (at == 0 || end < at) {
		at = end
	}
	if at == 0 {
		return nil
	}
	when := time.Unix(0, at).UTC()
	return &when
}

// grantHolds returns the amount of rid that a grant holds on a node.
func (e *explainer) grantHolds(r *cluster.Reservation, node string, rid types.ResourceID, pool bool) []why.Holder {
	g := r.Grant.V
	if g == nil {
		return nil
	}
	h := why.Holder{Kind: why.KindReservation, ID: r.ID.ID, Namespace: r.ID.Namespace, Resource: rid, Node: node, Phase: string(g.Phase), Granted: true}
	if t := e.v.Task(r.ID); g.Task != 0 {
		h.Kind = why.KindTask
		if t != nil && t.Info.V != nil {
			h.Priority = t.Info.V.Priority
		}
	} else if r.Info.V != nil {
		h.Priority = r.Info.V.Priority
	}
	out := holding(h, g.On(node), e.v.Nodes[node], rid, pool)
	if len(out) > 0 && grants.ReturnsDrawn(r, node) {
		// The grant only holds what tasks still draw on.
		out[0].Quantity = e.v.Nodes[node].Used(rid.Scope(r.ID.Namespace, r.ID.ID))
		out[0].Amount = out[0].Quantity.Format(rid)
	}
	return out
}

// draftHolds returns the holdings of tasks and reservations that the draft places; the empty node
// stands for pools.
func (e *explainer) draftHolds(node string, rid types.ResourceID) []why.Holder {
	var out []why.Holder
	for _, b := range e.d.Binds {
		e.looks++
		t := e.v.Task(b.Task)
		if node != "" && b.Node != node || t == nil {
			continue
		}
		for _, x := range grants.Vectors(e.v, t)[b.Alternative] {
			if x.ID == rid {
				out = append(out, why.Holder{
					Kind: why.KindTask, ID: b.Task.ID, Namespace: b.Task.Namespace, Resource: rid, Node: b.Node, Quantity: x.Amount,
					Amount: x.Amount.Format(rid), Priority: t.Info.V.Priority, Phase: string(types.Pending),
				})
			}
		}
	}
	for _, id := range e.d.Grants {
		r := &cluster.Reservation{ID: id, Info: e.v.Reservations[id].Info, Grant: cluster.Cell[types.Grant]{V: e.d.Granted(id)}}
		if r.Grant.V == nil {
			continue
		}
		for _, at := range r.Grant.V.Nodes {
			if node == "" || node == at.Node {
				out = append(out, e.grantHolds(r, at.Node, rid, node == "")...)
			}
		}
	}
	return out
}

// remedy says which holders must end before an amount is free, and how to end them; nothing if no
// holder is known.
func (e *explainer) remedy(ns string, holders []why.Holder, wanted types.Quantity) (does types.Text, awaits []why.Object) {
	var enough []why.Holder
	collector := ""
	for _, h := range holders {
		if e.collectsForKin(ns, h) {
			wanted -= h.Quantity
			collector = h.NameIn(ns)
		}
	}
	for _, h := range holders {
		if wanted <= 0 {
			break
		}
		if !e.collectsForKin(ns, h) {
			wanted -= h.Quantity
			enough = append(enough, h)
		}
	}
	switch {
	case len(enough) == 0 && collector != "":
		return types.Textf("It goes on when %s hands over what it has collected for it.", collector), nil
	case len(enough) == 0:
		return types.Text{}, nil
	}
	for _, h := range enough[:min(few, len(enough))] {
		awaits = append(awaits, why.Object{Kind: h.Kind, Namespace: h.Namespace, ID: h.ID})
	}
	return e.await(ns, enough), awaits
}

// await says that holders must end, and how to end the first that was not told to.
func (e *explainer) await(ns string, enough []why.Holder) types.Text {
	who := make([]string, len(enough))
	for i := range enough {
		who[i] = enough[i].NameIn(ns)
	}
	first := enough[0]
	if last := enough[len(enough)-1]; last.Leaving != "" {
		return types.Textf("It goes on when %s %s, which %s being %s.", list(who), plural(len(enough), "ends", "end"), is(len(enough)), last.Leaving)
	}
	// A leaving holder needs no action.
	var end types.Text
	named := "the first"
	for i, h := range enough {
		does, ok := e.ending(ns, h)
		if h.Leaving != "" || !ok {
			continue
		}
		if i > 0 {
			named = who[i]
		}
		switch {
		case len(enough) > 1:
			end = types.Textf(" To end %s now: %s", named, does)
		case first.Kind == why.KindTask:
			end = types.Textf(" To end it now: %s", does)
		default:
			end = types.Textf(" To do so now: %s", does)
		}
		break
	}
	have := why.AmountOf(ns, first.Resource, first.Quantity)
	if first.Node != "" {
		have += " on " + first.Node
	}
	switch {
	case len(enough) > 1:
		return types.Textf("It goes on when %s end, which hold what it waits for.%s", list(who), end)
	case first.Kind == why.KindTask:
		return types.Textf("It goes on when %s ends, which holds %s.%s", who[0], have, end)
	case first.Phase != string(types.Granted):
		return types.Textf("It goes on when %s lets go of %s. See what that waits for: %s", who[0], have, explained(ns, cluster.ID{Namespace: first.Namespace, ID: first.ID}))
	}
	return types.Textf("It goes on when %s is given up, which holds %s.%s", who[0], have, end)
}

// collectsForKin reports whether a holder is a reservation that collects for what waits of the
// explained job.
func (e *explainer) collectsForKin(ns string, h why.Holder) bool {
	r := e.v.Reservations[cluster.ID{Namespace: h.Namespace, ID: h.ID}]
	return h.Kind == why.KindReservation && h.Namespace == ns && e.kin != "" && grants.IsDirected(r) && r.Info.V.Job == e.kin && r.Info.V.HandsOver()
}

// ending is the action that ends a holder; ok is false where that is bad advice. A holder of the
// same job supports the waiting task or has its place by the same policy. A planned one cannot be
// stopped. A policy renews its reservations, or their tasks are lost.
func (e *explainer) ending(ns string, h why.Holder) (does action.Action, ok bool) {
	id := cluster.ID{Namespace: h.Namespace, ID: h.ID}
	job := ""
	if r := e.v.Reservations[id]; h.Kind == why.KindReservation && r != nil && r.Info.V != nil {
		job = r.Info.V.Job
	} else if t := e.v.Task(id); h.Kind == why.KindTask && t != nil && t.Info.V != nil {
		job = t.Info.V.Job
	}
	switch {
	case e.planned[id], job != "" && job == e.kin && h.Namespace == ns:
		return action.Action{}, false
	case h.Kind == why.KindReservation && job != "":
		return doing(action.Stop, ns, cluster.ID{Namespace: h.Namespace, ID: job}), true
	case h.Kind == why.KindReservation:
		return doing(action.Unreserve, ns, id), true
	}
	return doing(action.Stop, ns, id), true
}

// providers returns the live tasks that provide rid or will; otherwise the ended ones.
func (e *explainer) providers(rid types.ResourceID) []why.Provider {
	out, ok := e.given[rid]
	if !ok {
		out = e.searchProviders(rid)
		e.given[rid] = out
	}
	return out
}

func (e *explainer) searchProviders(rid types.ResourceID) []why.Provider {
	ns, name, _ := rid.Split()
	e.read.tasks(ns)
	var live, ended []*cluster.Task
	for t := range e.v.Tasks() {
		e.looks++
		if t.ID.Namespace != ns || t.Info.V == nil || !slices.ContainsFunc(t.Info.V.Provides, func(p types.Provide) bool { return p.Name == name }) {
			continue
		}
		if t.Phase().Ended() {
			ended = append(ended, t)
		} else {
			live = append(live, t)
		}
	}
	if len(live) == 0 {
		live = ended
	}
	slices.SortFunc(live, func(a, b *cluster.Task) int { return byPhase(a, b) })
	var out []why.Provider
	for _, t := range live[:min(3, len(live))] {
		for _, p := range t.Info.V.Provides {
			if p.Name == name {
				out = append(out, e.provider(rid, t, p))
				break
			}
		}
	}
	return out
}

// byPhase orders tasks: running, bound, waiting, then ended with the latest first; then by id.
func byPhase(a, b *cluster.Task) int {
	rank := map[types.Phase]int{types.Running: 0, types.Bound: 1, types.Pending: 2}
	order := func(t *cluster.Task) int {
		if r, ok := rank[t.Phase()]; ok {
			return r
		}
		return len(rank)
	}
	if n := order(a) - order(b); n != 0 {
		return n
	}
	if a.Phase().Ended() {
		if n := cmp.Compare(b.Status.V.Ended, a.Status.V.Ended); n != 0 {
			return n
		}
	}
	return strings.Compare(a.ID.ID, b.ID.ID)
}

func (e *explainer) provider(rid types.ResourceID, t *cluster.Task, p types.Provide) why.Provider {
	out := why.Provider{ID: t.ID.ID, Resource: rid, Amount: p.Amount.Format(rid), When: p.When, Phase: t.Phase()}
	if t.Status.V != nil {
		out.Node = t.Status.V.Node
	}
	if e.inner {
		return out
	}
	of := e.within()
	if x, err := of.task(t.ID); err == nil {
		out.Why = x.Summary
		for _, p := range x.Providers {
			out.Waits = append(out.Waits, p.ID)
		}
	}
	e.looks = of.looks
	return out
}

// sortedKeys returns the keys of a map in order.
func sortedKeys[K cmp.Ordered, V any](m map[K]V) []K { return slices.Sorted(maps.Keys(m)) }
