// Package why holds reasons as data. A reason names the cause of an object's state, the resources
// that are short, the nodes, the holders that must end first, and a remedy. The scheduler's
// explanations and policies give the same type. Programs decide by the fields of a reason, and never
// by its words.
package why

import (
	"time"

	"github.com/escher-sched/escher/types"
)

// Reason says why an object is in its state. Cause, Needs, Nodes and Awaits are for programs;
// Summary and Suggestion say the same to people.
type Reason struct {
	Cause Cause `json:"cause,omitempty"`
	// Summary is one sentence.
	Summary string `json:"summary"`
	// Suggestion is a remedy, if there is one.
	Suggestion types.Text `json:"suggestion,omitzero"`
	// Unmet is the resource or reservation that Suggestion sets or reserves, by the name that the
	// namespace knows it by; empty if it suggests something else.
	Unmet string `json:"unmet,omitempty"`
	// Needs are the resources that rule out every node, or that the nearest node lacks.
	Needs []Missing `json:"needs,omitempty"`
	// Nodes are the nodes that the reason is about, the nearest first, at most eight.
	Nodes []string `json:"nodes,omitempty"`
	// Awaits are the holders that must end or be released first, or the reservation that must be
	// granted.
	Awaits []Object `json:"awaits,omitempty"`

	said said
}

// Object names a task or reservation.
type Object struct {
	Kind      Kind   `json:"kind"`
	Namespace string `json:"namespace"`
	ID        string `json:"id"`
}

// Explanation says why an object is in its state, above all why it waits. It is computed from a
// view, and never stored.
type Explanation struct {
	// Kind is the kind of the object: task, job, reservation or node.
	Kind Kind   `json:"kind"`
	ID   string `json:"id"`
	// Namespace is the namespace of the object. For a node, it is the one that names are relative
	// to.
	Namespace string `json:"namespace"`
	// Phase is the phase of a task; waiting, collecting, granted or releasing for a reservation;
	// incomplete, waiting, active or ended for a job; ready, cordoned or lost for a node.
	Phase string `json:"phase"`
	Reason
	// Infeasible reports whether it can never be placed, whatever ends.
	Infeasible bool `json:"infeasible,omitempty"`
	// Notes are further facts, a sentence each.
	Notes []types.Text `json:"notes,omitempty"`
	// Vectors explain the request vectors: one for each alternative of a task; for a reservation,
	// the first bundle without capacity.
	Vectors []Vector `json:"vectors,omitempty"`
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

// Vector says why one request vector fits nowhere.
type Vector struct {
	Requests types.Requests `json:"requests"`
	// Devices restrict the devices of the requests.
	Devices []types.DeviceRequest `json:"devices,omitempty"`
	// Reason is about this vector alone.
	Reason
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
	// Kind is KindTask or KindReservation. A task of phase collecting waits, and has collected
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

	// Quantity is the amount as a number, and Left the time until EndsBy. Granted reports whether a
	// grant holds it, and not a binding.
	Quantity types.Quantity `json:"-"`
	Left     time.Duration  `json:"-"`
	Granted  bool           `json:"-"`
}

// At sets what an explanation that was read as JSON lacks, given the time.
func (e *Explanation) At(now time.Time) {
	for i := range e.Holders {
		if h := &e.Holders[i]; h.EndsBy != nil {
			h.Left = h.EndsBy.Sub(now)
		}
	}
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

	// Waits are the ids of the tasks that should provide what this task itself waits for.
	Waits []string `json:"-"`
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
	Phase types.Phase `json:"phase"`
	Reason
	Infeasible bool `json:"infeasible,omitempty"`
	Count      int  `json:"count"`
	// Tasks are the ids of a few.
	Tasks []string `json:"tasks"`
}

// Amount is the amount of a resource.
type Amount struct {
	Resource types.ResourceID `json:"resource"`
	Free     string           `json:"free"`
	Capacity string           `json:"capacity"`
}
