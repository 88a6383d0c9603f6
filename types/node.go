package types

import (
	"slices"
	"time"
)

// Node is a machine, as its agent registered it.
type Node struct {
	Extra
	// Capacity is what it has of physical resources.
	Capacity Requests
	// Labels are sorted by name. rack and zone also become the placement
	// resources rack/<label> and zone/<label>.
	Labels []Label
	// Address is where its agent answers: unix:/path, http://host:port or
	// https://host:port. Empty if it does not.
	Address string
	// Version is the agent's.
	Version string
	// PortFirst and PortLast are the range of which its tasks are given ports, both
	// included; 0 if there is none. Capacity has as many of Port.
	PortFirst, PortLast int
}

func (n *Node) fields(w *wire) {
	list(w, 2, (*[]Request)(&n.Capacity), (*Request).fields)
	list(w, 3, &n.Labels, (*Label).fields)
	text(w, 4, &n.Address)
	text(w, 5, &n.Version)
	integer(w, 6, &n.PortFirst)
	integer(w, 7, &n.PortLast)
}

// Label is a property of a node.
type Label struct{ Name, Value string }

func (l *Label) fields(w *wire) {
	text(w, 2, &l.Name)
	text(w, 3, &l.Value)
}

// Label returns the value of a label, "" if there is none.
func (n *Node) Label(name string) string {
	for _, l := range n.Labels {
		if l.Name == name {
			return l.Value
		}
	}
	return ""
}

// Alive is what an agent keeps on its lease. The CreateRevision of its key is
// the session of the node.
type Alive struct {
	Extra
	// TTLSeconds is the time to live of the lease, in seconds.
	TTLSeconds int64
	// Token is where agents of older versions put what a Token has now. It is read if
	// there is no Token, and never written.
	Token string
}

func (a *Alive) fields(w *wire) {
	integer(w, 2, &a.TTLSeconds)
	text(w, 3, &a.Token)
}

// Token lets its bearer use the API of a node: its tasks' files, output and commands, of all
// namespaces. It is new in each session, and ends with it. It has a key of its own so that who
// may read sessions need not be able to use the nodes.
type Token struct {
	Extra
	Token string
}

func (t *Token) fields(w *wire) { text(w, 2, &t.Token) }

// Devices are the devices of a node, by the physical resource they are.
type Devices struct {
	Extra
	Devices []Device
}

func (d *Devices) fields(w *wire) { list(w, 2, &d.Devices, (*Device).fields) }

// Device is one device.
type Device struct {
	// ID is its name in the Container Device Interface, such as
	// nvidia.com/gpu=GPU-1234.
	ID string
	// Resource is what it is one of.
	Resource ResourceID
	// Model, MemoryBytes and NUMA describe it: empty, 0 and -1 are not known. NUMA is the
	// node of the machine's memory that it is near to.
	Model       string
	MemoryBytes int64
	NUMA        int
	// Unhealthy says why it must not be given out; empty if it may.
	Unhealthy string
	// Links are the names, of this node's own choice, of the links that it is on:
	// devices on one link reach one another directly.
	Links []string
	// UnhealthySince is when Unhealthy began, in Unix nanoseconds; 0 if it is healthy.
	UnhealthySince int64
	// Bus is its address on the PCI bus, such as 0000:17:00.0, empty if that is not known.
	Bus string
	// Parent is the device that it is a slice of, as its driver names it: that one is not
	// given out itself. Empty if it is none.
	Parent string
}

func (d *Device) fields(w *wire) {
	text(w, 2, &d.ID)
	text(w, 3, &d.Resource)
	text(w, 4, &d.Model)
	integer(w, 5, &d.MemoryBytes)
	integer(w, 6, &d.NUMA)
	text(w, 7, &d.Unhealthy)
	texts(w, 8, &d.Links)
	integer(w, 9, &d.UnhealthySince)
	text(w, 10, &d.Bus)
	text(w, 11, &d.Parent)
}

// Cordon keeps new tasks off a node.
type Cordon struct {
	Extra
	Reason string
	// DrainBy is when what runs there has to leave, in Unix nanoseconds: with
	// DrainFinish what is still there then is moved. 0 is never.
	DrainBy int64
	// Drain says how what runs there leaves.
	Drain DrainMode
	// Grace is what tasks that have to leave have between their stop signal and the
	// kill; 0 is that of their specs.
	Grace time.Duration
	// Dead is the word of an administrator that nothing runs on the machine any more, nor
	// ever will of what was bound there: also what is kept is lost with it. It holds as long
	// as the node is not alive.
	Dead bool
}

// DrainMode says how what runs on a cordoned node leaves it.
type DrainMode string

// The modes. DrainFinish leaves tasks to end by themselves until Cordon.DrainBy, and
// moves the rest then; DrainMove evicts them at once: they wait for their next attempt;
// DrainStop stops them for good.
const (
	DrainNone   DrainMode = ""
	DrainFinish DrainMode = "finish"
	DrainMove   DrainMode = "move"
	DrainStop   DrainMode = "stop"
)

func (c *Cordon) fields(w *wire) {
	reason(w, 2, &c.Reason)
	integer(w, 3, &c.DrainBy)
	text(w, 4, &c.Drain)
	integer(w, 5, &c.Grace)
	w.boolean(6, &c.Dead)
}

// Selector picks nodes; all that is set must hold, and the empty one picks all.
type Selector struct {
	// Nodes are names.
	Nodes []string `json:"nodes,omitempty"`
	// Labels must be as given.
	Labels []Label `json:"labels,omitempty"`
	// Available is what must be free there at the moment of selecting. A
	// selector with it picks the nodes once; it does not follow later ones.
	Available Requests `json:"available,omitempty"`
}

func (s *Selector) fields(w *wire) {
	texts(w, 2, &s.Nodes)
	list(w, 3, &s.Labels, (*Label).fields)
	list(w, 4, (*[]Request)(&s.Available), (*Request).fields)
}

// Matches reports whether name and labels of a node are as selected; what is
// available is for the caller to look at.
func (s *Selector) Matches(name string, n *Node) bool {
	if len(s.Nodes) > 0 && !slices.Contains(s.Nodes, name) {
		return false
	}
	for _, l := range s.Labels {
		if n.Label(l.Name) != l.Value {
			return false
		}
	}
	return true
}
