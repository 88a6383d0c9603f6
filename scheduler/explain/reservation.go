package explain

import (
	"fmt"
	"slices"
	"time"

	"github.com/escher-sched/escher/controlplane"
	"github.com/escher-sched/escher/controlplane/cluster"
	"github.com/escher-sched/escher/controlplane/grants"
	"github.com/escher-sched/escher/controlplane/why"
	"github.com/escher-sched/escher/scheduler/queue"
	"github.com/escher-sched/escher/types"
	"github.com/escher-sched/escher/types/action"
)

// waiting is the phase of a reservation without a grant of its own, and of a job with waiting
// tasks.
const waiting = "waiting"

// reservation explains a reservation.
func (e *explainer) reservation(id cluster.ID) (why.Explanation, error) {
	e.read.reservation(id)
	r := e.v.Reservations[id]
	if r == nil {
		return why.Explanation{}, types.Errorf(types.NotFound, "explain reservation %s: there is none in namespace %s: %s", id.ID, id.Namespace, action.ListReservations.Of())
	}
	if r.Info.V != nil {
		e.kin = r.Info.V.Job
	}
	x := why.Explanation{Kind: why.KindReservation, ID: id.ID, Namespace: id.Namespace, Phase: waiting}
	switch g := r.Grant.V; {
	case g != nil && !r.Current():
		e.releasing(r, &x)
	case g != nil && g.Phase == types.Granted:
		e.granted(r, &x)
	case g != nil && g.Phase == types.HandedOver:
		x.Phase = string(g.Phase)
		x.Reason = because(why.HandedOver, "It had all that it asks for, and what waited of job "+r.Info.V.Job+" has got that: it is to be given up.", giveUp(r))
	case g != nil && g.Phase == types.Granting:
		e.granting(r, &x)
	case g != nil, grants.IsDirected(r):
		e.collecting(r, &x)
	case e.v.UnreadNamespace(id.Namespace):
		x.Reason = unreadNamespace(id.Namespace)
	default:
		e.bundles(r, &x)
	}
	return x, nil
}

// behind adds to the explanation of a task or job that waits for a reservation why that is not
// granted: its reason as a note, and its remedy and holders.
func (e *explainer) behind(x *why.Explanation) {
	if x.Cause != why.ReservationWaits {
		return
	}
	id := cluster.ID{Namespace: x.Awaits[0].Namespace, ID: x.Awaits[0].ID}
	r := e.awaited[id]
	if r == nil {
		of := newExplainer(e.v, e.now) // The draft of e is of the tasks, and reservations take from theirs.
		of.read = e.read
		found, err := of.reservation(id)
		e.looks += of.looks
		if err != nil {
			return // Only what the explanation already says is known.
		}
		r = &found
		e.awaited[id] = r
	}
	x.Infeasible = x.Infeasible || r.Infeasible
	x.Suggestion, x.Unmet = r.Suggestion, r.Unmet
	if text := fmt.Sprintf("Reservation %s: %s", why.Ref(x.Namespace, id), r.Summary); r.Infeasible && x.Kind == why.KindTask {
		x.Summary = text
	} else {
		note(x, "%s", text)
	}
	x.Notes = append(x.Notes, r.Notes...)
	x.Holders = append(x.Holders, r.Holders...)
}

// unreadNamespace: no task or reservation of the namespace is placed.
func unreadNamespace(ns string) why.Reason {
	key := controlplane.NamespaceKey(ns)
	return because(why.Unreadable, "Nothing of namespace "+ns+" is placed: "+key+" cannot be read.",
		types.Textf("Run the newest version of Escher that is in use, which may have written it, or %s.", action.RepairKey.Of(key)))
}

func giveUp(r *cluster.Reservation) types.Text {
	return types.Textf("To give it up: %s", action.Unreserve.Of(r.ID.ID))
}

// releasing: the reservation is gone, but its grant is not.
func (e *explainer) releasing(r *cluster.Reservation, x *why.Explanation) {
	var drawn []string
	for _, h := range e.drawn(r) {
		if h.Amount != "" && !slices.Contains(drawn, h.NameIn(r.ID.Namespace)) {
			drawn = append(drawn, h.NameIn(r.ID.Namespace))
		}
		x.Holders = append(x.Holders, h)
	}
	x.Phase = string(types.Releasing)
	switch {
	case len(drawn) == 0:
		x.Reason = because(why.Releasing, "It was given up, and is about to be released.", noScheduler())
	case r.Info.V != nil:
		x.Phase = waiting
		x.Reason = because(why.Releasing, fmt.Sprintf("It waits for the former reservation of that name to be released, on which %s.", draws(drawn)),
			endOne("It goes on when they end.", x.Holders))
	default:
		x.Reason = because(why.Releasing, fmt.Sprintf("It was given up, and is released when its tasks end: %s on it.", draws(drawn)), endOne("", x.Holders))
	}
}

// endOne adds to a text how to end one task that draws on a grant, unless all were told to end.
func endOne(text string, holders []why.Holder) types.Text {
	for _, h := range holders {
		if h.Leaving == "" && text != "" {
			return types.Textf("%s To end one now: %s", text, action.Stop.Of(h.ID))
		}
		if h.Leaving == "" {
			return types.Textf("To end one now: %s", action.Stop.Of(h.ID))
		}
	}
	return types.Textf("%s", text)
}

func draws(who []string) string {
	if len(who) == 1 {
		return who[0] + " still draws"
	}
	return list(who) + " still draw"
}

// drawn returns the holdings of tasks that draw on a grant.
func (e *explainer) drawn(r *cluster.Reservation) []why.Holder {
	var out []why.Holder
	for _, at := range r.Grant.V.Nodes {
		for _, h := range at.Holds {
			scoped := h.Resource.Scope(r.ID.Namespace, r.ID.ID)
			out = append(out, e.holdersOn(e.v.Nodes[at.Node], scoped)...)
		}
	}
	return out
}

func (e *explainer) granted(r *cluster.Reservation, x *why.Explanation) {
	g := r.Grant.V
	x.Phase = string(types.Granted)
	var at, dead []string
	for _, n := range g.Nodes {
		at = append(at, n.Node)
		if e.v.Nodes[n.Node].Alive.V == nil {
			dead = append(dead, n.Node)
		}
	}
	x.Holders = e.drawn(r)
	x.Reason = because(why.Granted, fmt.Sprintf("It is granted, on %s: %s", list(at), plural(len(x.Holders), "1 task draws on it", fmt.Sprintf("%d tasks draw on it", len(x.Holders)))),
		giveUp(r))
	x.Nodes = at[:min(few, len(at))]
	if from := grants.LeftNodes(e.v, r); len(from) > 0 {
		note(x, "%s", e.moves(r, from))
	} else if len(dead) > 0 {
		note(x, "Of its nodes, %s %s not alive: what it holds there is kept for it.", list(dead), is(len(dead)))
	}
}

// granting says how much of a reservation too large for one transaction is held.
func (e *explainer) granting(r *cluster.Reservation, x *why.Explanation) {
	x.Phase = string(types.Granting)
	x.Cause, x.Suggestion = why.Granting, noScheduler()
	if slices.Contains(r.Grant.V.Bundles, "") {
		x.Summary = "Something came in between while it was granted: what it holds is given back, and then it waits as before."
		return
	}
	held := 0
	for _, at := range r.Grant.V.Nodes {
		if len(at.Holds) > 0 {
			held++
		}
	}
	x.Summary = fmt.Sprintf("It is about to be granted: one transaction has no room for all of it, and so far it holds its part of %d of its %d nodes.", held, len(r.Grant.V.Nodes))
}

// collecting says what a reservation has collected, and which holders have the rest.
func (e *explainer) collecting(r *cluster.Reservation, x *why.Explanation) {
	if r.Grant.V == nil {
		x.Reason = because(why.Collecting, "It is about to collect what becomes free on the nodes that it names.", noScheduler())
		return
	}
	x.Phase, x.Cause = string(types.Collecting), why.Collecting
	parts := e.collected(r, x)
	does, then := "It has waited long, and collects what becomes free", ", and is about to be granted"
	if r.Info.V.Directed() {
		if then = ", to keep it"; r.Info.V.HandsOver() {
			then = ", for what waits of job " + r.Info.V.Job
		}
		does = "It collects what becomes free on the nodes that it names" + then
	}
	x.Summary = fmt.Sprintf("%s: so far %s.", does, list(parts))
	if len(parts) == 0 {
		x.Summary = "It has collected all that it asks for" + then + "."
	}
	switch until := lentUntil(r); {
	case until.After(e.now):
		note(x, "It is for %s, in %s. Until then only tasks that end before, %s, may use what it has collected.", until.Format(time.RFC3339), why.InWords(until.Sub(e.now)), action.TaskMaxRun.Of())
	case !until.IsZero():
		note(x, "It is late: it is for %s, %s ago.", until.Format(time.RFC3339), why.InWords(e.now.Sub(until)))
	}
	if !r.Info.V.Directed() {
		note(x, "No task draws on it before it is complete. Only tasks that end in time, %s, may use what it has collected.", action.TaskMaxRun.Of())
	}
}

// lentUntil returns until when a reservation that its maker directs lends what it collects; zero if it does not.
func lentUntil(r *cluster.Reservation) time.Time {
	if !grants.IsDirected(r) || r.Info.V.Collect.LendUntil == 0 {
		return time.Time{}
	}
	return time.Unix(0, r.Info.V.Collect.LendUntil).UTC()
}

// lenders notes which holder lends what it has collected, and until when.
func (e *explainer) lenders(x *why.Explanation) {
	for _, h := range x.Holders {
		if h.Kind != why.KindReservation {
			continue
		}
		if until := lentUntil(e.v.Reservations[cluster.ID{Namespace: h.Namespace, ID: h.ID}]); until.After(e.now) {
			note(x, "Reservation %s is for %s, in %s. Until then only tasks that end before, %s, may use what it has collected.", h.ID, until.Format(time.RFC3339), why.InWords(until.Sub(e.now)), action.TaskMaxRun.Of())
			return
		}
	}
}

// collected returns the incomplete parts of what r collects, and adds the holders of the rest.
func (e *explainer) collected(r *cluster.Reservation, x *why.Explanation) []string {
	var parts []string
	var rest types.Quantity
	var holders []why.Holder
	for _, at := range r.Grant.V.Nodes {
		n := e.v.Nodes[at.Node]
		for _, w := range grants.WantedOn(e.v, r, r.Grant.V, at.Node) {
			held := grants.HeldOf(at.Holds, w.ID)
			if held >= w.Sum() {
				continue
			}
			parts = append(parts, fmt.Sprintf("%s of %s on %s", held.Format(w.ID), why.AmountOf(r.ID.Namespace, w.ID, w.Sum()), at.Node))
			on := e.holdersOn(n, w.ID)
			if p := e.v.Pool(w.ID); p != nil {
				on = e.holdersOfPool(w.ID)
			}
			on = slices.DeleteFunc(on, func(h why.Holder) bool {
				return h.Granted && h.ID == r.ID.ID && h.Namespace == r.ID.Namespace
			})
			if rest == 0 {
				rest, holders = w.Sum()-held, on
			}
			x.Holders = append(x.Holders, on...)
		}
	}
	x.Suggestion, x.Awaits = e.remedy(r.ID.Namespace, holders, rest)
	return parts
}

// bundles places bundles like granting until one fits nowhere, and explains that one.
func (e *explainer) bundles(r *cluster.Reservation, x *why.Explanation) {
	e.admission(x)
	spots := grants.BundleOrder(e.v, r)
	for i, s := range spots {
		if n := e.firstFit(s.Needs); n != nil {
			e.d.Take(n, e.d.Hold(n, s.Needs))
			continue
		}
		f := e.find(r.ID.Namespace, s.Needs)
		y := e.explanation(f, r.Info.V.Bundles[s.Index].Requests)
		next := e.clause(f)
		y.Reason = inFull(next)
		x.Vectors = []why.Vector{y}
		e.addHolders(f, x)
		if i > 0 {
			note(x, "What is free is what %s.", plural(i, "the bundle that has room leaves", fmt.Sprintf("the %d bundles that have room leave", i)))
		}
		if room := e.roomWhenEmpty(r); room < len(spots) {
			x.Infeasible = true
			x.Reason = because(why.NodesTooSmall, fmt.Sprintf("It can never be granted: were nothing else there, %d of its %d bundles would fit.", room, len(spots)),
				types.Textf("Ask for fewer or smaller bundles, or add nodes."))
			if f.infeasible() {
				x.Reason = e.never(f)
				x.Summary = sentence("It can never be granted", x.Summary)
			}
			x.Needs, x.Nodes = next.Needs, next.Nodes
			return
		}
		x.Infeasible = f.stuck
		x.Reason = inFull(next)
		if len(spots) > 1 {
			x.Summary = sentence(fmt.Sprintf("%d of its %d bundles %s room, and nothing is held until all have; the next one %s", i, len(spots), plural(i, "has", "have"), next.Summary), "")
		}
		e.inAll(f, x)
		e.turn(r, x)
		return
	}
	x.Reason = because(why.AboutToBind, "All its bundles have room, and it is about to be granted.", noScheduler())
}

// inAll notes that the free total suffices, but not on one node.
func (e *explainer) inAll(f *finding, x *why.Explanation) {
	if len(f.short) < 2 || len(f.short[0].lacks) == 0 {
		return
	}
	l := f.short[0].lacks[0]
	if !l.known || l.ID.IsPlacement() {
		return
	}
	var sum types.Quantity
	for _, c := range f.short {
		if free, ok := e.d.Free(c.node, l.ID); ok && free > 0 {
			sum = sum.Add(free)
		}
	}
	if sum >= l.Amount {
		note(x, "In all %s is free, but no node has %s of it.", why.AmountOf(f.ns, l.ID, sum), l.Amount.Format(l.ID))
	}
}

// turn adds the position in the queue, and when it begins to collect.
func (e *explainer) turn(r *cluster.Reservation, x *why.Explanation) {
	x.Queue = e.queue(e.owner(r.ID.Namespace, ""),
		&queue.Entry{ID: r.ID, Reservation: true, Priority: r.Info.V.Order(), Submitted: r.Info.V.Submitted}, queue.ReservationText(r.ID.Namespace, r.Info.V))
	if r.Info.V.Accumulate {
		e.collectsLater(x)
	}
}

// collectsLater says why something that may accumulate does not yet.
func (e *explainer) collectsLater(x *why.Explanation) {
	if kind, id, ok := e.collector(); ok {
		note(x, "It may collect what becomes free, but %s %s does so at present, and only one may.", kind, id)
		return
	}
	note(x, "Once it has waited long it collects what becomes free.")
}

// collector returns what accumulates at present, if the grants are few enough to be read.
func (e *explainer) collector() (kind why.Kind, id cluster.ID, ok bool) {
	if !e.read.grants() {
		return "", id, false
	}
	for of, r := range e.v.Reservations {
		if !grants.Accumulates(r) || ok && id.Compare(of) < 0 {
			continue
		}
		if kind, id, ok = why.KindReservation, of, true; r.Grant.V.Task != 0 {
			kind = why.KindTask
		}
	}
	return kind, id, ok
}

// roomWhenEmpty returns how many bundles fit by their physical requests with nothing allocated, on
// all registered nodes, including dead and cordoned ones.
func (e *explainer) roomWhenEmpty(r *cluster.Reservation) int {
	of := newExplainer(e.v, e.now)
	for _, n := range of.nodes {
		of.d.Clear(n)
	}
	placed := 0
	for _, x := range grants.BundleOrder(e.v, r) {
		physical := slices.DeleteFunc(slices.Clone(x.Needs), func(y cluster.Need) bool { return !y.ID.Physical() })
		for _, n := range of.nodes {
			e.looks++
			if _, ok := of.d.Fits(n, physical); ok {
				of.d.Take(n, of.d.Hold(n, physical))
				placed++
				break
			}
		}
	}
	return placed
}

func (e *explainer) firstFit(needs []cluster.Need) *cluster.Node {
	e.read.needs(needs)
	if _, short := e.d.PoolShort(needs); short {
		return nil
	}
	for _, n := range e.nodes {
		e.looks++
		if !n.Eligible() {
			continue
		}
		if _, ok := e.d.Fits(n, needs); ok {
			return n
		}
	}
	return nil
}
