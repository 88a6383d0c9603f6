package explain

import (
	"fmt"
	"slices"
	"strings"

	"github.com/escher-sched/escher/controlplane/cluster"
	"github.com/escher-sched/escher/controlplane/spelling"
	"github.com/escher-sched/escher/controlplane/why"
	"github.com/escher-sched/escher/types"
	"github.com/escher-sched/escher/types/action"
)

// A clause is a predicate that says why a vector fits nowhere: "waits for 1 cpu: …". It names the
// first cause that rules out every node: no node exists; none is large enough; a cluster-wide
// resource is short; none is alive; none is in the required place; none has a required resource;
// none has enough of it.

// clause returns the reason of a finding, whose summary is a clause.
func (e *explainer) clause(f *finding) why.Reason {
	if f.said.Summary == "" {
		f.said = e.say(f)
		f.said.Unmet = f.unmet
		f.said.Needs, f.said.Nodes = e.subjects(f)
	}
	return f.said
}

// subjects returns the resources that a finding is about, and the nodes, the nearest first.
func (e *explainer) subjects(f *finding) (needs []why.Missing, nodes []string) {
	if len(f.pools) > 0 && !f.infeasible() {
		return []why.Missing{e.missing(nil, f.pools[0])}, nil
	}
	if f.placeable() {
		return nil, names(f.fits[:1])
	}
	about := f.short
	if f.infeasible() {
		about = f.tooSmall
	}
	if len(about) == 0 {
		about = f.barred
	}
	for _, c := range about[:min(few, len(about))] {
		nodes = append(nodes, c.node.Name)
	}
	if len(about) > 0 {
		for _, l := range about[0].lacks {
			needs = append(needs, e.missing(about[0].node, l))
		}
	}
	return needs, nodes
}

// because returns a reason. Its summary is a clause, or a sentence.
func because(cause why.Cause, summary string, suggestion types.Text) why.Reason {
	return why.Reason{Cause: cause, Summary: summary, Suggestion: suggestion}
}

func (e *explainer) say(f *finding) why.Reason {
	switch {
	case len(e.nodes) == 0:
		return because(why.NoNodes, "waits: no node is registered", types.Textf("Start one: %s.", action.StartNode.Of()))
	case f.infeasible():
		r := e.never(f)
		r.Summary = "can never run: " + r.Summary
		return r
	case len(f.pools) > 0:
		return e.shortPool(f)
	case f.placeable() && !f.allowed.IsZero():
		return because(why.AllowedLater, fmt.Sprintf("fits on %s, and this alternative is allowed in %s", f.fits[0].Name, why.InWords(f.allowed.Sub(e.now))), types.Text{})
	case f.placeable():
		return because(why.AboutToBind, fmt.Sprintf("fits on %s, and is about to be bound", f.fits[0].Name), noScheduler())
	}
	return e.narrow(f)
}

// narrow finds what rules out every node. It filters the candidates need by need, and in parallel
// the barred ones, which may be the only ones left.
func (e *explainer) narrow(f *finding) why.Reason {
	open, shut := f.short, f.barred
	for _, x := range f.needs {
		if !x.ID.IsPlacement() {
			continue
		}
		if open, shut = having(open, x), having(shut, x); len(open) == 0 && len(f.short) > 0 {
			return e.shutAt(x, shut)
		}
	}
	if len(open) == 0 {
		return e.allShut(shut)
	}
	if large := enough(open, types.ResourceID.Physical); len(large) > 0 {
		open = large
	} else {
		return e.tooSmallOpen(f, open, enough(shut, types.ResourceID.Physical))
	}
	for _, x := range f.needs {
		if x.ID.Physical() || e.v.Pool(x.ID) != nil {
			continue
		}
		left := having(open, x)
		switch {
		case len(left) > 0:
			open, shut = left, having(shut, x)
		case x.ID.Scoped():
			return e.notGranted(f, x, having(shut, x))
		default:
			return e.notThere(f, x, open, having(shut, x))
		}
	}
	if large := enough(open, func(rid types.ResourceID) bool { return !rid.Physical() }); len(large) > 0 {
		return e.noRoom(f, large)
	}
	return e.tooLow(f, open)
}

// having returns the candidates where a resource exists.
func having(list []candidate, x cluster.Need) []candidate {
	return filtered(list, func(c *candidate) bool {
		l, lacks := c.lacking(x.ID)
		return !lacks || l.known && !x.ID.IsPlacement()
	})
}

// enough returns the candidates whose capacity of the resources of a kind suffices.
func enough(list []candidate, kind func(types.ResourceID) bool) []candidate {
	return filtered(list, func(c *candidate) bool {
		return !slices.ContainsFunc(c.lacks, func(l lack) bool { return kind(l.ID) && l.small() })
	})
}

// filtered returns the candidates to keep: the list itself if that is all.
func filtered(list []candidate, keep func(*candidate) bool) []candidate {
	first := 0
	for first < len(list) && keep(&list[first]) {
		first++
	}
	if first == len(list) {
		return list
	}
	out := slices.Clone(list[:first])
	for i := first + 1; i < len(list); i++ {
		if keep(&list[i]) {
			out = append(out, list[i])
		}
	}
	return out
}

// shutAt: the nodes of a place take no tasks at present.
func (e *explainer) shutAt(x cluster.Need, shut []candidate) why.Reason {
	if len(shut) == 0 {
		return because(why.NoSuchPlace, fmt.Sprintf("waits for %s, and no node there is in the other place that it requests", why.NameOf("", x.ID)),
			types.Textf("Request one place, or give a node both labels."))
	}
	if strings.HasPrefix(string(x.ID), "node/") {
		return because(why.NodesIneligible, fmt.Sprintf("waits for %s, which is %s", why.NameOf("", x.ID), barredBy(shut[0].node)), unbar(shut, "Ask for another place"))
	}
	return because(why.NodesIneligible, fmt.Sprintf("waits for %s: %s", why.NameOf("", x.ID), shutWords(shut, "there")), unbar(shut, "Ask for another place"))
}

// allShut: no node takes any task at present.
func (e *explainer) allShut(shut []candidate) why.Reason {
	return because(why.NodesIneligible, "waits: "+shutWords(shut, ""), unbar(shut, ""))
}

// shutWords says why nodes take no tasks.
func shutWords(shut []candidate, where string) string {
	if where != "" {
		where = " " + where
	}
	reasons := make(map[string][]string)
	for _, c := range shut {
		why := barredBy(c.node)
		reasons[why] = append(reasons[why], c.node.Name)
	}
	var parts []string
	for _, r := range byFrequency(reasons) {
		parts = append(parts, fmt.Sprintf("%s %s %s", list(r.Nodes), is(len(r.Nodes)), r.Reason))
	}
	if len(shut) == 1 {
		return fmt.Sprintf("the only node%s, %s, is %s", where, shut[0].node.Name, barredBy(shut[0].node))
	}
	return fmt.Sprintf("none of %d nodes%s takes anything new: %s", len(shut), where, strings.Join(parts, ", "))
}

// unbar returns the remedy that makes a node take tasks again, or the alternative.
func unbar(shut []candidate, instead string) types.Text {
	does := func(first, later, format string, args ...any) types.Text {
		if instead != "" {
			return types.Textf(instead+", or "+later+format, args...)
		}
		return types.Textf(first+format, args...)
	}
	for _, c := range shut {
		if c.node.Alive.V == nil {
			return does("Start", "start", " the agent of %s again.", c.node.Name)
		}
	}
	node := shut[0].node
	switch {
	case node.Cordon.V == nil:
		return does("Run", "run", " this scheduler in the newest version that is in use.")
	case len(shut) > 1:
		return does("Uncordon", "uncordon", " %s: %s", node.Name, action.Uncordon.Of(node.Name))
	}
	return does("Uncordon", "uncordon", " it: %s", action.Uncordon.Of(node.Name))
}

// tooSmallOpen: only nodes that take no tasks at present are large enough.
func (e *explainer) tooSmallOpen(f *finding, open, shut []candidate) why.Reason {
	l := firstSmall(open[0])
	if len(shut) == 0 {
		return because(why.NodesTooSmall, fmt.Sprintf("waits for %s on one node, and %s has %s", wantOf(f.ns, l.Need), open[0].node.Name, l.capacity.Format(l.ID)),
			types.Textf("Ask for %s %s, or add a larger node.", lessOf(l), why.NameOf(f.ns, l.ID)))
	}
	return because(why.NodesIneligible, fmt.Sprintf("waits for %s on one node: %s", wantOf(f.ns, l.Need), shutWords(shut, "so large")),
		unbar(shut, "Ask for "+lessOf(l)+" "+why.NameOf(f.ns, l.ID)))
}

func firstSmall(c candidate) lack {
	for _, l := range c.lacks {
		if l.ID.Physical() && l.small() {
			return l
		}
	}
	return c.lacks[0]
}

// notGranted: no remaining node has the scoped resource of a reservation.
func (e *explainer) notGranted(f *finding, x cluster.Need, shut []candidate) why.Reason {
	name := why.NameOf(f.ns, x.ID)
	ns, base, reservation := x.ID.Split()
	id := cluster.ID{Namespace: ns, ID: reservation}
	r := e.v.Reservations[id]
	waits := func(cause why.Cause, text string) why.Reason {
		w := because(cause, fmt.Sprintf("waits for %s: reservation %s %s", name, why.Ref(f.ns, id), text), seeWhy(f.ns, id))
		w.Awaits = []why.Object{{Kind: why.KindReservation, Namespace: ns, ID: reservation}}
		return w
	}
	switch {
	case r == nil:
		return because(why.ReservationMissing, fmt.Sprintf("waits for %s: there is no reservation %s", name, why.Ref(f.ns, id)), f.reserve(id, base, x))
	case r.Grant.V == nil:
		return waits(why.ReservationWaits, "is not granted yet")
	case r.Grant.V.Phase == types.Collecting:
		return waits(why.ReservationWaits, "is not granted yet, and collects what becomes free")
	case r.Grant.V.Phase == types.Granting:
		return waits(why.ReservationWaits, "is about to be granted")
	case r.Grant.V.Phase == types.Releasing:
		return waits(why.ReservationEnds, "was given up, and what is drawn on it is being released")
	case len(shut) > 0:
		return because(why.NodesIneligible, fmt.Sprintf("waits for %s: %s", name, shutWords(shut, "of it")), unbar(shut, ""))
	}
	var at []string
	for _, g := range r.Grant.V.Nodes {
		for _, h := range g.Holds {
			if h.Resource == x.ID.Unscoped() {
				at = append(at, g.Node)
			}
		}
	}
	if len(at) == 0 {
		f.stuck = true
		return because(why.ReservationLacks, fmt.Sprintf("cannot run as long as reservation %s is as it is: that holds no %s", why.Ref(f.ns, id), base),
			types.Textf("Ask for what it holds, or make it anew: %s", action.Describe.Of(id.ID)))
	}
	return because(why.ReservationLacks, fmt.Sprintf("waits for %s: reservation %s holds it on %s, and not where the rest is", name, why.Ref(f.ns, id), list(at)),
		types.Textf("Ask for what is in one place."))
}

// notThere: no remaining node has the ephemeral resource.
func (e *explainer) notThere(f *finding, x cluster.Need, left, shut []candidate) why.Reason {
	name, want := why.NameOf(f.ns, x.ID), why.AmountOf(f.ns, x.ID, x.Amount)
	if elsewhere := having(f.short, x); len(elsewhere) > 0 {
		here := left[0].node.Name
		return because(why.ResourceElsewhere,
			fmt.Sprintf("waits for %s on %s, where the rest of what it asks for is: it is only on %s", want, list(nodesOf(left)), list(nodesOf(elsewhere))),
			types.Textf("Set it there: %s", f.setOn(x.ID, x.Amount, here)))
	}
	if len(shut) > 0 {
		return because(why.NodesIneligible, fmt.Sprintf("waits for %s: %s", want, shutWords(shut, "with it")), unbar(shut, "Set it on another one"))
	}
	for _, n := range e.nodes {
		own := n.Own[x.ID]
		if own == nil || own.V.NodeSession == n.Session() {
			continue
		}
		if n.Alive.V == nil {
			return because(why.ResourceMissing, fmt.Sprintf("waits for %s, which was set on %s, and that is not alive", want, n.Name),
				types.Textf("Set it on another node: %s", f.setOn(x.ID, x.Amount, left[0].node.Name)))
		}
		return because(why.ResourceMissing, fmt.Sprintf("waits for %s, which was set in a former session of %s, and is void since", want, n.Name),
			types.Textf("Set it again: %s", f.setOn(x.ID, x.Amount, n.Name)))
	}
	if c := e.v.Everywhere[x.ID]; c != nil {
		return because(why.NodesIneligible, fmt.Sprintf("waits for %s, which is on the nodes that a selector picks, and none of them takes anything at present", want),
			types.Textf("See where it is, and set it elsewhere: %s", action.ListResources.Of()))
	}
	create := func() action.Action { return f.setOn(x.ID, x.Amount, left[0].node.Name) }
	given := e.providers(x.ID)
	others := slices.DeleteFunc(slices.Clone(given), func(p why.Provider) bool { return p.ID == e.self })
	switch {
	case len(others) > 0 && others[0].Phase == types.Pending && slices.Contains(others[0].Waits, e.self):
		return because(why.Circle, fmt.Sprintf("waits for %s, which %s is to provide, and that waits for it", want, others[0].ID),
			types.Textf("The two wait for each other forever. To break the circle: %s", create()))
	case len(others) > 0:
		return e.provided(f.ns, want, others)
	case len(given) > 0:
		return because(why.Circle, fmt.Sprintf("waits for %s, which nothing but itself is to provide", want),
			types.Textf("It waits for itself forever, unless you create the resource: %s", create()))
	}
	if meant := e.meant(name); meant != "" {
		return because(why.ResourceMissing, fmt.Sprintf("waits for %s: there is no %s anywhere (did you mean %s?)", want, name, meant), types.Textf("Ask for %s, or create %s: %s", meant, name, create()))
	}
	return because(why.ResourceMissing, fmt.Sprintf("waits for %s: there is no %s anywhere", want, name), types.Textf("Create it: %s", create()))
}

// meant returns the resource of a node that a mistyped name means; empty if none is near.
func (e *explainer) meant(name string) string {
	best, least := "", 0
	seen := make(map[string]bool)
	for _, n := range e.nodes {
		for _, r := range n.Info.V.Capacity {
			if seen[r.Name] {
				continue
			}
			seen[r.Name] = true
			if d, near := spelling.Distance(name, r.Name); near && (best == "" || d < least) {
				best, least = r.Name, d
			}
		}
	}
	return best
}

// provided: tasks should provide the missing resource, or should have.
func (e *explainer) provided(ns, want string, given []why.Provider) why.Reason {
	p := given[0]
	id := cluster.ID{Namespace: ns, ID: p.ID}
	again := types.Textf("Run it again, or create it yourself: %s", action.CreateResource.Of())
	r := why.Reason{Cause: why.ProviderAwaited, Suggestion: seeWhy(ns, id), Awaits: []why.Object{{Kind: why.KindTask, Namespace: ns, ID: p.ID}}}
	switch {
	case p.Phase == types.Pending:
		r.Summary = fmt.Sprintf("waits for %s, which %s is to provide, and that waits itself", want, p.ID)
	case !p.Phase.Ended() && p.When == types.WhenSucceeded:
		r.Summary = fmt.Sprintf("waits for %s, which %s provides when it has succeeded: it is %s on %s", want, p.ID, p.Phase, p.Node)
		r.Suggestion = types.Textf("See how far that is: %s", explained(ns, id))
	case !p.Phase.Ended():
		r.Summary = fmt.Sprintf("waits for %s, which %s provides when it runs: it is %s on %s", want, p.ID, p.Phase, p.Node)
	case p.When != types.WhenSucceeded:
		return because(why.ProviderEnded, fmt.Sprintf("waits for %s, which %s provided while it ran: it has ended", want, p.ID), again)
	case p.Phase == types.Succeeded:
		return because(why.ProviderEnded,
			fmt.Sprintf("waits for %s, which %s left behind on %s, and which is gone: it was removed, or the node's session ended", want, p.ID, p.Node), again)
	default:
		return because(why.ProviderEnded, fmt.Sprintf("waits for %s, which %s was to provide when it had succeeded: it %s", want, p.ID, p.Phase),
			types.Textf("See why: %s; then run it again.", explained(ns, id)))
	}
	return r
}

// tooLow: an ephemeral resource exists, but its capacity is permanently too low.
func (e *explainer) tooLow(f *finding, open []candidate) why.Reason {
	c := open[0]
	var l lack
	for _, x := range c.lacks {
		if !x.ID.Physical() && x.small() {
			l = x
			break
		}
	}
	want, at := wantOf(f.ns, l.Need), "on "+c.node.Name
	if len(open) > 1 {
		at = fmt.Sprintf("at most, on %d nodes", len(open))
	}
	if l.ID.Scoped() {
		_, _, reservation := l.ID.Split()
		f.stuck = true
		if l.Devices != nil {
			return e.notInGrant(f, l, c.node, reservation)
		}
		return because(why.ReservationLacks,
			fmt.Sprintf("cannot run as long as reservation %s is as it is: it asks for %s, and that holds %s %s", reservation, want, l.capacity.Format(l.ID), at),
			types.Textf("Ask for at most %s, or make the reservation anew with a larger bundle: %s", why.AmountOf(f.ns, l.ID, l.capacity), action.Unreserve.Of(reservation)))
	}
	set := e.setLike(f, c.node, l.ID, l.Amount)
	if l.capacity == 0 {
		return because(why.Closed, fmt.Sprintf("waits for %s, whose capacity is 0 on %s: it is closed", want, list(nodesOf(open))), types.Textf("Open it: %s", set))
	}
	return because(why.CapacityLow, fmt.Sprintf("waits for %s, and its capacity is %s %s", want, l.capacity.Format(l.ID), at), types.Textf("Ask for less, or raise it: %s", set))
}

func nodesOf(list []candidate) []string {
	out := make([]string, len(list))
	for i, c := range list {
		out[i] = c.node.Name
	}
	slices.Sort(out)
	return out
}

// reserve returns the advice to make a reservation that a need draws on, and records it as unmet.
func (f *finding) reserve(id cluster.ID, base string, x cluster.Need) types.Text {
	f.unmet = why.Ref(f.ns, id)
	return types.Textf("Reserve it: %s", action.ReserveBundle.Of(id.ID, base, x.Amount.Format(x.ID)))
}

// setOn returns the action that sets a resource on a node, and records that as unmet.
func (f *finding) setOn(rid types.ResourceID, q types.Quantity, node string) action.Action {
	return f.set(rid, q, action.SetOnNode, node)
}

// setInCluster returns the action that sets a cluster-wide resource, and records that as unmet.
func (f *finding) setInCluster(rid types.ResourceID, q types.Quantity) action.Action {
	return f.set(rid, q, action.SetInCluster)
}

func (f *finding) set(rid types.ResourceID, q types.Quantity, verb action.Verb, where ...string) action.Action {
	f.unmet = why.NameOf(f.ns, rid)
	name, in := f.unmet, ""
	if of, base, _ := rid.Split(); of != f.ns {
		name, in = base, of
	}
	return verb.Of(append([]string{name, q.Format(rid)}, where...)...).In(in)
}

// setLike returns the action that sets a resource the way it is set on a node: there, or on every
// node.
func (e *explainer) setLike(f *finding, n *cluster.Node, rid types.ResourceID, q types.Quantity) action.Action {
	if own := n.Own[rid]; e.v.Everywhere[rid] != nil && (own == nil || own.V.NodeSession != n.Session()) {
		return f.set(rid, q, action.SetOnEveryNode)
	}
	return f.setOn(rid, q, n.Name)
}
