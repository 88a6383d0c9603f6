// Package cluster is the cluster as its keys say it is: decoded, related to one
// another, with the capacity of every resource derived. Schedulers, ClusterState,
// the explanation of what waits and the audit look at the same View.
//
// What is free is never stored; it is Capacity minus what is allocated.
package cluster

import (
	"slices"

	"github.com/escher-sched/escher/controlplane"
	"github.com/escher-sched/escher/types"
)

// ID names a task, job, reservation, grant or session: ids are unique within
// their namespace.
type ID struct{ Namespace, ID string }

// String returns namespace/id.
func (id ID) String() string { return id.Namespace + "/" + id.ID }

// Cell is a decoded key. V is nil while the key is absent; Mod and Create are then
// 0.
type Cell[T any] struct {
	V           *T
	Mod, Create int64
}

// Unread reports whether the key is there, of the revisions of the cell, and its value
// cannot be decoded: V is nil.
func (c *Cell[T]) Unread() bool { return c.V == nil && c.Mod != 0 }

// Quarantined returns how many keys have a value that cannot be read, and some of them,
// sorted.
func (v *View) Quarantined() (count int, some []string) {
	const few = 5
	for key := range v.unread {
		if some = append(some, key); len(some) == few {
			break
		}
	}
	slices.Sort(some)
	return len(v.unread), some
}

// Absent reports whether the key is not there.
func (c *Cell[T]) Absent() bool { return c.V == nil && c.Mod == 0 }

// View is the cluster, from the changes applied to it. It is not safe for
// concurrent use: one goroutine owns it.
//
// Changes of one key may be applied only in the order of their revisions; an older
// one is ignored. That lets a scheduler apply what it committed at once, before
// its watch delivers it: see Committed.
type View struct {
	// Revision up to which everything has been applied: see Reached.
	Revision int64

	Nodes        map[string]*Node
	Jobs         map[ID]*Cell[types.Job]
	Sessions     map[ID]*Cell[types.Session]
	Namespaces   map[string]*Cell[types.Namespace]
	Reservations map[ID]*Reservation
	// Policies are what libraries keep to, by the job or by an id of their own.
	Policies map[ID]*Cell[types.Policies]
	Pools    map[types.ResourceID]*Pool
	// Everywhere are the resources of all nodes that a selector matches.
	Everywhere map[types.ResourceID]*Cell[types.Resource]
	Schedulers map[string]*Cell[types.Leader]
	Leaders    map[string]*Cell[types.Leader]
	Admission  Cell[types.Admission]

	// tasks are those that are not folded.
	tasks  map[ID]*Task
	folded folded
	// serials is how many nodes there have been, looked how many when GoneNodes counted last.
	serials, looked int
	// members are the tasks of each job, present or not, that are not folded.
	members map[ID]*members
	// images counts, for the tasks of a job that run the same, the images by digest
	// that their statuses name.
	images map[kin]map[string]int
	// at lists, by ephemeral or scoped resource, the nodes that have some.
	at map[types.ResourceID]*nodeSet
	// gone remembers deletes that are newer than Revision; buried are those of them
	// that were applied by themselves.
	gone   map[string]int64
	buried []burial
	// committed are the transactions applied ahead of Revision, in its order.
	committed []*committed
	// unread are the keys whose value cannot be decoded, by their revision.
	unread map[string]int64

	decode decoder
	// touched is what Committed returned last.
	touched []controlplane.Key
	// names are the namespaces, each once, and jobs the jobs of members.
	names, jobs map[string]string
}

// Node is all that is known of a node. It is there as soon as any of its keys is.
type Node struct {
	Name string
	// Serial numbers the nodes of a view, from 0, in the order in which they came.
	Serial    int
	Info      Cell[types.Node]
	Alive     Cell[types.Alive]
	Cordon    Cell[types.Cordon]
	Devices   Cell[types.Devices]
	Allocated Cell[types.Allocated]
	// Own are the ephemeral resources of this node alone, valid or not.
	Own map[types.ResourceID]*Cell[types.Resource]
	// Left are what ended tasks left behind here, valid or not.
	Left map[types.ResourceID]*Cell[types.Provided]
	// Bindings are the attempts bound here, in no order.
	Bindings []*Binding

	// providers are the bindings that provide a resource here.
	providers map[types.ResourceID][]*Binding
	// has are the resources for which View.at lists the node.
	has map[types.ResourceID]struct{}
}

// Binding is an attempt with what its agent reported.
type Binding struct {
	Task *Task
	// Number is that of the attempt.
	Number int
	Node   *Node
	Info   Cell[BindingValue]
	Report Cell[ReportValue]

	// pos is where it is in Node.Bindings, -1 if it is gone.
	pos int
}

// Gone reports whether neither the binding nor its report is there any more.
func (b *Binding) Gone() bool { return b.pos < 0 }

// Task is a task with its status and its bindings: at most one, while the
// invariants hold.
type Task struct {
	ID       ID
	Info     Cell[TaskValue]
	Status   Cell[StatusValue]
	Bindings []*Binding
}

// Reservation is a reservation with its grant.
type Reservation struct {
	ID    ID
	Info  Cell[types.Reservation]
	Grant Cell[types.Grant]
}

// Current reports whether the grant is of the reservation that is there.
func (r *Reservation) Current() bool {
	return r.Info.V != nil && r.Grant.V != nil && r.Info.Create == r.Grant.V.Reservation
}

// Pool is a cluster-wide resource.
type Pool struct {
	ID        types.ResourceID
	Info      Cell[types.Resource]
	Allocated Cell[types.Allocated]
}

// New returns the view of an empty cluster.
func New() *View {
	return &View{
		Nodes:        make(map[string]*Node),
		tasks:        make(map[ID]*Task),
		folded:       newFolded(),
		Jobs:         make(map[ID]*Cell[types.Job]),
		Sessions:     make(map[ID]*Cell[types.Session]),
		Namespaces:   make(map[string]*Cell[types.Namespace]),
		Reservations: make(map[ID]*Reservation),
		Policies:     make(map[ID]*Cell[types.Policies]),
		Pools:        make(map[types.ResourceID]*Pool),
		Everywhere:   make(map[types.ResourceID]*Cell[types.Resource]),
		Schedulers:   make(map[string]*Cell[types.Leader]),
		Leaders:      make(map[string]*Cell[types.Leader]),
		members:      make(map[ID]*members),
		images:       make(map[kin]map[string]int),
		at:           make(map[types.ResourceID]*nodeSet),
		gone:         make(map[string]int64),
		unread:       make(map[string]int64),
		decode:       newDecoder(),
		names:        make(map[string]string),
		jobs:         make(map[string]string),
	}
}

// UnreadMod returns the revision of a key that is there and cannot be read, 0 if it
// can or is not there: what relies on its absence compares that.
func (v *View) UnreadMod(key string) int64 { return v.unread[key] }

// UnreadNamespace reports whether what is set for a namespace is there and cannot be
// read: what its tasks are to ask for besides is not known then.
func (v *View) UnreadNamespace(ns string) bool {
	return len(v.unread) > 0 && v.UnreadMod(controlplane.NamespaceKey(ns)) != 0
}

// Session returns the session of a node, 0 while it is not alive.
func (n *Node) Session() int64 { return n.Alive.Create }

// Eligible reports whether tasks may be bound to the node: also that nothing that
// counts is unknown of it.
func (n *Node) Eligible() bool {
	return n.Info.V != nil && n.Alive.V != nil && n.Cordon.Absent() && !n.Devices.Unread() && !n.Allocated.Unread()
}

// Dead reports whether an administrator has said that nothing runs on the node, which is
// not alive, any more.
func (n *Node) Dead() bool { return n.Alive.V == nil && n.Cordon.V != nil && n.Cordon.V.Dead }

// Lost reports whether the binding's attempt is over because the session it was
// bound in is: its agent has ended it, or will not start it. What is kept is over only
// with the machine.
func (b *Binding) Lost() bool {
	return b.Info.V.Session != b.Node.Session() && (b.Info.V.OnDisconnect != types.Keep || b.Node.Dead())
}

// Providing reports whether the binding provides p at present. What is provided
// ends with the session of the node, unless the attempt outlives that.
func (b *Binding) Providing(p types.Provide) bool {
	if b.Lost() {
		return false
	}
	switch p.When {
	case types.WhenBound:
		return true
	case types.WhenRunning:
		return b.Report.V != nil && b.Report.V.Phase == types.ReportRunning
	case types.WhenHealthy:
		return b.Report.V != nil && b.Report.V.Phase == types.ReportRunning && b.Report.V.Health.Fit()
	}
	return false
}

// Phase returns how far the task is.
func (t *Task) Phase() types.Phase {
	if t.Status.V == nil {
		return types.Pending
	}
	return t.Status.V.Phase
}

// Visible reports whether schedulers may see the task: it is there, and so is the
// job it belongs to.
func (v *View) Visible(t *Task) bool {
	if t.Info.V == nil || t.Status.Unread() {
		return false
	}
	return t.Info.V.Job == "" || v.Jobs[ID{t.ID.Namespace, t.Info.V.Job}] != nil
}

// set stores what the event brought; nil is what cannot be read.
func (c *Cell[T]) set(e controlplane.Event, v *T) {
	if c.Absent() {
		c.Create = e.ModRevision
	}
	if e.CreateRevision != 0 {
		c.Create = e.CreateRevision
	}
	c.V, c.Mod = v, e.ModRevision
}
