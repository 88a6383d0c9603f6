// Package cluster decodes the keys of a cluster into one View, which relates them to each other and
// derives the capacity of every resource. Schedulers, ClusterState, the explanations of waiting
// tasks and the audit use the same View.
//
// Free amounts are never stored: they are Capacity minus the allocated amount.
package cluster

import (
	"slices"
	"strings"

	"github.com/escher-sched/escher/controlplane"
	"github.com/escher-sched/escher/types"
)

// ID names a task, job, reservation, grant or session; it is unique within its namespace.
type ID struct{ Namespace, ID string }

// String returns namespace/id.
func (id ID) String() string { return id.Namespace + "/" + id.ID }

// Compare orders ids by namespace, then by id.
func (id ID) Compare(other ID) int {
	if n := strings.Compare(id.Namespace, other.Namespace); n != 0 {
		return n
	}
	return strings.Compare(id.ID, other.ID)
}

// Cell is a decoded key. While the key is absent, V is nil, and Mod and Create are 0.
type Cell[T any] struct {
	V           *T
	Mod, Create int64
}

// Unread reports whether the key exists with an undecodable value: V is nil, and the revisions are
// set.
func (c *Cell[T]) Unread() bool { return c.V == nil && c.Mod != 0 }

// Quarantined returns the number of keys with unreadable values, and a few of them, sorted.
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

// Absent reports whether the key does not exist.
func (c *Cell[T]) Absent() bool { return c.V == nil && c.Mod == 0 }

// View is the state of the cluster, built from the changes applied to it. It is not safe for
// concurrent use: one goroutine owns it.
//
// Changes of one key must be applied in the order of their revisions; an older one is ignored. So a
// scheduler can apply its own commits at once, before its watch delivers them: see Committed.
type View struct {
	// Revision is the revision up to which everything has been applied: see Reached.
	Revision int64

	Nodes        map[string]*Node
	Jobs         map[ID]*Cell[types.Job]
	Sessions     map[ID]*Cell[types.Session]
	Namespaces   map[string]*Cell[types.Namespace]
	Reservations map[ID]*Reservation
	// Policies are the policies of jobs, and shared ones by their own ids.
	Policies map[ID]*Cell[types.Policies]
	// Histories are the past runs of the jobs of a namespace and a name.
	Histories map[ID]*Cell[types.History]
	Pools     map[types.ResourceID]*Pool
	// Everywhere are the resources on every node that a selector matches.
	Everywhere map[types.ResourceID]*Cell[types.Resource]
	Schedulers map[string]*Cell[types.Leader]
	Leaders    map[string]*Cell[types.Leader]
	Admission  Cell[types.Admission]
	// Closed are the namespaces that are over their budget.
	Closed map[string]*Cell[types.Admission]

	// tasks holds the expanded tasks.
	tasks     map[ID]*Task
	compacted compacted
	// serials counts the nodes ever added; checked is the number of nodes at the last count of
	// GoneNodes.
	serials, checked int
	// members holds the expanded tasks of each job, whether the job exists or not.
	members map[ID]*members
	// images counts, for siblings with one spec, the images by digest in their statuses.
	images map[siblings]map[string]int
	// nodesWith lists the nodes with some of an ephemeral or scoped resource.
	nodesWith map[types.ResourceID]*nodeSet
	// gone holds deletes that are newer than Revision; buried lists those that were applied one by
	// one.
	gone   map[string]int64
	buried []burial
	// committed holds the transactions applied ahead of Revision, in order.
	committed []*committed
	// unread holds the keys with undecodable values, with their revisions.
	unread map[string]int64

	// bare are the nodes for Fork; nil before the first.
	bare *bare
	// runs are those of the ended tasks.
	runs runs

	decode decoder
	// touched is the last result of Committed.
	touched []controlplane.Key
	// names holds each namespace once, and jobs each job with members.
	names, jobs map[string]string
}

// Node holds the keys of one node. It exists as soon as any of them does.
type Node struct {
	Name string
	// Serial numbers the nodes of a view, from 0, in the order of their arrival.
	Serial    int
	Info      Cell[types.Node]
	Alive     Cell[types.Alive]
	Cordon    Cell[types.Cordon]
	Devices   Cell[types.Devices]
	Allocated Cell[types.Allocated]
	// Own are the ephemeral resources of this node alone, valid or not.
	Own map[types.ResourceID]*Cell[types.Resource]
	// Left are the resources that ended tasks left here, valid or not.
	Left map[types.ResourceID]*Cell[types.Provided]
	// Bindings are the attempts bound here, in no order.
	Bindings []*Binding

	// providers lists the bindings that provide a resource here.
	providers map[types.ResourceID][]*Binding
	// has holds the resources for which View.nodesWith lists the node.
	has map[types.ResourceID]struct{}
	// stale reports whether it is in bare.stale.
	stale bool
}

// Binding is an attempt with its agent's report.
type Binding struct {
	Task *Task
	// Number is the number of the attempt.
	Number int
	Node   *Node
	Info   Cell[BindingValue]
	Report Cell[ReportValue]

	// pos is its index in Node.Bindings, -1 if it is gone.
	pos int
}

// Gone reports whether both the binding and its report are gone.
func (b *Binding) Gone() bool { return b.pos < 0 }

// Task is a task with its status and its bindings. It has at most one binding while the invariants
// hold.
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

// Current reports whether the grant belongs to the present reservation.
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
		compacted:    newCompacted(),
		Jobs:         make(map[ID]*Cell[types.Job]),
		Sessions:     make(map[ID]*Cell[types.Session]),
		Namespaces:   make(map[string]*Cell[types.Namespace]),
		Closed:       make(map[string]*Cell[types.Admission]),
		Reservations: make(map[ID]*Reservation),
		Policies:     make(map[ID]*Cell[types.Policies]),
		Histories:    make(map[ID]*Cell[types.History]),
		Pools:        make(map[types.ResourceID]*Pool),
		Everywhere:   make(map[types.ResourceID]*Cell[types.Resource]),
		Schedulers:   make(map[string]*Cell[types.Leader]),
		Leaders:      make(map[string]*Cell[types.Leader]),
		members:      make(map[ID]*members),
		images:       make(map[siblings]map[string]int),
		nodesWith:    make(map[types.ResourceID]*nodeSet),
		gone:         make(map[string]int64),
		unread:       make(map[string]int64),
		decode:       newDecoder(),
		names:        make(map[string]string),
		jobs:         make(map[string]string),
	}
}

// UnreadMod returns the revision of a key with an unreadable value, 0 for any other key. A
// transaction that relies on its absence compares that revision.
func (v *View) UnreadMod(key string) int64 { return v.unread[key] }

// UnreadNamespace reports whether the settings of a namespace exist but are unreadable. The
// additional requests of its tasks are then unknown.
func (v *View) UnreadNamespace(ns string) bool {
	return len(v.unread) > 0 && v.UnreadMod(controlplane.NamespaceKey(ns)) != 0
}

// Session returns the session of a node, 0 while it is not alive.
func (n *Node) Session() int64 { return n.Alive.Create }

// Eligible reports whether tasks may be bound to the node. Its devices and allocations must also be
// readable.
func (n *Node) Eligible() bool {
	return n.Info.V != nil && n.Alive.V != nil && n.Cordon.Absent() && !n.Devices.Unread() && !n.Allocated.Unread()
}

// Dead reports whether the node is not alive and an administrator has declared it dead.
func (n *Node) Dead() bool { return n.Alive.V == nil && n.Cordon.V != nil && n.Cordon.V.Dead }

// Lost reports whether the attempt ended with the node session of its bind: its agent has ended it,
// or will not start it. A kept attempt is lost only with a dead node.
func (b *Binding) Lost() bool {
	return b.Info.V.Session != b.Node.Session() && (b.Info.V.OnDisconnect != types.Keep || b.Node.Dead())
}

// Providing reports whether the binding provides p at present. A provided resource ends with the
// session of the node, unless the attempt outlives that.
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
		return b.Report.V != nil && b.Report.V.Phase == types.ReportRunning && b.Report.V.Health.Usable()
	}
	return false
}

// Phase returns the phase of the task.
func (t *Task) Phase() types.Phase {
	if t.Status.V == nil {
		return types.Pending
	}
	return t.Status.V.Phase
}

// Visible reports whether schedulers may see the task: the task and its job, if any, exist.
func (v *View) Visible(t *Task) bool {
	if t.Info.V == nil || t.Status.Unread() {
		return false
	}
	return t.Info.V.Job == "" || v.Jobs[ID{t.ID.Namespace, t.Info.V.Job}] != nil
}

// set stores the value of an event; nil means an unreadable one.
func (c *Cell[T]) set(e controlplane.Event, v *T) {
	if c.Absent() {
		c.Create = e.ModRevision
	}
	if e.CreateRevision != 0 {
		c.Create = e.CreateRevision
	}
	c.V, c.Mod = v, e.ModRevision
}
