package types

import (
	"cmp"
	"slices"
	"strings"
	"time"

	"github.com/escher-sched/escher/types/wire"
)

// A Node is a machine, as its agent registered it.
type Node struct {
	Extra
	// Capacity is the amount of each physical resource.
	Capacity Requests
	// Labels are sorted by name. rack and zone also become the placement
	// resources rack/<label> and zone/<label>. They are those of the agent, as changed by
	// administrators.
	Labels []Label
	// Address is the address of its agent: unix:/path, http://host:port or https://host:port, or
	// TunnelAddress. Empty if the agent does not listen.
	Address string
	// Version is the version of the agent.
	Version string
	// PortFirst and PortLast are the range of ports for its tasks, both included; 0 if there is
	// none. Capacity has the same number of Port.
	PortFirst, PortLast int
	// Host is the address at which tasks of other nodes reach its tasks: an IP address or a name.
	// Empty if an older version of the agent registered it.
	Host string
	// SetLabels are those of Labels that an administrator has set, and HiddenLabels are labels of the
	// agent that one has changed or removed. They are sorted by name. See relabel.Apply.
	SetLabels, HiddenLabels []Label
}

// TunnelAddress is the address of an agent that opens no port: a server reaches it by the connection that the
// agent has opened.
const TunnelAddress = "tunnel:"

func (n *Node) fields(w *wire.Pass) {
	wire.List(w, 2, (*[]Request)(&n.Capacity), (*Request).fields)
	wire.List(w, 3, &n.Labels, (*Label).fields)
	wire.Text(w, 4, &n.Address)
	wire.Text(w, 5, &n.Version)
	wire.Integer(w, 6, &n.PortFirst)
	wire.Integer(w, 7, &n.PortLast)
	wire.Text(w, 8, &n.Host)
	wire.List(w, 10, &n.SetLabels, (*Label).fields)
	wire.List(w, 11, &n.HiddenLabels, (*Label).fields)
}

// Label is a property of a node, job or task, by which users select it.
type Label struct{ Name, Value string }

func (l *Label) fields(w *wire.Pass) {
	wire.Text(w, 2, &l.Name)
	wire.Text(w, 3, &l.Value)
}

// SortLabels returns labels in the order in which a selector stores them, each once: the order in
// which a user writes them has no meaning.
func SortLabels(labels []Label) []Label {
	return slices.Compact(slices.SortedFunc(slices.Values(labels), func(a, b Label) int {
		return cmp.Or(strings.Compare(a.Name, b.Name), strings.Compare(a.Value, b.Value))
	}))
}

// The syntax of labels is that of Kubernetes: a key is a name, or domain/name; a value is a name or
// empty.

// ValidateLabelKey checks the key of a label.
func ValidateLabelKey(field, key string) error {
	domain, name, prefixed := strings.Cut(key, "/")
	if !prefixed {
		return ValidateName(field, key)
	}
	if len(domain) > MaxLabelDomain || !isDomain(domain) {
		return Errorf(Invalid, "%s: %q begins with no domain: write a key like team, or acme.com/team with at most %d bytes before the slash", field, shorten(key), MaxLabelDomain)
	}
	return ValidateName(field, name)
}

// isDomain reports whether a text is a domain of DNS in lower case.
func isDomain(text string) bool {
	for part := range strings.SplitSeq(text, ".") {
		if !isName(part) || strings.ContainsAny(part, "_ABCDEFGHIJKLMNOPQRSTUVWXYZ") {
			return false
		}
	}
	return true
}

// ValidateLabelValue checks the value of a label, which may be empty.
func ValidateLabelValue(field, value string) error {
	if value == "" {
		return nil
	}
	return ValidateName(field, value)
}

// validate checks a label.
func (l *Label) validate(field string) error {
	key, value := ValidateLabelKey(field, l.Name), ValidateLabelValue(field+"."+shorten(l.Name), l.Value)
	return joinInvalid(nonNil([]error{key, value}))
}

// ValidateLabels checks labels that a user gives: each key once.
func ValidateLabels(field string, labels []Label) error {
	if len(labels) == 0 {
		return nil
	}
	var p problems
	if !p.count(field, len(labels), MaxLabels) {
		return p.err()
	}
	for i := range labels {
		l := &labels[i]
		p.add(l.validate(field))
		if j := slices.IndexFunc(labels[:i], func(o Label) bool { return o.Name == l.Name }); j >= 0 {
			p.add(Errorf(Invalid, "%s.%s: is given twice, as %q and %q: drop one", field, l.Name, labels[j].Value, l.Value))
		}
	}
	return p.err()
}

// labels checks stored labels.
func (p *problems) labels(field string, labels []Label) {
	if !p.count(field, len(labels), MaxLabels) {
		return
	}
	for i := range labels {
		p.add(labels[i].validate(field))
	}
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

// Alive is the value that an agent keeps on its lease. The CreateRevision of its key is the session
// of the node.
type Alive struct {
	Extra
	// TTLSeconds is the time to live of the lease, in seconds.
	TTLSeconds int64
	// Token has the content of a Token in keys of older agents. It is read if there is no Token,
	// and never written.
	Token string
}

func (a *Alive) fields(w *wire.Pass) {
	wire.Integer(w, 2, &a.TTLSeconds)
	wire.Text(w, 3, &a.Token)
}

// Token lets its bearer use the API of a node: files, output and commands of its tasks, in all
// namespaces. It is new in each session, and ends with it. It has its own key, so that a reader of
// sessions cannot use the nodes.
type Token struct {
	Extra
	Token string
}

func (t *Token) fields(w *wire.Pass) { wire.Text(w, 2, &t.Token) }

// Devices lists the devices of a node.
type Devices struct {
	Extra
	Devices []Device
}

func (d *Devices) fields(w *wire.Pass) { wire.List(w, 2, &d.Devices, (*Device).fields) }

// Device is one device.
type Device struct {
	// ID is its name in the Container Device Interface, such as
	// nvidia.com/gpu=GPU-1234.
	ID string
	// Resource is the physical resource of the device.
	Resource ResourceID
	// Model, MemoryBytes and NUMA describe it; empty, 0 and -1 mean unknown. NUMA is the nearest
	// memory node of the machine.
	Model       string
	MemoryBytes int64
	NUMA        int
	// Unhealthy says why the device must not be used; empty means that it may.
	Unhealthy string
	// Links are names, chosen by the node, of the links of the device. Devices on one link reach
	// each other directly.
	Links []string
	// UnhealthySince is the beginning of Unhealthy, in Unix nanoseconds; 0 if it is healthy.
	UnhealthySince int64
	// Bus is its address on the PCI bus, such as 0000:17:00.0; empty if unknown.
	Bus string
	// Parent is the device that it is a slice of, by its driver's name; tasks do not get the parent
	// itself. Empty if it is no slice.
	Parent string
}

func (d *Device) fields(w *wire.Pass) {
	wire.Text(w, 2, &d.ID)
	wire.Text(w, 3, &d.Resource)
	wire.Text(w, 4, &d.Model)
	wire.Integer(w, 5, &d.MemoryBytes)
	wire.Integer(w, 6, &d.NUMA)
	wire.Text(w, 7, &d.Unhealthy)
	wire.Texts(w, 8, &d.Links)
	wire.Integer(w, 9, &d.UnhealthySince)
	wire.Text(w, 10, &d.Bus)
	wire.Text(w, 11, &d.Parent)
}

// Cordon keeps new tasks off a node.
type Cordon struct {
	Extra
	Reason string
	// DrainBy is the deadline of DrainFinish, in Unix nanoseconds: tasks still there then are
	// moved. 0 means no deadline.
	DrainBy int64
	// Drain says how running tasks leave.
	Drain DrainMode
	// Grace is the time between stop signal and kill of tasks that must leave; 0 means that of
	// their specs.
	Grace time.Duration
	// Dead is the word of an administrator that no task of the node runs on the machine any more,
	// or ever will. Kept tasks are then lost too. It applies while the node is not alive.
	Dead bool
}

// DrainMode says how running tasks leave a cordoned node.
type DrainMode string

// The modes. DrainFinish lets tasks end by themselves until Cordon.DrainBy, and then moves the
// rest. DrainMove evicts them at once, so they wait for their next attempt. DrainStop stops them
// for good.
const (
	DrainNone   DrainMode = ""
	DrainFinish DrainMode = "finish"
	DrainMove   DrainMode = "move"
	DrainStop   DrainMode = "stop"
)

func (c *Cordon) fields(w *wire.Pass) {
	reason(w, 2, &c.Reason)
	wire.Integer(w, 3, &c.DrainBy)
	wire.Text(w, 4, &c.Drain)
	wire.Integer(w, 5, &c.Grace)
	w.Boolean(6, &c.Dead)
}

// Selector selects nodes: every part that is set must match, and an empty one selects all nodes.
type Selector struct {
	// Nodes are the names to select from.
	Nodes []string `json:"nodes,omitempty"`
	// Labels are the labels a node must have.
	Labels []Label `json:"labels,omitempty"`
	// Available is the least free amount of each resource at the time of the selection. Such a
	// selector selects nodes once, and ignores later ones.
	Available Requests `json:"available,omitempty"`
}

func (s *Selector) fields(w *wire.Pass) {
	wire.Texts(w, 2, &s.Nodes)
	wire.List(w, 3, &s.Labels, (*Label).fields)
	wire.List(w, 4, (*[]Request)(&s.Available), (*Request).fields)
}

// Matches reports whether name and labels of a node match. The caller checks Available.
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
