package explain

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/escher-sched/escher/controlplane/cluster"
	"github.com/escher-sched/escher/controlplane/why"
	"github.com/escher-sched/escher/scheduler/queue"
	"github.com/escher-sched/escher/types"
	"github.com/escher-sched/escher/types/action"
	"github.com/escher-sched/escher/types/words"
)

// shapesExplained bounds the shapes of waiting tasks explained per job or node: each costs a pass
// over all nodes.
const shapesExplained = 6

// job explains a job by its tasks.
func (e *explainer) job(id cluster.ID) (why.Explanation, error) {
	e.read.job(id)
	tasks := e.v.Members(id)
	info := e.v.Jobs[id]
	if len(tasks) == 0 && info == nil {
		return why.Explanation{}, types.Errorf(types.NotFound, "explain job %s: there is none in namespace %s: %s", id.ID, id.Namespace, action.ListJobs.Of())
	}
	x := why.Explanation{Kind: why.KindJob, ID: id.ID, Namespace: id.Namespace, Phase: "active"}
	if info == nil {
		x.Phase = "incomplete"
		x.Reason = because(why.Incomplete,
			fmt.Sprintf("It is not submitted in full: %s of it %s there, and none is placed before all are.", words.Count(len(tasks), "task"), is(len(tasks))), submitAgain())
		e.admission(&x)
		return x, nil
	}
	phases := make(map[types.Phase]int)
	for _, t := range tasks {
		e.looks++
		phases[t.Phase()]++
	}
	x.Summary = fmt.Sprintf("Of its %s, %s.", words.Count(info.V.Tasks, "task"), phrases(phases, info.V.Tasks-len(tasks)))
	if info.V.Updating {
		x.Summary = fmt.Sprintf("An update of its %s has begun and not finished: %s.", words.Count(info.V.Tasks, "task"), phrases(phases, 0))
	}
	switch held := phases[types.Bound] + phases[types.Running]; {
	case phases[types.Pending] > 0:
		x.Phase = waiting
	case held == 0:
		x.Phase = "ended"
	}
	x.Groups = e.groups(tasks)
	for _, g := range x.Groups {
		x.Infeasible = x.Infeasible || g.Infeasible
	}
	if len(x.Groups) > 0 {
		summary := x.Summary
		x.Reason = x.Groups[0].Reason
		x.Summary = summary
	}
	return x, nil
}

// phrases says how many tasks are in which phase.
func phrases(phases map[types.Phase]int, removed int) string {
	var parts []string
	for _, p := range []struct {
		phase      types.Phase
		one, other string
	}{
		{types.Pending, "waits", "wait"}, {types.Bound, "is being started", "are being started"}, {types.Running, "runs", "run"},
		{types.Succeeded, "has succeeded", "have succeeded"}, {types.Failed, "has failed", "have failed"},
		{types.Cancelled, "was cancelled", "were cancelled"},
	} {
		if n := phases[p.phase]; n > 0 {
			parts = append(parts, fmt.Sprintf("%d %s", n, plural(n, p.one, p.other)))
		}
	}
	if removed > 0 {
		parts = append(parts, fmt.Sprintf("%d %s ended and removed", removed, plural(removed, "has", "have")))
	}
	if len(parts) == 0 {
		return "none is there any more"
	}
	return strings.Join(parts, ", ")
}

// groups says why waiting tasks wait, and how tasks that did not succeed ended.
func (e *explainer) groups(tasks []*cluster.Task) []why.Group {
	type key struct {
		phase types.Phase
		text  string
	}
	found := make(map[key]*why.Group)
	byShape := make(map[string]why.Explanation)
	unexplained := 0
	for _, t := range tasks {
		e.looks++
		x, ok := e.ofGroup(t, byShape)
		switch {
		case !ok && t.Phase() == types.Pending:
			unexplained++
			continue
		case !ok:
			continue
		}
		k := key{t.Phase(), x.Summary}
		g := found[k]
		if g == nil {
			g = &why.Group{Phase: t.Phase(), Reason: x.Reason, Infeasible: x.Infeasible}
			found[k] = g
		}
		g.Count++
		if len(g.Tasks) < few {
			g.Tasks = append(g.Tasks, t.ID.ID)
		}
	}
	var out []why.Group
	for _, g := range found {
		out = append(out, *g)
	}
	if unexplained > 0 {
		out = append(out, why.Group{Phase: types.Pending, Reason: why.Reason{Summary: "They ask for other things still."}, Count: unexplained})
	}
	rank := map[types.Phase]int{types.Pending: -2, types.Failed: -1}
	slices.SortFunc(out, func(a, b why.Group) int {
		return cmp.Or(cmp.Compare(rank[a.Phase], rank[b.Phase]), cmp.Compare(b.Count, a.Count), cmp.Compare(a.Summary, b.Summary))
	})
	return out
}

// ofGroup explains one task of many; false if it needs no explanation, or too many were explained
// already.
func (e *explainer) ofGroup(t *cluster.Task, byShape map[string]why.Explanation) (why.Explanation, bool) {
	switch t.Phase() {
	case types.Failed:
		var x why.Explanation
		x.Reason = ended(t)
		if s := t.Status.V; s.Node != "" {
			// The text is the same for all nodes.
			x.Summary = "It failed" + strings.TrimPrefix(x.Summary, "It failed "+at(s))
		}
		return x, true
	case types.Cancelled:
		if t.Status.V.Reason == "" {
			return why.Explanation{}, false
		}
		var x why.Explanation
		x.Reason = because(why.Cancelled, sentence("It was cancelled", t.Status.V.Reason), types.Text{})
		return x, true
	case types.Pending:
	default:
		return why.Explanation{}, false
	}
	shape := queue.TaskText(t.ID.Namespace, t.Info.V)
	if x, ok := byShape[shape]; ok {
		return x, true
	}
	if len(byShape) == shapesExplained {
		return why.Explanation{}, false
	}
	of := e.within()
	x, err := of.task(t.ID)
	e.looks = of.looks
	byShape[shape] = x
	return x, err == nil
}
