package scheduler

import (
	"fmt"
	"strings"
	"time"

	"github.com/escher-sched/escher/controlplane/cluster"
	"github.com/escher-sched/escher/types"
)

// summarise makes one sentence and one suggestion of what was found.
func summarise(v *cluster.View, t *cluster.Task, now time.Time, e *Explanation) {
	best := &e.Vectors[0]
	for i := range e.Vectors {
		x := &e.Vectors[i]
		if len(x.Fits) > 0 && len(x.Pools) == 0 || len(best.Infeasible) > 0 && len(x.Infeasible) == 0 {
			best = x
			break
		}
	}
	again := ""
	if s := t.Status.V; s != nil && s.Reason != "" {
		again = fmt.Sprintf(" Attempt %d ended: %s.", s.Attempt, s.Reason)
	}
	e.Summary, e.Suggestion = sentence(v, t.ID.Namespace, best, now, e)
	e.Summary += again
}

// sentence puts the first of these that holds: nothing to run on; infeasible; a pool
// is short; it fits; a resource is nowhere; what most nodes lack.
func sentence(v *cluster.View, ns string, x *VectorExplanation, now time.Time, e *Explanation) (summary, suggestion string) {
	switch {
	case len(sortedNodes(v)) == 0:
		return "It waits: no node is registered.", "Start an agent: escher dev, or escher agent on each machine."
	case e.Infeasible:
		return infeasibleSentence(ns, x.Infeasible)
	case len(x.Pools) > 0:
		m := x.Pools[0]
		return fmt.Sprintf("It waits for %s of the cluster-wide %s: %s is free of %s.", m.Want, m.Resource.In(ns), m.Free, m.Capacity),
			fmt.Sprintf("It goes on when holders of %s end, or when its capacity is raised: escher set-resource %s … --cluster", m.Resource.In(ns), m.Resource.In(ns))
	case len(x.Fits) > 0 && x.AllowedAt != nil:
		return fmt.Sprintf("It would fit on %s by an alternative that is allowed in %s.", x.Fits[0], x.AllowedAt.Sub(now).Round(time.Second)), ""
	case len(x.Fits) > 0:
		return fmt.Sprintf("It fits on %s, and is about to be bound.", x.Fits[0]),
			"If it stays so, no scheduler is running: look at escher dev, or at the schedulers' logs."
	}
	if m, ok := nowhere(v, x); ok {
		return nowhereSentence(v, ns, m)
	}
	return lackSentence(ns, x)
}

func infeasibleSentence(ns string, lacks []Missing) (summary, suggestion string) {
	m := lacks[0]
	if node, ok := strings.CutPrefix(string(m.Resource), "node/"); ok {
		return fmt.Sprintf("It can never run: node %s is not registered.", node),
			"Ask for a node that escher nodes lists, or start an agent of that name."
	}
	if m.Resource.IsPlacement() {
		return fmt.Sprintf("It can never run: no node is %s.", m.Resource), "Label a node so, or ask for another place."
	}
	return fmt.Sprintf("It can never run: it asks for %s %s, more than any registered node has together with the rest of what it asks for (the closest has %s).", m.Want, m.Resource.In(ns), m.Capacity),
		fmt.Sprintf("Ask for less %s, or add a larger node.", m.Resource.In(ns))
}

// nowhere returns an ephemeral or scoped resource that every eligible node lacks
// altogether.
func nowhere(v *cluster.View, x *VectorExplanation) (Missing, bool) {
	counts := make(map[types.ResourceID]int)
	eligible := 0
	for _, n := range sortedNodes(v) {
		if n.Eligible() {
			eligible++
		}
	}
	for _, near := range x.Nearest {
		for _, m := range near.Missing {
			if m.Absent && !m.Resource.Physical() {
				counts[m.Resource]++
			}
		}
	}
	for _, near := range x.Nearest {
		for _, m := range near.Missing {
			if counts[m.Resource] == min(eligible, len(x.Nearest)) {
				return m, true
			}
		}
	}
	return Missing{}, false
}

func nowhereSentence(v *cluster.View, ns string, m Missing) (summary, suggestion string) {
	name := m.Resource.In(ns)
	if m.Resource.Scoped() {
		_, _, reservation := m.Resource.Split()
		r := v.Reservations[cluster.ID{Namespace: ns, ID: reservation}]
		switch {
		case r == nil || r.Info.V == nil:
			return fmt.Sprintf("It waits for %s: there is no reservation %s.", name, reservation), fmt.Sprintf("Reserve it: escher reserve %s …", reservation)
		case r.Grant.V == nil:
			return fmt.Sprintf("It waits for %s: reservation %s is not granted yet.", name, reservation), fmt.Sprintf("See why: escher why %s", reservation)
		case r.Grant.V.Phase != types.Granted:
			return fmt.Sprintf("It waits for %s: the grant of reservation %s is %s.", name, reservation, r.Grant.V.Phase), fmt.Sprintf("See why: escher why %s", reservation)
		}
		return fmt.Sprintf("It waits for %s: reservation %s holds none of it on an eligible node.", name, reservation), "Ask for what the reservation holds: escher describe"
	}
	if by := providersOf(v, ns, name); by != "" {
		return fmt.Sprintf("It waits for %s, which %s is to provide.", name, by), fmt.Sprintf("See what that waits for: escher why %s", by)
	}
	return fmt.Sprintf("It waits for %s, which exists on no node that can take it.", name),
		fmt.Sprintf("Somebody has to create it: escher set-resource %s 1 …, or a task that provides it.", name)
}

// providersOf returns a pending or bound task that is to provide a resource.
func providersOf(v *cluster.View, ns, name string) string {
	best := ""
	for id, t := range v.Tasks {
		if id.Namespace != ns || t.Info.V == nil || t.Phase().Ended() {
			continue
		}
		for _, p := range t.Info.V.Provides {
			if p.Name == name && (best == "" || id.ID < best) {
				best = id.ID
			}
		}
	}
	return best
}

func lackSentence(ns string, x *VectorExplanation) (summary, suggestion string) {
	if len(x.Nearest) == 0 {
		return fmt.Sprintf("It waits: no node is eligible (%s).", counted(x.Rejected)), "Look at escher nodes: start agents again, or uncordon nodes."
	}
	near := x.Nearest[0]
	var parts []string
	for _, m := range near.Missing {
		parts = append(parts, fmt.Sprintf("%s %s (%s free of %s)", m.Want, m.Resource.In(ns), m.Free, m.Capacity))
	}
	return fmt.Sprintf("It waits for room: %s; node %s is nearest and lacks %s.", counted(x.Rejected), near.Node, strings.Join(parts, ", ")),
		"It is placed as soon as enough ends; escher ps shows what runs."
}

// counted puts rejections as "9 nodes short of gpu, 3 cordoned".
func counted(rejected []Rejection) string {
	var parts []string
	for _, r := range rejected {
		noun := "nodes"
		if len(r.Nodes) == 1 {
			noun = "node"
		}
		parts = append(parts, fmt.Sprintf("%d %s %s", len(r.Nodes), noun, r.Reason))
	}
	return strings.Join(parts, ", ")
}

// Lines renders the explanation for people: the sentence, the suggestion, then the
// details.
func (e Explanation) Lines() []string {
	out := []string{e.Summary}
	if e.Suggestion != "" {
		out = append(out, "→ "+e.Suggestion)
	}
	for i, x := range e.Vectors {
		if len(e.Vectors) > 1 {
			out = append(out, fmt.Sprintf("alternative %d:", i+1))
		}
		for _, r := range x.Rejected {
			out = append(out, fmt.Sprintf("  %d × %s: %s", len(r.Nodes), r.Reason, strings.Join(firstFew(r.Nodes), " ")))
		}
		for _, n := range x.Nearest {
			for _, m := range n.Missing {
				out = append(out, fmt.Sprintf("  nearest %s: %s wanted %s, free %s of %s", n.Node, m.Resource.In(e.Namespace), m.Want, m.Free, m.Capacity))
			}
		}
	}
	if e.Phase == types.Pending && len(e.Vectors) > 0 {
		out = append(out, fmt.Sprintf("  %d before it in the queue", e.Ahead))
	}
	return out
}

func firstFew(names []string) []string {
	const few = 8
	if len(names) <= few {
		return names
	}
	return append(append([]string(nil), names[:few]...), "…")
}
