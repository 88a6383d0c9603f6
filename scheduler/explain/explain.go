// Package explain says why a task, job, reservation or node is in its state, above all why it waits,
// and predicts where tasks would be placed. It asks the draft and the matcher of the scheduler, and
// stores nothing.
package explain

import (
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/escher-sched/escher/controlplane/cluster"
	"github.com/escher-sched/escher/scheduler"
	"github.com/escher-sched/escher/types"
)

// Explanation says why an object is in its state, above all why it waits. The predicates of
// Schedule compute it from a view; it is never stored.
type Explanation struct {
	// Kind is the kind of the object: task, job, reservation or node.
	Kind Kind   `json:"kind"`
	ID   string `json:"id"`
	// Namespace is the namespace of the object. For a node, it is the one that names are relative
	// to.
	Namespace string `json:"namespace"`
	// Phase is the phase of a task; waiting, accumulating, granted or releasing for a reservation;
	// incomplete, waiting, active or ended for a job; ready, cordoned or lost for a node.
	Phase string `json:"phase"`
	// Summary is one sentence.
	Summary string `json:"summary"`
	// Suggestion is a remedy, if there is one.
	Suggestion string `json:"suggestion,omitempty"`
	// Unmet is the resource or reservation that Suggestion sets or reserves, by the name that the
	// namespace knows it by; empty if it suggests something else.
	Unmet string `json:"unmet,omitempty"`
	// Infeasible reports whether it can never be placed, whatever ends.
	Infeasible bool `json:"infeasible,omitempty"`
	// Notes are further facts, a sentence each.
	Notes []string `json:"notes,omitempty"`
	// Vectors explain the request vectors: one for each alternative of a task; for a reservation,
	// the first bundle without capacity.
	Vectors []VectorExplanation `json:"vectors,omitempty"`
	// Holders hold the capacity it waits for, on the nearest nodes and in pools; for a node, all
	// that is allocated there.
	Holders []Holder `json:"holders,omitempty"`
	// Providers are the tasks that provide, or should provide, the resources it waits for.
	Providers []Provider `json:"providers,omitempty"`
	// Queue is its position in the queue; nil if it does not wait, or waits without prospect.
	Queue *Queue `json:"queue,omitempty"`
	// Groups are the tasks of a job, or those that wait for a node, grouped by explanation, the
	// largest group first.
	Groups []Group `json:"groups,omitempty"`
	// Amounts are the capacities of a node.
	Amounts []Amount `json:"amounts,omitempty"`
}

// Kind is the kind of object that an Explanation covers.
type Kind string

// The kinds.
const (
	KindTask        Kind = "task"
	KindJob         Kind = "job"
	KindReservation Kind = "reservation"
	KindNode        Kind = "node"
)

// VectorExplanation says why one request vector fits nowhere.
type VectorExplanation struct {
	Requests types.Requests `json:"requests"`
	// Devices restrict the devices of the requests.
	Devices []types.DeviceRequest `json:"devices,omitempty"`
	// Summary is one sentence about this vector alone.
	Summary string `json:"summary"`
	// AllowedAt is when the alternative becomes allowed, if that is in the future.
	AllowedAt *time.Time `json:"allowedAt,omitempty"`
	// Pools are the cluster-wide resources it lacks.
	Pools []Missing `json:"pools,omitempty"`
	// Fits are the nodes where it fits now.
	Fits []string `json:"fits,omitempty"`
	// Barred are the nodes where it would fit if they were alive and not cordoned.
	Barred []string `json:"barred,omitempty"`
	// Rejected are the nodes by reason, the most frequent first.
	Rejected []Rejection `json:"rejected,omitempty"`
	// Nearest are the nodes that lack least, at most three.
	Nearest []Nearest `json:"nearest,omitempty"`
	// Infeasible reports whether no registered node, including dead and cordoned ones, is large
	// enough. Nearest are then the closest.
	Infeasible bool `json:"infeasible,omitempty"`
}

// Missing is a resource with too little capacity.
type Missing struct {
	Resource types.ResourceID `json:"resource"`
	// Want, Free and Capacity are empty for a placement, which is not counted.
	Want     string `json:"want,omitempty"`
	Free     string `json:"free,omitempty"`
	Capacity string `json:"capacity,omitempty"`
	// Which describes the required devices. Free and Capacity then count only those.
	Which string `json:"which,omitempty"`
	// Absent reports whether the resource does not exist there.
	Absent bool `json:"absent,omitempty"`
	// Reason adds what the amounts do not say.
	Reason string `json:"reason,omitempty"`
}

// Rejection is a reason with its nodes.
type Rejection struct {
	Reason string   `json:"reason"`
	Nodes  []string `json:"nodes"`
}

// Nearest is a node with everything that it lacks.
type Nearest struct {
	Node    string    `json:"node"`
	Missing []Missing `json:"missing"`
}

// Holder is a task or reservation that holds something.
type Holder struct {
	// Kind is KindTask or KindReservation. A task of phase accumulating waits, and has collected
	// the amount.
	Kind      Kind             `json:"kind"`
	ID        string           `json:"id"`
	Namespace string           `json:"namespace"`
	Resource  types.ResourceID `json:"resource"`
	Amount    string           `json:"amount"`
	// Node is the node; empty for a cluster-wide resource.
	Node string `json:"node,omitempty"`
	// Devices are the devices, or the port numbers, that make up the amount.
	Devices  []string `json:"devices,omitempty"`
	Priority int      `json:"priority,omitempty"`
	// Phase is the phase of the task or grant.
	Phase string `json:"phase"`
	// EndsBy is when it ends at the latest, if known.
	EndsBy *time.Time `json:"endsBy,omitempty"`
	// Leaving is stopped or evicted for a task that was told to end.
	Leaving string `json:"leaving,omitempty"`

	amount types.Quantity
	left   time.Duration // until EndsBy
	grant  bool          // held by a grant
}

// Provider is a task that provides a resource on its node, or should.
type Provider struct {
	ID       string           `json:"id"`
	Resource types.ResourceID `json:"resource"`
	Amount   string           `json:"amount"`
	When     types.When       `json:"when"`
	Phase    types.Phase      `json:"phase"`
	Node     string           `json:"node,omitempty"`
	// Why is the state of the task, or why it waits.
	Why string `json:"why"`

	// waits are the tasks that should provide what this task itself waits for.
	waits []string
}

// Queue is a position in the queue. Entries ahead with other requests do not block it: they are
// only tried first.
type Queue struct {
	// Ahead is the number of tasks and reservations tried first.
	Ahead int `json:"ahead"`
	// Same is how many of them have the same request; First are the ids of a few.
	Same  int      `json:"same"`
	First []string `json:"first,omitempty"`
}

// Group is a set of tasks with the same explanation.
type Group struct {
	Phase      types.Phase `json:"phase"`
	Summary    string      `json:"summary"`
	Suggestion string      `json:"suggestion,omitempty"`
	Unmet      string      `json:"unmet,omitempty"`
	Infeasible bool        `json:"infeasible,omitempty"`
	Count      int         `json:"count"`
	// Tasks are the ids of a few.
	Tasks []string `json:"tasks"`
}

// Amount is the amount of a resource.
type Amount struct {
	Resource types.ResourceID `json:"resource"`
	Free     string           `json:"free"`
	Capacity string           `json:"capacity"`
}

// few bounds the names given of many.
const few = 8

// explainer explains one state.
type explainer struct {
	v   *cluster.View
	d   *scheduler.Draft
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
	given map[types.ResourceID][]Provider
	// looks counts the nodes, tasks, bindings and grants visited.
	looks int
}

func newExplainer(v *cluster.View, now time.Time) *explainer {
	return explainerIn(v, scheduler.NewDraft(v), now)
}

// explainerIn explains a state as a draft leaves it.
func explainerIn(v *cluster.View, d *scheduler.Draft, now time.Time) *explainer {
	return &explainer{v: v, d: d, now: now, nodes: sortedNodes(v), given: make(map[types.ResourceID][]Provider)}
}

// Explain says why the task id is in its state. NotFound: there is no such task.
func Explain(v *cluster.View, id cluster.ID, now time.Time) (Explanation, error) {
	return newExplainer(v, now).task(id)
}

// ExplainReservation says why the reservation id is granted or not. NotFound: there is none.
func ExplainReservation(v *cluster.View, id cluster.ID, now time.Time) (Explanation, error) {
	return newExplainer(v, now).reservation(id)
}

// ExplainJob says how far the tasks of a job are, and why its waiting tasks wait. NotFound: there
// is no such job.
func ExplainJob(v *cluster.View, id cluster.ID, now time.Time) (Explanation, error) {
	return newExplainer(v, now).job(id)
}

// ExplainNode says which tasks a node takes, or why it takes none. Names are relative to namespace
// ns. NotFound: there is no such node.
func ExplainNode(v *cluster.View, ns, name string, now time.Time) (Explanation, error) {
	return newExplainer(v, now).node(ns, name)
}

// within returns an explainer for a part of the explanation of e.
func (e *explainer) within() *explainer {
	of := *e
	of.inner, of.given = true, make(map[types.ResourceID][]Provider)
	return &of
}

// sortedNodes returns the registered nodes by name.
func sortedNodes(v *cluster.View) []*cluster.Node {
	out := slices.DeleteFunc(slices.Collect(maps.Values(v.Nodes)), func(n *cluster.Node) bool { return n.Info.V == nil })
	slices.SortFunc(out, func(a, b *cluster.Node) int { return strings.Compare(a.Name, b.Name) })
	return out
}
