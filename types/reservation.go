package types

import "cmp"

// A Reservation asks the scheduler to lock bundles for the tasks that name it, all or none.
type Reservation struct {
	Extra
	Bundles []Bundle
	// Priority and Submitted order it in the queue of tasks and reservations.
	Priority  int
	Submitted int64 // Unix nanoseconds
	// Session is the owning session, whose end deletes it.
	Session string
	// Accumulate lets an aged reservation hold capacity piecemeal as it becomes free. Only one task
	// or reservation in the cluster does so at a time. That keeps large ones from starving.
	Accumulate bool
	// Job is the owning job. The reservation is deleted when all of its tasks have ended, or the
	// job is gone.
	Job string
	// Lost says what happens to its bundles on a lost or drained node.
	Lost LostBundles
	// AtOnce lets it collect from the start, in parallel with others, on the nodes that all of its
	// bundles name. Once complete, it is handed over to the waiting tasks of its job: see
	// HandedOver.
	AtOnce bool
	// Raised is added to its priority while it waits: see Order.
	Raised int
	// Policy is the id of the owning shared policies, whose end deletes it.
	Policy string
	// ForItself makes a complete AtOnce reservation be granted like any other. That keeps capacity
	// for tasks of its job that are about to leave their nodes.
	ForItself bool
}

// Order is its rank in the queue, highest first: see Task.Order.
func (r *Reservation) Order() int { return r.Priority + r.Raised }

func (r *Reservation) fields(w *wire) {
	list(w, 2, &r.Bundles, (*Bundle).fields)
	integer(w, 3, &r.Priority)
	integer(w, 4, &r.Submitted)
	text(w, 5, &r.Session)
	w.boolean(6, &r.Accumulate)
	text(w, 7, &r.Job)
	text(w, 8, &r.Lost)
	w.boolean(9, &r.AtOnce)
	integer(w, 10, &r.Raised)
	text(w, 11, &r.Policy)
	w.boolean(12, &r.ForItself)
}

// LostBundles says what happens to the bundles of a granted reservation on a lost or drained node,
// once no task draws on them there.
type LostBundles string

// WaitForNode keeps them there until the node is back. MoveBundles moves all bundles of such nodes
// together, once other nodes have capacity.
const (
	WaitForNode LostBundles = "" // as text: wait
	MoveBundles LostBundles = "move"
)

// waitText is the text form of WaitForNode.
const waitText = "wait"

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

func (b *Bundle) fields(w *wire) {
	list(w, 2, (*[]Request)(&b.Requests), (*Request).fields)
	text(w, 3, &b.Node)
	list(w, 4, &b.Devices, (*DeviceRequest).fields)
}

// GrantPhase is the phase of a grant.
type GrantPhase string

// The phases of a grant.
const (
	// Accumulating: part of the bundles is held, and no task may draw on it.
	Accumulating GrantPhase = "accumulating"
	// Granting: the scheduler takes the bundles in several transactions, because they do not fit
	// one. No task may draw on them before the last transaction. A bundle without a node means that
	// the scheduler returns them.
	Granting GrantPhase = "granting"
	// Granted: all bundles are held.
	Granted GrantPhase = "granted"
	// Releasing: the reservation is gone. The grant holds only what tasks still draw on: the
	// allocated amounts of its scoped resources.
	Releasing GrantPhase = "releasing"
	// Collecting: an AtOnce reservation holds part of the bundles.
	Collecting GrantPhase = "collecting"
	// HandedOver: one transaction gave everything that AtOnce collected to the waiting tasks of the
	// job. The grant holds nothing any more.
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
	// Since is when it began to collect, in Unix nanoseconds; 0 if it was granted without
	// collecting.
	Since int64
}

func (g *Grant) fields(w *wire) {
	text(w, 2, &g.Phase)
	integer(w, 3, &g.Reservation)
	list(w, 4, &g.Nodes, (*GrantNode).fields)
	texts(w, 5, &g.Bundles)
	integer(w, 6, &g.Task)
	integer(w, 7, &g.Since)
}

// GrantNode is the part of a grant on one node.
type GrantNode struct {
	Node  string
	Holds []Holding
	// Whole reports whether a Releasing grant still holds all of Holds there. It is returned node
	// by node if one transaction cannot return all.
	Whole bool
}

func (g *GrantNode) fields(w *wire) {
	text(w, 2, &g.Node)
	list(w, 3, &g.Holds, (*Holding).fields)
	w.boolean(4, &g.Whole)
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
