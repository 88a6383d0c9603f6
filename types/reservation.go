package types

import "cmp"

// Reservation asks for bundles to be locked for the tasks that name it: all of
// them or none.
type Reservation struct {
	Extra
	Bundles []Bundle
	// Priority and Submitted order it among pending tasks and reservations.
	Priority  int
	Submitted int64 // Unix nanoseconds
	// Session owns it: it is deleted when the session ends.
	Session string
	// Accumulate lets it, when it has waited, hold piecemeal what becomes
	// free, one reservation at a time in the cluster: so that the large do not
	// starve.
	Accumulate bool
	// Job owns it: it is deleted when all tasks of the job have ended, or the job is
	// gone.
	Job string
	// Lost says what becomes of its bundles on a node that is lost, or drained.
	Lost LostBundles
	// AtOnce has it collect from the first moment on, beside others, on the nodes that all
	// of its bundles name. When all of it is there, what waits of its job is placed with
	// that: see HandedOver.
	AtOnce bool
	// Raised is by how much it comes earlier while it waits: see Order.
	Raised int
	// Policy owns it, by its id: it is deleted when that policy, which jobs share, is
	// withdrawn.
	Policy string
	// ForItself has what collects at once, when all of it is there, be granted like any
	// other: so a place is kept that tasks of its job are about to leave.
	ForItself bool
}

// Order is what orders it among what waits, the highest first: see Task.Order.
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

// LostBundles is what becomes of the bundles of a granted reservation on a node that is
// lost, or drained, when no task draws on them there any more.
type LostBundles string

// WaitForNode keeps them there until the node is back. MoveBundles gives them other nodes,
// all that are on such nodes at once, when there is room.
const (
	WaitForNode LostBundles = "" // in text: wait
	MoveBundles LostBundles = "move"
)

// waitText is what people write for WaitForNode.
const waitText = "wait"

// ParseLostBundles reads what people write: wait, which is what holds if they write
// nothing, or move. Invalid: the error names what is possible.
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

// String returns what ParseLostBundles reads.
func (l LostBundles) String() string { return cmp.Or(string(l), waitText) }

// Bundle is a request vector to be locked on one node.
type Bundle struct {
	Requests Requests `json:"requests"`
	// Node is where it must be; empty is anywhere.
	Node string `json:"node,omitempty"`
	// Devices say which devices the requests are to be made up of.
	Devices []DeviceRequest `json:"devices,omitempty"`
}

func (b *Bundle) fields(w *wire) {
	list(w, 2, (*[]Request)(&b.Requests), (*Request).fields)
	text(w, 3, &b.Node)
	list(w, 4, &b.Devices, (*DeviceRequest).fields)
}

// GrantPhase is how far a grant is.
type GrantPhase string

// The phases of a grant.
const (
	// Accumulating: part of the bundles is held, and nobody may draw on it.
	Accumulating GrantPhase = "accumulating"
	// Granting: the bundles are being taken, in several transactions as one has no room for
	// them. Nobody may draw on it before the last of these grants it. A bundle without a node
	// says that it is being given back.
	Granting GrantPhase = "granting"
	// Granted: all bundles are held.
	Granted GrantPhase = "granted"
	// Releasing: the reservation is gone. The grant holds what tasks still
	// draw on it, that is what is allocated of its scoped resources.
	Releasing GrantPhase = "releasing"
	// Collecting: part of the bundles is held, by a reservation that collects at once.
	Collecting GrantPhase = "collecting"
	// HandedOver: all that was collected at once has gone to what waited of the job, in one
	// transaction. The grant holds nothing any more.
	HandedOver GrantPhase = "handed-over"
)

// Grant is a reservation as the scheduler granted it.
type Grant struct {
	Extra
	Phase GrantPhase
	// Reservation is the CreateRevision of the reservation it is for: a later
	// one of the same name waits until this grant is gone.
	Reservation int64
	// Nodes are the places, sorted by name.
	Nodes []GrantNode
	// Bundles are the nodes of the reservation's bundles, in their order; ""
	// for one that is not placed yet.
	Bundles []string
	// Task is, of what a task of that id has collected, the CreateRevision of the
	// task, and there is no reservation: nobody draws on it, and it goes when the task
	// is bound, or ends. The one bundle is what the task asks for.
	Task int64
	// Since is when it began to collect, in Unix nanoseconds; 0 if it was granted at once.
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

// GrantNode is what a grant holds on one node.
type GrantNode struct {
	Node  string
	Holds []Holding
	// Whole reports, of a grant that is Releasing, that all of Holds is held there still: it is
	// given back node by node where one transaction has no room for all.
	Whole bool
}

func (g *GrantNode) fields(w *wire) {
	text(w, 2, &g.Node)
	list(w, 3, &g.Holds, (*Holding).fields)
	w.boolean(4, &g.Whole)
}

// On returns what the grant holds on a node.
func (g *Grant) On(node string) []Holding {
	for i := range g.Nodes {
		if g.Nodes[i].Node == node {
			return g.Nodes[i].Holds
		}
	}
	return nil
}
