package explain

import (
	"fmt"
	"slices"
	"strings"

	"github.com/escher-sched/escher/controlplane/cluster"
	"github.com/escher-sched/escher/types"
)

// A clause is a predicate that says why a vector fits nowhere: "waits for 1 cpu: …". It names the
// first cause that rules out every node: no node exists; none is large enough; a cluster-wide
// resource is short; none is alive; none is in the required place; none has a required resource;
// none has enough of it.

// clause returns the clause about a finding, and a remedy.
func (e *explainer) clause(f *finding) (clause, suggestion string) {
	if f.said == "" {
		f.said, f.remedy = e.say(f)
	}
	return f.said, f.remedy
}

func (e *explainer) say(f *finding) (clause, suggestion string) {
	switch {
	case len(e.nodes) == 0:
		return "waits: no node is registered", "Start one: escher dev on this machine, or escher agent on each of several."
	case f.infeasible():
		clause, suggestion = e.never(f)
		return "can never run: " + clause, suggestion
	case len(f.pools) > 0:
		return e.shortPool(f)
	case f.placeable() && !f.allowed.IsZero():
		return fmt.Sprintf("fits on %s, and may be placed so in %s", f.fits[0].Name, inWords(f.allowed.Sub(e.now))), ""
	case f.placeable():
		return fmt.Sprintf("fits on %s, and is about to be bound", f.fits[0].Name),
			"If it stays so, no scheduler runs: look at escher dev or escher server, and their logs."
	}
	return e.narrow(f)
}

// narrow finds what rules out every node. It filters the candidates need by need, and in parallel
// the barred ones, which may be the only ones left.
func (e *explainer) narrow(f *finding) (clause, suggestion string) {
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
		return e.allShut(f, shut)
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

func filtered(list []candidate, keep func(*candidate) bool) []candidate {
	var out []candidate
	for i := range list {
		if keep(&list[i]) {
			out = append(out, list[i])
		}
	}
	return out
}

// shutAt: the nodes of a place take no tasks at present.
func (e *explainer) shutAt(x cluster.Need, shut []candidate) (clause, suggestion string) {
	if len(shut) == 0 {
		return fmt.Sprintf("waits for %s, where no node is that is also where else it has to be", nameOf("", x.ID)),
			"Ask for one place, or label a node so."
	}
	if strings.HasPrefix(string(x.ID), "node/") {
		return fmt.Sprintf("waits for %s, which is %s", nameOf("", x.ID), barredBy(shut[0].node)), unbar(shut, "ask for another place")
	}
	return fmt.Sprintf("waits for %s: %s", nameOf("", x.ID), shutWords(shut, "there")), unbar(shut, "ask for another place")
}

// allShut: no node takes any task at present.
func (e *explainer) allShut(f *finding, shut []candidate) (clause, suggestion string) {
	return "waits: " + shutWords(shut, ""), unbar(shut, "")
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
		parts = append(parts, fmt.Sprintf("%s %s %s", listed(r.Nodes), is(len(r.Nodes)), r.Reason))
	}
	if len(shut) == 1 {
		return fmt.Sprintf("the only node%s, %s, is %s", where, shut[0].node.Name, barredBy(shut[0].node))
	}
	return fmt.Sprintf("none of %d nodes%s takes anything new: %s", len(shut), where, strings.Join(parts, ", "))
}

// unbar returns the remedy that makes a node take tasks again, or the alternative. A command comes
// last.
func unbar(shut []candidate, instead string) string {
	does := ""
	for _, c := range shut {
		if c.node.Alive.V == nil {
			does = "start the agent of " + c.node.Name + " again"
			break
		}
	}
	switch node := shut[0].node; {
	case does != "":
	case node.Cordon.V == nil:
		does = "run this scheduler in the newest version that is in use"
	default:
		does = "take the cordon from it: escher node uncordon " + node.Name
		if len(shut) > 1 {
			does = "take the cordon from " + node.Name + ": escher node uncordon " + node.Name
		}
	}
	if instead != "" {
		does = instead + ", or " + does
	}
	return strings.ToUpper(does[:1]) + does[1:]
}

// tooSmallOpen: only nodes that take no tasks at present are large enough.
func (e *explainer) tooSmallOpen(f *finding, open, shut []candidate) (clause, suggestion string) {
	l := firstSmall(open[0])
	if len(shut) == 0 {
		return fmt.Sprintf("waits for %s on one node, and %s has %s", wantOf(f.ns, l.Need), open[0].node.Name, l.capacity.Format(l.ID)),
			fmt.Sprintf("Ask for %s %s, or add a larger node.", lessOf(l), nameOf(f.ns, l.ID))
	}
	return fmt.Sprintf("waits for %s on one node: %s", wantOf(f.ns, l.Need), shutWords(shut, "so large")),
		unbar(shut, "ask for "+lessOf(l)+" "+nameOf(f.ns, l.ID))
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
func (e *explainer) notGranted(f *finding, x cluster.Need, shut []candidate) (clause, suggestion string) {
	name := nameOf(f.ns, x.ID)
	ns, base, reservation := x.ID.Split()
	id := cluster.ID{Namespace: ns, ID: reservation}
	r := e.v.Reservations[id]
	why := "See why: " + command(f.ns, "why", id)
	switch {
	case r == nil:
		return fmt.Sprintf("waits for %s: there is no reservation %s", name, ref(f.ns, id)),
			f.reserve(id, base, x)
	case r.Grant.V == nil:
		return fmt.Sprintf("waits for %s: reservation %s is not granted yet", name, ref(f.ns, id)), why
	case r.Grant.V.Phase == types.Accumulating, r.Grant.V.Phase == types.Collecting:
		return fmt.Sprintf("waits for %s: reservation %s is not granted yet, and collects what becomes free", name, ref(f.ns, id)), why
	case r.Grant.V.Phase == types.Granting:
		return fmt.Sprintf("waits for %s: reservation %s is about to be granted", name, ref(f.ns, id)), why
	case r.Grant.V.Phase == types.Releasing:
		return fmt.Sprintf("waits for %s: reservation %s was given up, and what is drawn on it is being released", name, ref(f.ns, id)), why
	case len(shut) > 0:
		return fmt.Sprintf("waits for %s: %s", name, shutWords(shut, "of it")), unbar(shut, "")
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
		return fmt.Sprintf("cannot run as long as reservation %s is as it is: that holds no %s", ref(f.ns, id), base),
			fmt.Sprintf("Ask for what it holds, or make it anew: escher describe %s", id.ID)
	}
	return fmt.Sprintf("waits for %s: reservation %s holds it on %s, and not where the rest is", name, ref(f.ns, id), listed(at)),
		"Ask for what is in one place."
}

// notThere: no remaining node has the ephemeral resource.
func (e *explainer) notThere(f *finding, x cluster.Need, left, shut []candidate) (clause, suggestion string) {
	name, want := nameOf(f.ns, x.ID), amountOf(f.ns, x.ID, x.Amount)
	if elsewhere := having(f.short, x); len(elsewhere) > 0 {
		here := left[0].node.Name
		return fmt.Sprintf("waits for %s on %s, where the rest of what it asks for is: it is only on %s", want, listed(nodesOf(left)), listed(nodesOf(elsewhere))),
			"Set it there: " + f.setResource(x.ID, x.Amount, "--node "+here)
	}
	if len(shut) > 0 {
		return fmt.Sprintf("waits for %s: %s", want, shutWords(shut, "with it")), unbar(shut, "set it on another one")
	}
	for _, n := range e.nodes {
		own := n.Own[x.ID]
		if own == nil || own.V.NodeSession == n.Session() {
			continue
		}
		if n.Alive.V == nil {
			return fmt.Sprintf("waits for %s, which was set on %s, and that is not alive", want, n.Name),
				"Set it on another node: " + f.setResource(x.ID, x.Amount, "--node "+left[0].node.Name)
		}
		return fmt.Sprintf("waits for %s, which was set in a former session of %s, and is void since", want, n.Name),
			"Set it again: " + f.setResource(x.ID, x.Amount, "--node "+n.Name)
	}
	if c := e.v.Everywhere[x.ID]; c != nil {
		return fmt.Sprintf("waits for %s, which is on the nodes that a selector picks, and none of them takes anything at present", want),
			"Look at escher resources, and set it elsewhere."
	}
	create := func() string { return f.setResource(x.ID, x.Amount, "--node "+left[0].node.Name) }
	given := e.providers(x.ID)
	others := slices.DeleteFunc(slices.Clone(given), func(p Provider) bool { return p.ID == e.self })
	switch {
	case len(others) > 0 && others[0].Phase == types.Pending && slices.Contains(others[0].waits, e.self):
		return fmt.Sprintf("waits for %s, which %s is to provide, and that waits for it", want, others[0].ID),
			"Each waits for the other, for ever. To break the circle: " + create()
	case len(others) > 0:
		return e.provided(f.ns, want, others)
	case len(given) > 0:
		return fmt.Sprintf("waits for %s, which nothing but itself is to provide", want),
			"It waits for itself, for ever, unless somebody creates it: " + create()
	}
	return fmt.Sprintf("waits for %s: there is no %s anywhere", want, name), "Somebody has to create it: " + create()
}

// provided: tasks should provide the missing resource, or should have.
func (e *explainer) provided(ns, want string, given []Provider) (clause, suggestion string) {
	p := given[0]
	why := "See why: escher why " + p.ID
	switch {
	case p.Phase == types.Pending:
		return fmt.Sprintf("waits for %s, which %s is to provide, and that waits itself", want, p.ID), why
	case !p.Phase.Ended() && p.When == types.WhenSucceeded:
		return fmt.Sprintf("waits for %s, which %s provides when it has succeeded: it is %s on %s", want, p.ID, p.Phase, p.Node), "See how far that is: escher why " + p.ID
	case !p.Phase.Ended():
		return fmt.Sprintf("waits for %s, which %s provides when it runs: it is %s on %s", want, p.ID, p.Phase, p.Node), why
	case p.When != types.WhenSucceeded:
		return fmt.Sprintf("waits for %s, which %s provided while it ran: it has ended", want, p.ID), "Run it again, or " + lower(createIt)
	case p.Phase == types.Succeeded:
		return fmt.Sprintf("waits for %s, which %s left behind on %s, and which is gone: it was removed, or the node's session ended", want, p.ID, p.Node),
			"Run it again, or " + lower(createIt)
	}
	return fmt.Sprintf("waits for %s, which %s was to provide when it had succeeded: it %s", want, p.ID, p.Phase), why + "; then run it again."
}

const createIt = "Create it yourself: escher set-resource --help"

// tooLow: an ephemeral resource exists, but its capacity is permanently too low.
func (e *explainer) tooLow(f *finding, open []candidate) (clause, suggestion string) {
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
		return fmt.Sprintf("cannot run as long as reservation %s is as it is: it asks for %s, and that holds %s %s", reservation, want, l.capacity.Format(l.ID), at),
			fmt.Sprintf("Ask for at most %s, or make the reservation anew with a larger bundle: escher unreserve %s", amountOf(f.ns, l.ID, l.capacity), reservation)
	}
	set := f.setResource(l.ID, l.Amount, e.flagFor(c.node, l.ID))
	if l.capacity == 0 {
		return fmt.Sprintf("waits for %s, whose capacity is 0 on %s: it is closed", want, listed(nodesOf(open))), "Open it: " + set
	}
	return fmt.Sprintf("waits for %s, and its capacity is %s %s", want, l.capacity.Format(l.ID), at), "Ask for less, or raise it: " + set
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
func (f *finding) reserve(id cluster.ID, base string, x cluster.Need) string {
	f.unmet = ref(f.ns, id)
	return fmt.Sprintf("Reserve it: escher reserve %s --bundle %s=%s", id.ID, base, x.Amount.Format(x.ID))
}

// setResource returns the command that sets a resource, and records that as unmet.
func (f *finding) setResource(rid types.ResourceID, q types.Quantity, where string) string {
	f.unmet = nameOf(f.ns, rid)
	text := fmt.Sprintf("escher set-resource %s %s %s", f.unmet, q.Format(rid), where)
	if of, name, _ := rid.Split(); of != f.ns {
		text = fmt.Sprintf("escher set-resource %s %s %s --namespace %s", name, q.Format(rid), where, of)
	}
	return text
}

func lower(text string) string { return strings.ToLower(text[:1]) + text[1:] }
