package types

import (
	"cmp"
	"time"

	"github.com/escher-sched/escher/types/wire"
)

// A Reservation asks the scheduler to lock bundles for the tasks that name it, all or none.
type Reservation struct {
	Extra
	Bundles []Bundle
	// Priority and Submitted, in Unix nanoseconds, order it in the queue of tasks and reservations.
	Priority  int
	Submitted int64
	// Session is the owning session, whose end deletes it.
	Session string
	// Accumulate lets a library direct it to collect after a long wait: small tasks would starve it.
	Accumulate bool
	// Job is the owning job, whose end, or that of its last task, deletes it.
	Job string
	// Lost says what happens to its bundles on a lost or drained node.
	Lost LostBundles
	// Raised is added to its priority while it waits: see Order.
	Raised int
	// Policy is the id of the owning shared policies, whose end deletes it.
	Policy string
	// MaxRun is the longest time for which it is needed; 0 means unknown. See Task.MaxRun.
	MaxRun time.Duration
	// Collect directs the collection of its capacity while it waits; nil means it collects nothing.
	// Its maker may set it: see Directed.
	Collect *Collect
}

// Collect directs the piecemeal collection of capacity for a waiting task or reservation. The
// scheduler follows it and decides nothing of it: see esl/collect and esl/room.
type Collect struct {
	// On are the nodes to collect on, one for each bundle; a task is one bundle.
	On []string
	// LendUntil is when all of it could be free, in Unix nanoseconds: tasks that end before then may
	// use what is held. 0 lends nothing.
	LendUntil int64
	// HandOver gives all of it, once it is there, to what waits of its job, in one transaction.
	// Otherwise it is granted. See HandedOver.
	HandOver bool
}

// NewCollect returns a direction to the nodes that bundles require.
func NewCollect(bundles []Bundle, handOver bool) *Collect {
	to := &Collect{HandOver: handOver}
	for i := range bundles {
		to.On = append(to.On, bundles[i].Node)
	}
	return to
}

func (c *Collect) fields(w *wire.Pass) {
	wire.Texts(w, 2, &c.On)
	wire.Integer(w, 3, &c.LendUntil)
	w.Boolean(4, &c.HandOver)
}

// Directed reports whether its maker directs it. It then collects from the start, before all of the
// queue and next to others, and is never in the queue.
func (r *Reservation) Directed() bool { return r.Collect != nil && !r.Accumulate }

// HandsOver reports whether what it collects is for the waiting tasks and reservations of its job.
func (r *Reservation) HandsOver() bool { return r.Collect != nil && r.Collect.HandOver }

// Order is its rank in the queue, highest first: see Task.Order.
func (r *Reservation) Order() int { return r.Priority + r.Raised }

func (r *Reservation) fields(w *wire.Pass) {
	wire.List(w, 2, &r.Bundles, (*Bundle).fields)
	wire.Integer(w, 3, &r.Priority)
	wire.Integer(w, 4, &r.Submitted)
	wire.Text(w, 5, &r.Session)
	w.Boolean(6, &r.Accumulate)
	wire.Text(w, 7, &r.Job)
	wire.Text(w, 8, &r.Lost)
	var atOnce, forItself bool // of earlier versions: directed by its maker, and not to hand over
	w.Boolean(9, &atOnce)
	wire.Integer(w, 10, &r.Raised)
	wire.Text(w, 11, &r.Policy)
	w.Boolean(12, &forItself)
	wire.Optional(w, 13, &r.Collect, (*Collect).fields)
	wire.Integer(w, 14, &r.MaxRun)
	if atOnce {
		r.Accumulate, r.Collect = false, NewCollect(r.Bundles, !forItself)
	}
}

// LostBundles says what happens to the bundles of a granted reservation on a lost or drained node,
// once no task draws on them there.
type LostBundles string

// WaitForNode keeps them there until the node is back. MoveBundles moves all bundles of such nodes
// together, once other nodes have capacity.
const (
	WaitForNode LostBundles = "" // as text: wait
	MoveBundles LostBundles = "move"
	waitText                = "wait"
)

// ParseLostBundles parses wait, which is the default, or move. Invalid: the error names the values.
func ParseLostBundles(s string) (LostBundles, error) {
	switch l := LostBundles(s); l {
	case WaitForNode, MoveBundles:
		return l, nil
	case waitText:
		return WaitForNode, nil
	}
	return WaitForNode, errLostBundles(s)
}

func errLostBundles(s string) error {
	return Errorf(Invalid, "lost: %q is unknown: use wait or move", s)
}

// String returns the form that ParseLostBundles parses.
func (l LostBundles) String() string { return cmp.Or(string(l), waitText) }

// A Bundle is a request vector to lock on one node.
type Bundle struct {
	Requests Requests `json:"requests"`
	// Node is the required node; empty means any.
	Node string `json:"node,omitempty"`
	// Devices restrict the devices of the requests.
	Devices []DeviceRequest `json:"devices,omitempty"`
}

func (b *Bundle) fields(w *wire.Pass) {
	wire.List(w, 2, (*[]Request)(&b.Requests), (*Request).fields)
	wire.Text(w, 3, &b.Node)
	wire.List(w, 4, &b.Devices, (*DeviceRequest).fields)
}

// GrantPhase is the phase of a grant.
type GrantPhase string

// The phases of a grant.
const (
	// Collecting: part of the bundles is held on the nodes that Collect names, and no task may draw on
	// it.
	Collecting GrantPhase = "collecting"
	// Granting: the scheduler takes the bundles in several transactions, because they do not fit
	// one. No task may draw on them before the last transaction. A bundle without a node means that
	// the scheduler returns them.
	Granting GrantPhase = "granting"
	// Granted: all bundles are held.
	Granted GrantPhase = "granted"
	// Releasing: the reservation is gone. The grant holds only what tasks still draw on.
	Releasing GrantPhase = "releasing"
	// HandedOver: one transaction gave everything that was collected to the waiting tasks and
	// reservations of the job. The grant holds nothing any more.
	HandedOver GrantPhase = "handed-over"
)

// Grant is a reservation as the scheduler granted it.
type Grant struct {
	Extra
	Phase GrantPhase
	// Reservation is the CreateRevision of the reservation. A later one of the same name waits
	// until this grant is gone.
	Reservation int64
	// Nodes are the amounts held, sorted by node.
	Nodes []GrantNode
	// Bundles are the nodes of the reservation's bundles, in order; "" for an unplaced bundle.
	Bundles []string
	// Task is the CreateRevision of the task with the grant's id, if the grant belongs to a
	// collecting task and not to a reservation. No task draws on it. It ends when the task is bound
	// or ends. Its one bundle is the task's request.
	Task int64
	// Since is when it began to collect, in Unix nanoseconds; 0 if it never collected.
	Since int64
}

func (g *Grant) fields(w *wire.Pass) {
	if wire.Text(w, 2, &g.Phase); w.Decoding() && g.Phase == "accumulating" {
		g.Phase = Collecting // of earlier versions, of what its maker did not direct
	}
	wire.Integer(w, 3, &g.Reservation)
	wire.List(w, 4, &g.Nodes, (*GrantNode).fields)
	wire.Texts(w, 5, &g.Bundles)
	wire.Integer(w, 6, &g.Task)
	wire.Integer(w, 7, &g.Since)
}

// GrantNode is the part of a grant on one node.
type GrantNode struct {
	Node  string
	Holds []Holding
	// Whole reports whether a Releasing grant still holds all of Holds there. It is returned node
	// by node if one transaction cannot return all.
	Whole bool
}

func (g *GrantNode) fields(w *wire.Pass) {
	wire.Text(w, 2, &g.Node)
	wire.List(w, 3, &g.Holds, (*Holding).fields)
	w.Boolean(4, &g.Whole)
}

// On returns the amounts that the grant holds on a node.
func (g *Grant) On(node string) []Holding {
	for i := range g.Nodes {
		if g.Nodes[i].Node == node {
			return g.Nodes[i].Holds
		}
	}
	return nil
}
