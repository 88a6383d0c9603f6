package explain

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/escher-sched/escher/controlplane/cluster"
	"github.com/escher-sched/escher/controlplane/grants"
	"github.com/escher-sched/escher/controlplane/why"
	"github.com/escher-sched/escher/scheduler/queue"
	"github.com/escher-sched/escher/types"
	"github.com/escher-sched/escher/types/action"
	"github.com/escher-sched/escher/types/words"
)

// node explains a node.
func (e *explainer) node(ns, name string) (why.Explanation, error) {
	n := e.v.Nodes[name]
	if n == nil || n.Info.V == nil {
		return why.Explanation{}, types.Errorf(types.NotFound, "explain node %s: it is not registered: %s", name, action.ListNodes.Of())
	}
	e.read.bound(n)
	e.read.resources()
	x := why.Explanation{Kind: why.KindNode, ID: name, Namespace: ns, Phase: "ready"}
	e.amounts(ns, n, &x)
	switch {
	case n.Alive.V == nil:
		x.Phase = "lost"
		x.Reason = because(why.NodeLost, fmt.Sprintf("It is not alive: nothing is placed on it, and %s there.", e.bound(n, "is", "are")),
			types.Textf("Start its agent again: %s.", action.RestartAgent.Of()))
		return x, nil
	case !n.Eligible():
		x.Phase = "cordoned"
		x.Reason = because(why.NodesIneligible, fmt.Sprintf("It is %s; nothing new is placed on it, and %s.", barredBy(n), e.bound(n, "runs on", "run on")),
			types.Textf("Uncordon it when it may be used again: %s", action.Uncordon.Of(name)))
		return x, nil
	}
	var full []string
	for _, r := range n.Info.V.Capacity {
		rid := types.ResourceID(r.Name)
		if free, _ := e.d.Free(n, rid); free <= 0 && r.Amount > 0 {
			full = append(full, fmt.Sprintf("all %s is in use", why.AmountOf(ns, rid, r.Amount)))
		}
	}
	x.Cause, x.Summary = why.NodeReady, fmt.Sprintf("It takes tasks: %s", e.bound(n, "is there", "are there"))
	if len(full) > 0 {
		x.Cause, x.Summary = why.InUse, fmt.Sprintf("It is full: %s, by %s.", list(full), e.bound(n, "", ""))
	}
	e.refused(ns, n, &x)
	return x, nil
}

// bound says how many tasks a node has.
func (e *explainer) bound(n *cluster.Node, one, many string) string {
	tasks := len(n.Bindings)
	text := words.Count(tasks, "task")
	if tasks == 0 && one != "" {
		text = "no task"
		many = one
	}
	return strings.TrimSpace(text + " " + plural(tasks, one, many))
}

// amounts adds the resources of a node and their holders.
func (e *explainer) amounts(ns string, n *cluster.Node, x *why.Explanation) {
	rids := make(map[types.ResourceID]struct{})
	for _, r := range n.Info.V.Capacity {
		rids[types.ResourceID(r.Name)] = struct{}{}
	}
	n.Has(func(rid types.ResourceID) {
		if of, _, _ := rid.Split(); of == ns {
			rids[rid] = struct{}{}
		}
	})
	for rid := range e.v.Everywhere {
		if of, _, _ := rid.Split(); of == ns && e.v.Pool(rid) == nil {
			rids[rid] = struct{}{}
		}
	}
	for _, rid := range sortedKeys(rids) {
		capacity, ok := e.v.Capacity(n, rid)
		if !ok {
			continue
		}
		free, _ := e.d.Free(n, rid)
		x.Amounts = append(x.Amounts, why.Amount{Resource: rid, Free: free.Format(rid), Capacity: capacity.Format(rid)})
		x.Holders = append(x.Holders, e.holdersOn(n, rid)...)
	}
}

// refused says why waiting tasks are not placed on a node.
func (e *explainer) refused(ns string, n *cluster.Node, x *why.Explanation) {
	if !e.read.waiting() {
		return
	}
	reasons := make(map[string]*why.Group)
	shapes := make(map[string]string)
	waits := 0
	for t := range e.v.Tasks() {
		e.looks++
		if t.Phase() != types.Pending || !e.v.Visible(t) || t.Info.V.Stop != nil {
			continue
		}
		waits++
		shape := queue.TaskText(t.ID.Namespace, t.Info.V)
		reason, ok := shapes[shape]
		if !ok {
			reason = e.refusal(n, t)
			shapes[shape] = reason
		}
		g := reasons[reason]
		if g == nil {
			g = &why.Group{Phase: types.Pending, Reason: why.Reason{Summary: reason}}
			reasons[reason] = g
		}
		g.Count++
		g.Tasks = append(g.Tasks, why.Ref(ns, t.ID))
	}
	for _, reason := range sortedKeys(reasons) {
		g := reasons[reason]
		slices.Sort(g.Tasks)
		g.Tasks = g.Tasks[:min(few, len(g.Tasks))]
		x.Groups = append(x.Groups, *g)
	}
	slices.SortStableFunc(x.Groups, func(a, b why.Group) int { return b.Count - a.Count })
	switch {
	case waits == 0:
		x.Summary += " Nothing waits."
	default:
		x.Summary += fmt.Sprintf(" %s for what it does not have free.", plural(waits, "1 task waits", fmt.Sprintf("%d tasks wait", waits)))
		x.Suggestion = types.Textf("See why one waits: %s", explained(ns, firstWaiting(x.Groups, ns)))
	}
}

func firstWaiting(groups []why.Group, ns string) cluster.ID {
	name := groups[0].Tasks[0]
	if of, id, ok := strings.Cut(name, "/"); ok {
		return cluster.ID{Namespace: of, ID: id}
	}
	return cluster.ID{Namespace: ns, ID: name}
}

// refusal says what a task lacks on a node, by its first alternative.
func (e *explainer) refusal(n *cluster.Node, t *cluster.Task) string {
	first := ""
	for _, needs := range grants.Vectors(e.v, t) {
		e.looks++
		reason := rejection(t.ID.Namespace, e.candidate(n, needs))
		if rid, short := e.d.PoolShort(needs); short && reason == "" {
			reason = "short of " + why.NameOf(t.ID.Namespace, rid) + " in the whole cluster"
		}
		if reason == "" {
			return "would fit"
		}
		first = cmp.Or(first, reason)
	}
	return first
}
