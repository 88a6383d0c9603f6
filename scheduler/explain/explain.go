// Package explain says why a task, job, reservation or node is in its state, above all why it waits,
// and predicts where tasks would be placed. It asks the draft and the matcher of the scheduler, and
// stores nothing.
package explain

import (
	"slices"
	"strings"
	"time"

	"github.com/escher-sched/escher/controlplane"
	"github.com/escher-sched/escher/controlplane/cluster"
	"github.com/escher-sched/escher/controlplane/why"
	"github.com/escher-sched/escher/scheduler/draft"
	"github.com/escher-sched/escher/types"
)

// few bounds the names given of many.
const few = 8

// explainer explains one state.
type explainer struct {
	v   *cluster.View
	d   *draft.Draft
	now time.Time
	// nodes are the registered nodes, by name.
	nodes []*cluster.Node
	// read reads what is needed; nil means a complete view.
	read *reader
	// inner reports whether the explanation is part of another one, and so is brief.
	inner bool
	// self is the explained task, if any.
	self string
	// planned are hypothetical tasks: they cannot be stopped.
	planned map[cluster.ID]bool
	// kin is the job of the explained object, if any.
	kin string
	// given caches the results of providers.
	given map[types.ResourceID][]why.Provider
	// awaited caches the explanations of reservations that explained tasks wait for.
	awaited map[cluster.ID]*why.Explanation
	// looks counts the nodes, tasks, bindings and grants visited.
	looks int
}

func newExplainer(v *cluster.View, now time.Time) *explainer {
	return explainerIn(v, draft.New(v, controlplane.Limits{}, 1), now)
}

// explainerIn explains a state as a draft leaves it.
func explainerIn(v *cluster.View, d *draft.Draft, now time.Time) *explainer {
	return &explainer{v: v, d: d, now: now, nodes: sortedNodes(v), given: make(map[types.ResourceID][]why.Provider), awaited: make(map[cluster.ID]*why.Explanation)}
}

// Explain says why the task id is in its state. NotFound: there is no such task.
func Explain(v *cluster.View, id cluster.ID, now time.Time) (why.Explanation, error) {
	return newExplainer(v, now).subject(Subject{Kind: why.KindTask, Namespace: id.Namespace, ID: id.ID})
}

// ExplainReservation says why the reservation id is granted or not. NotFound: there is none.
func ExplainReservation(v *cluster.View, id cluster.ID, now time.Time) (why.Explanation, error) {
	return newExplainer(v, now).reservation(id)
}

// ExplainJob says how far the tasks of a job are, and why its waiting tasks wait. NotFound: there
// is no such job.
func ExplainJob(v *cluster.View, id cluster.ID, now time.Time) (why.Explanation, error) {
	return newExplainer(v, now).subject(Subject{Kind: why.KindJob, Namespace: id.Namespace, ID: id.ID})
}

// ExplainNode says which tasks a node takes, or why it takes none. Names are relative to namespace
// ns. NotFound: there is no such node.
func ExplainNode(v *cluster.View, ns, name string, now time.Time) (why.Explanation, error) {
	return newExplainer(v, now).node(ns, name)
}

// within returns an explainer for a part of the explanation of e.
func (e *explainer) within() *explainer {
	of := *e
	of.inner, of.given = true, make(map[types.ResourceID][]why.Provider)
	return &of
}

// sortedNodes returns the registered nodes by name. Most views heard of them in this order: then a list by arrival
// is sorted.
func sortedNodes(v *cluster.View) []*cluster.Node {
	out := make([]*cluster.Node, len(v.Nodes))
	for _, n := range v.Nodes {
		out[n.Serial] = n
	}
	out = slices.DeleteFunc(out, func(n *cluster.Node) bool { return n.Info.V == nil })
	slices.SortFunc(out, func(a, b *cluster.Node) int { return strings.Compare(a.Name, b.Name) })
	return out
}
