package scheduler

import (
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/escher-sched/escher/controlplane"
	"github.com/escher-sched/escher/controlplane/cluster"
	"github.com/escher-sched/escher/types"
)

// Explanation says why something is where it is, above all why it waits. It is
// computed from a view by the predicates that Schedule decides with; nothing of it
// is stored.
type Explanation struct {
	// Kind is what is explained: task, job, reservation or node.
	Kind Kind   `json:"kind"`
	ID   string `json:"id"`
	// Namespace is where it is; of a node, the one that names are as seen from.
	Namespace string `json:"namespace"`
	// Phase is the phase of a task; waiting, accumulating, granted or releasing of
	// a reservation; incomplete, waiting, active or ended of a job; ready, cordoned
	// or lost of a node.
	Phase string `json:"phase"`
	// Summary is one sentence.
	Summary string `json:"summary"`
	// Suggestion says what to do about it, if anything.
	Suggestion string `json:"suggestion,omitempty"`
	// Unmet is the resource or reservation that Suggestion sets or reserves, by the name that the
	// namespace knows it by; empty if it suggests something else.
	Unmet string `json:"unmet,omitempty"`
	// Infeasible tells that it can never be placed, whatever ends.
	Infeasible bool `json:"infeasible,omitempty"`
	// Notes are further facts, a sentence each.
	Notes []string `json:"notes,omitempty"`
	// Vectors explain the request vectors: one for each alternative of a task; of
	// a reservation, the first bundle without room.
	Vectors []VectorExplanation `json:"vectors,omitempty"`
	// Holders have what it waits for, on the nodes that are nearest and of the
	// cluster-wide resources; of a node, what is in use there.
	Holders []Holder `json:"holders,omitempty"`
	// Providers are the tasks that give what it waits for, or were to.
	Providers []Provider `json:"providers,omitempty"`
	// Queue is its place among what waits; nil of what does not, or in vain.
	Queue *Queue `json:"queue,omitempty"`
	// Groups are the tasks of a job, or those that wait for a node, by what is to
	// be said of them, the most frequent first.
	Groups []Group `json:"groups,omitempty"`
	// Amounts are what a node has.
	Amounts []Amount `json:"amounts,omitempty"`
}

// Kind is what an Explanation is about.
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
	// Devices say which devices they are to be made up of.
	Devices []types.DeviceRequest `json:"devices,omitempty"`
	// Summary is one sentence about this vector alone.
	Summary string `json:"summary"`
	// AllowedAt is when the alternative may be taken, if that is yet to come.
	AllowedAt *time.Time `json:"allowedAt,omitempty"`
	// Pools are cluster-wide resources of which there is not enough.
	Pools []Missing `json:"pools,omitempty"`
	// Fits are nodes that would take it now.
	Fits []string `json:"fits,omitempty"`
	// Barred are nodes that would take it if they were alive and not cordoned.
	Barred []string `json:"barred,omitempty"`
	// Rejected are the nodes by reason, the most frequent first.
	Rejected []Rejection `json:"rejected,omitempty"`
	// Nearest are the nodes that lack least, at most three.
	Nearest []Nearest `json:"nearest,omitempty"`
	// Infeasible tells that no registered node is large enough, the dead and
	// cordoned ones included: Nearest are then those that come closest.
	Infeasible bool `json:"infeasible,omitempty"`
}

// Missing is a resource of which there is not enough.
type Missing struct {
	Resource types.ResourceID `json:"resource"`
	// Want, Free and Capacity are empty of a place, which is not counted.
	Want     string `json:"want,omitempty"`
	Free     string `json:"free,omitempty"`
	Capacity string `json:"capacity,omitempty"`
	// Which says in words which devices will do: of such alone Free and Capacity are.
	Which string `json:"which,omitempty"`
	// Absent tells that the resource does not exist there.
	Absent bool `json:"absent,omitempty"`
	// Reason says more, where the amounts do not say it.
	Reason string `json:"reason,omitempty"`
}

// Rejection is a reason with the nodes that it holds for.
type Rejection struct {
	Reason string   `json:"reason"`
	Nodes  []string `json:"nodes"`
}

// Nearest is a node with all that it lacks.
type Nearest struct {
	Node    string    `json:"node"`
	Missing []Missing `json:"missing"`
}

// Holder is a task or reservation that holds something.
type Holder struct {
	// Kind is KindTask or KindReservation. A task of phase accumulating waits, and has
	// collected it.
	Kind      Kind             `json:"kind"`
	ID        string           `json:"id"`
	Namespace string           `json:"namespace"`
	Resource  types.ResourceID `json:"resource"`
	Amount    string           `json:"amount"`
	// Node is where; empty for a cluster-wide resource.
	Node string `json:"node,omitempty"`
	// Devices are the devices, or the numbers of ports, that make up the amount.
	Devices  []string `json:"devices,omitempty"`
	Priority int      `json:"priority,omitempty"`
	// Phase is that of the task or grant.
	Phase string `json:"phase"`
	// EndsBy is when it ends at the latest, if that is known.
	EndsBy *time.Time `json:"endsBy,omitempty"`
	// Leaving is stopped or evicted, of a task that was told to end.
	Leaving string `json:"leaving,omitempty"`

	amount types.Quantity
	left   time.Duration // until EndsBy
	grant  bool          // it holds it by a grant
}

// Provider is a task that gives a resource to its node, or was to.
type Provider struct {
	ID       string           `json:"id"`
	Resource types.ResourceID `json:"resource"`
	Amount   string           `json:"amount"`
	When     types.When       `json:"when"`
	Phase    types.Phase      `json:"phase"`
	Node     string           `json:"node,omitempty"`
	// Why is where the task itself is, or why it waits.
	Why string `json:"why"`

	// waits are the tasks that are to provide what it waits for itself.
	waits []string
}

// Queue is a place among what waits. Nobody waits for those in front who ask for
// something else: they are only tried first.
type Queue struct {
	// Ahead is how many tasks and reservations are tried first.
	Ahead int `json:"ahead"`
	// Same is how many of them ask for the very same; First are their ids, a few.
	Same  int      `json:"same"`
	First []string `json:"first,omitempty"`
}

// Group is tasks of which the same is to be said.
type Group struct {
	Phase      types.Phase `json:"phase"`
	Summary    string      `json:"summary"`
	Suggestion string      `json:"suggestion,omitempty"`
	Unmet      string      `json:"unmet,omitempty"`
	Infeasible bool        `json:"infeasible,omitempty"`
	Count      int         `json:"count"`
	// Tasks are the ids, a few.
	Tasks []string `json:"tasks"`
}

// Amount is how much there is of a resource.
type Amount struct {
	Resource types.ResourceID `json:"resource"`
	Free     string           `json:"free"`
	Capacity string           `json:"capacity"`
}

// few is how many names of many are given.
const few = 8

// explainer explains one state.
type explainer struct {
	v   *cluster.View
	d   *Draft
	now time.Time
	// nodes are the registered ones, by name.
	nodes []*cluster.Node
	// read reads what is needed; nil of a view that is whole.
	read *reader
	// inner tells that what is explained is only of interest to something else:
	// then that is enough.
	inner bool
	// self is the task that is explained, if it is one.
	self string
	// planned are tasks that are only supposed: nobody can stop them.
	planned map[cluster.ID]bool
	// kin is the job of what is explained, if it has one.
	kin string
	// given remembers what providers returned.
	given map[types.ResourceID][]Provider
	// looks counts the nodes, tasks, bindings and grants that were looked at.
	looks int
}

func newExplainer(v *cluster.View, now time.Time) *explainer {
	return explainerIn(v, newDraft(v, controlplane.Limits{}, 1), now)
}

// explainerIn explains a state as a draft leaves it.
func explainerIn(v *cluster.View, d *Draft, now time.Time) *explainer {
	return &explainer{v: v, d: d, now: now, nodes: sortedNodes(v), given: make(map[types.ResourceID][]Provider)}
}

// Explain says why the task id is where it is. NotFound: there is no such task.
func Explain(v *cluster.View, id cluster.ID, now time.Time) (Explanation, error) {
	return newExplainer(v, now).task(id)
}

// ExplainReservation says why the reservation id is granted or not. NotFound: there
// is none.
func ExplainReservation(v *cluster.View, id cluster.ID, now time.Time) (Explanation, error) {
	return newExplainer(v, now).reservation(id)
}

// ExplainJob says how far the tasks of a job are, and why those wait that do.
// NotFound: there is no such job.
func ExplainJob(v *cluster.View, id cluster.ID, now time.Time) (Explanation, error) {
	return newExplainer(v, now).job(id)
}

// ExplainNode says why a node takes nothing, or what it takes; names are as
// namespace ns sees them. NotFound: there is no such node.
func ExplainNode(v *cluster.View, ns, name string, now time.Time) (Explanation, error) {
	return newExplainer(v, now).node(ns, name)
}

// within returns the explainer of what is only of interest to what e explains.
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
