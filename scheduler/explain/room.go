package explain

import (
	"fmt"
	"slices"
	"strings"

	"github.com/escher-sched/escher/controlplane/cluster"
	"github.com/escher-sched/escher/controlplane/match"
	"github.com/escher-sched/escher/controlplane/quotas"
	"github.com/escher-sched/escher/controlplane/why"
	"github.com/escher-sched/escher/types"
	"github.com/escher-sched/escher/types/action"
	"github.com/escher-sched/escher/types/words"
)

// never says why no registered node is large enough, and gives a remedy.
func (e *explainer) never(f *finding) why.Reason {
	placed := filtered(f.tooSmall, func(c *candidate) bool { return !astray(c) })
	if len(placed) == 0 {
		return e.nowhere(f)
	}
	where := ""
	if len(placed) < len(f.tooSmall) {
		where = " where it has to be"
	}
	for _, x := range f.needs {
		if !x.ID.Physical() || x.ID.IsPlacement() {
			continue
		}
		if len(filtered(placed, func(c *candidate) bool { _, lacks := c.lacking(x.ID); return !lacks })) > 0 {
			continue
		}
		return e.tooMuch(f, x, placed, where)
	}
	var wants []string
	for _, x := range f.needs {
		if x.ID.Physical() && !x.ID.IsPlacement() {
			wants = append(wants, wantOf(f.ns, x))
		}
	}
	near := placed[0]
	l := near.lacks[0]
	return because(why.NodesTooSmall, fmt.Sprintf("no node%s has %s together: %s comes closest, and has %s", where, list(wants), near.node.Name, hasOf(f.ns, l)),
		types.Textf("Ask for less %s or less of the rest, or add a larger node.", why.NameOf(f.ns, l.ID)))
}

func astray(c *candidate) bool {
	for _, l := range c.lacks {
		if l.ID.IsPlacement() {
			return true
		}
	}
	return false
}

func hasOf(ns string, l lack) string {
	if l.capacity == 0 {
		return "no " + why.NameOf(ns, l.ID)
	}
	return why.AmountOf(ns, l.ID, l.capacity) + which(l.Need)
}

// nowhere: no node is in the required place.
func (e *explainer) nowhere(f *finding) why.Reason {
	var places []string
	for _, x := range f.needs {
		if !x.ID.IsPlacement() {
			continue
		}
		places = append(places, why.NameOf("", x.ID))
		if len(filtered(f.tooSmall, func(c *candidate) bool { _, lacks := c.lacking(x.ID); return !lacks })) > 0 {
			continue
		}
		if name, ok := strings.CutPrefix(string(x.ID), "node/"); ok {
			return because(why.NoSuchPlace, fmt.Sprintf("node %s is not registered", name),
				types.Textf("Ask for one that is registered (%s), or start an agent of that name.", action.ListNodes.Of()))
		}
		kind, value, _ := strings.Cut(string(x.ID), "/")
		return because(why.NoSuchPlace, fmt.Sprintf("no node is in %s", why.NameOf("", x.ID)),
			types.Textf("Ask for a %s that a node is in (%s), or give a node the %s.", kind, action.ListNodesFully.Of(), action.LabelNode.Of(kind, value)))
	}
	return because(why.NoSuchPlace, fmt.Sprintf("no node is both in %s", strings.Join(places, " and in ")), types.Textf("Ask for places that one node is in."))
}

// tooMuch: no single node has as much of one resource.
func (e *explainer) tooMuch(f *finding, x cluster.Need, placed []candidate, where string) why.Reason {
	if r, ok := e.noneSuch(f, x, placed, where); ok {
		return r
	}
	if r, ok := notPermitted(x.ID, placed, where); ok {
		return r
	}
	var most types.Quantity
	largest := placed[0].node
	for _, c := range placed {
		if q, _ := e.v.Capacity(c.node, x.ID); q > most {
			most, largest = q, c.node
		}
	}
	name, want := why.NameOf(f.ns, x.ID), wantOf(f.ns, x)
	of := words.Count(len(placed), "node") + where
	if _, fixed := x.ID.FixedPort(); fixed && largest.Info.V != nil {
		return because(why.NodesTooSmall, fmt.Sprintf("it asks for %s, which %s out of its own range", want, plural(len(placed), "the only node gives", "every node gives")),
			types.Textf("Ask for any port, %s, or for a number outside of the range.", action.TaskPort.Of()))
	}
	if most >= x.Amount {
		return because(why.NotWhole, fmt.Sprintf("it asks for %s, and more than one is given out only as a whole number", want),
			types.Textf("Ask for a whole number of %s, or for less than one.", name))
	}
	reason := ""
	switch {
	case most == 0 && len(placed) == 1:
		reason = fmt.Sprintf("it asks for %s, and %s%s has none", want, largest.Name, where)
	case most == 0:
		reason = fmt.Sprintf("it asks for %s, and none of %s has any", want, of)
	case len(placed) == 1:
		reason = fmt.Sprintf("it asks for %s, and %s%s has %s", want, largest.Name, where, most.Format(x.ID))
	default:
		reason = fmt.Sprintf("it asks for %s, and the largest of %s, %s, has %s", want, of, largest.Name, most.Format(x.ID))
	}
	if most == 0 {
		return because(why.NodesTooSmall, reason, types.Textf("Ask for no %s, or add a node that has it.", name))
	}
	return because(why.NodesTooSmall, reason, types.Textf("Ask for at most %s, or add a larger node.", why.AmountOf(f.ns, x.ID, most)))
}

func plural(n int, one, many string) string {
	if n == 1 {
		return one
	}
	return many
}

// shortPool: a cluster-wide resource is short.
func (e *explainer) shortPool(f *finding) why.Reason {
	l := f.pools[0]
	by, unit := e.addedBy(f, l.ID)
	want := why.AmountOf(f.ns, unit, l.Amount)
	clause := ""
	if by != "" {
		clause = fmt.Sprintf("waits for the %s: it needs %s, and %s of %s is free", by, want, l.free.Format(unit), l.capacity.Format(unit))
	} else {
		clause = fmt.Sprintf("waits for %s, of which %s of %s is free in the whole cluster", want, l.free.Format(l.ID), l.capacity.Format(l.ID))
	}
	switch {
	case unit != l.ID && l.capacity < l.Amount:
		return because(why.CapacityLow, clause, types.Textf("Ask for less, or have an administrator allow more: %s", action.RaiseBudget.Of(f.ns, "quota")))
	case l.capacity == 0:
		if by == "" {
			clause = fmt.Sprintf("waits for %s, whose capacity is 0 in the whole cluster: it is closed", want)
		}
		return because(why.Closed, clause, types.Textf("Open it: %s", f.setInCluster(l.ID, l.Amount)))
	case l.capacity < l.Amount:
		return because(why.CapacityLow, clause, types.Textf("Raise it: %s, or ask for less.", f.setInCluster(l.ID, l.Amount)))
	}
	if l.free < 0 {
		clause += ": " + lowered
	}
	r := because(why.PoolInUse, clause, types.Text{})
	if r.Suggestion, r.Awaits = e.remedy(f.ns, e.holdersOfPool(l.ID), l.Amount-l.free); r.Suggestion.IsZero() {
		r.Suggestion = types.Textf("Raise it: %s", f.setInCluster(l.ID, l.capacity.Add(l.Amount-l.free)))
	}
	return r
}

// addedBy names the namespace setting that makes its tasks need rid, and the resource in whose unit it
// counts; empty if there is none.
func (e *explainer) addedBy(f *finding, rid types.ResourceID) (string, types.ResourceID) {
	c := e.v.Namespaces[f.ns]
	if c == nil {
		return "", rid
	}
	for _, q := range c.V.Quotas {
		if q.Pool == rid {
			if !quotas.IsAmount(q) {
				return fmt.Sprintf("quota of namespace %s for %s", f.ns, q.Resource), rid
			}
			return fmt.Sprintf("quota of namespace %s for %s", f.ns, q.Resource), q.Resource
		}
	}
	for _, r := range c.V.Requests {
		if types.Resolve(f.ns, r.Name) == rid {
			return fmt.Sprintf("limit of namespace %s", f.ns), rid
		}
	}
	return "", rid
}

// noRoom: nodes have every requested resource, but too little is free.
func (e *explainer) noRoom(f *finding, open []candidate) why.Reason {
	near := open[0]
	var wants, frees []string
	odd := ""
	for _, l := range near.lacks {
		wants = append(wants, wantOf(f.ns, l.Need))
		frees = append(frees, fmt.Sprintf("%s of %s %s", l.free.Format(l.ID), l.capacity.Format(l.ID), suchOf(l)+why.NameOf(f.ns, l.ID)))
		if text := e.oddity(near.node, l); odd == "" {
			odd = text
		}
	}
	l := near.lacks[0]
	_, fixed := l.ID.FixedPort()
	clause := ""
	switch {
	case fixed && len(near.lacks) == 1:
		clause = fmt.Sprintf("waits for %s, which is in use on %s", wants[0], whereOf(open))
	case len(open) == 1 && len(f.short) > 1:
		clause = fmt.Sprintf("waits for %s on %s, %s: %s %s free there", list(wants), near.node.Name, e.only(f), list(frees), is(len(frees)))
	case len(open) == 1:
		clause = fmt.Sprintf("waits for %s: %s %s free on %s", list(wants), list(frees), is(len(frees)), near.node.Name)
	default:
		clause = fmt.Sprintf("waits for %s: none of %d nodes has that free, and %s is nearest with %s", list(wants), len(open), near.node.Name, list(frees))
	}
	if odd != "" {
		clause += " (" + odd + ")"
	}
	// With partly used devices the blocking holder is ambiguous: take the largest.
	lacking := max(l.Amount-l.free, 1)
	needed, others := e.apart(f, e.holdSuch(near.node, l.Need, e.holdersOn(near.node, l.ID)))
	r := because(why.InUse, clause, types.Text{})
	r.Suggestion, r.Awaits = e.remedy(f.ns, others, lacking)
	switch {
	case len(needed) > 0 && total(others) < lacking:
		h := needed[0]
		r.Suggestion = types.Textf("%s holds %s itself, and gives %s what it waits for: ask for at most %s.", h.NameIn(f.ns),
			why.AmountOf(f.ns, l.ID, h.Quantity), near.node.Name, why.AmountOf(f.ns, l.ID, l.capacity.Minus(total(needed))))
	case !r.Suggestion.IsZero():
	case match.TopologyOf(l.Need) != types.AnyTopology && l.free >= l.Amount:
		r.Suggestion = types.Textf("It continues when devices with that topology are free. Without a topology it takes any.")
	case !l.ID.Physical() && !l.ID.Scoped():
		r.Suggestion = types.Textf("Raise it: %s", e.setLike(f, near.node, l.ID, l.capacity.Add(lacking)))
	case odd != "":
		r.Suggestion = types.Textf("It goes on when that is repaired, or when another node has it free.")
	default:
		r.Suggestion = types.Textf("It goes on when enough of it is free: %s.", action.ListRunning.Of())
	}
	return r
}

// apart separates holders that provide a needed resource from the others: when they end, that
// resource ends too.
func (e *explainer) apart(f *finding, holders []why.Holder) (needed, others []why.Holder) {
	for _, h := range holders {
		t := e.v.Task(cluster.ID{Namespace: h.Namespace, ID: h.ID})
		gives := h.Kind == why.KindTask && t != nil && t.Info.V != nil && slices.ContainsFunc(t.Info.V.Provides, func(p types.Provide) bool {
			rid := types.Resolve(h.Namespace, p.Name)
			return p.When != types.WhenSucceeded && slices.ContainsFunc(f.needs, func(x cluster.Need) bool { return x.ID == rid })
		})
		if gives {
			needed = append(needed, h)
		} else {
			others = append(others, h)
		}
	}
	return needed, others
}

func total(holders []why.Holder) types.Quantity {
	var sum types.Quantity
	for _, h := range holders {
		sum = sum.Add(h.Quantity)
	}
	return sum
}

// only says what makes a node the only one.
func (e *explainer) only(f *finding) string {
	var with []string
	for _, x := range f.needs {
		switch {
		case strings.HasPrefix(string(x.ID), "node/"):
			return "where it has to be"
		case e.v.Pool(x.ID) == nil && len(having(f.short, x)) < len(f.short):
			with = append(with, why.NameOf(f.ns, x.ID))
		}
	}
	if len(with) == 0 {
		return "the only node that is large enough"
	}
	return "the only node with " + list(with)
}

func whereOf(open []candidate) string {
	if len(open) == 1 {
		return open[0].node.Name
	}
	return fmt.Sprintf("all of %d nodes", len(open))
}
