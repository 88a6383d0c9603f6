package types

import (
	"strconv"
	"strings"
)

// ResourceID names a resource as accounting knows it, the same in every
// namespace:
//
//	cpu memory disk gpu port   physical, a fixed list
//	port/8080                  physical, one on every node
//	acme.com/fpga              physical, of a domain
//	escher.io/privileged       physical, unbounded, on the nodes that permit it: see Spec.Permits
//	node/n1  rack/r7  zone/a   placement: unbounded, on the nodes so labelled
//	team-a:co_location         ephemeral, of namespace team-a
//	team-a:gpu@train           scoped: gpu that reservation train of team-a holds
//
// A request names it without the namespace; see Resolve. Names of ephemeral
// resources contain neither "/" nor ":" nor "@", so that none can collide.
type ResourceID string

// The physical resources every node may have.
const (
	CPU    ResourceID = "cpu"    // milli-cpu
	Memory ResourceID = "memory" // bytes
	Disk   ResourceID = "disk"   // bytes
	GPU    ResourceID = "gpu"    // thousandths of a device
	Port   ResourceID = "port"   // a port of the node's range, given out by number
)

// FixedPort returns the resource that is one port of a node by its number, such as
// port/8080: every node has one of each that is not in its own range.
func FixedPort(number int) ResourceID {
	return ResourceID(string(Port) + "/" + strconv.Itoa(number))
}

// FixedPort returns the number of the port that id is; false for another resource.
func (id ResourceID) FixedPort() (number int, ok bool) {
	kind, text, _ := strings.Cut(string(id), "/")
	if kind != string(Port) {
		return 0, false
	}
	number, err := strconv.Atoi(text)
	if err != nil || number < 1 || number > MaxPort || text != strconv.Itoa(number) {
		return 0, false
	}
	return number, true
}

// MaxPort is the largest number of a port.
const MaxPort = 65535

// Resolve returns the id of a resource that a task of namespace ns requests by
// name.
func Resolve(ns, name string) ResourceID {
	if !isOf(name) {
		return ResourceID(name)
	}
	return ResourceID(ns + ":" + name)
}

// isOf reports whether a name is of the namespace that asks for it.
func isOf(name string) bool {
	return !strings.Contains(name, ":") && (strings.Contains(name, "@") || !IsPhysical(name))
}

// AppendResolved appends to b what Resolve returns.
func AppendResolved(b []byte, ns, name string) []byte {
	if !isOf(name) {
		return append(b, name...)
	}
	return append(append(append(b, ns...), ':'), name...)
}

// IsPhysical reports whether an application may not create name: it is one of
// the fixed list, of a domain, or a placement.
func IsPhysical(name string) bool {
	switch ResourceID(name) {
	case CPU, Memory, Disk, GPU, Port:
		return true
	}
	return strings.Contains(name, "/")
}

// IsPlacement reports whether id says where and is not counted: node/<name>,
// rack/<label> or zone/<label>.
func (id ResourceID) IsPlacement() bool {
	kind, _, ok := strings.Cut(string(id), "/")
	return ok && (kind == "node" || kind == "rack" || kind == "zone")
}

// Physical reports whether id is counted against the capacity that a node's
// agent registered.
func (id ResourceID) Physical() bool {
	return !strings.Contains(string(id), ":")
}

// Split returns the namespace, name and reservation of an ephemeral or scoped
// resource; ns is empty for a physical one, reservation unless it is scoped.
func (id ResourceID) Split() (ns, name, reservation string) {
	ns, name, ok := strings.Cut(string(id), ":")
	if !ok {
		return "", string(id), ""
	}
	name, reservation, _ = strings.Cut(name, "@")
	return ns, name, reservation
}

// Scoped reports whether id is drawn from a reservation.
func (id ResourceID) Scoped() bool { return strings.Contains(string(id), "@") }

// Unscoped returns what the reservation of a scoped resource holds: gpu for
// team-a:gpu@train, team-a:x for team-a:x@train. Other ids are returned as they
// are.
func (id ResourceID) Unscoped() ResourceID {
	ns, name, reservation := id.Split()
	if reservation == "" {
		return id
	}
	return Resolve(ns, name)
}

// Scope returns id as reservation of ns holds it.
func (id ResourceID) Scope(ns, reservation string) ResourceID {
	_, name, _ := id.Split()
	return ResourceID(ns + ":" + name + "@" + reservation)
}

// In returns the name by which a task of namespace ns requests id.
func (id ResourceID) In(ns string) string {
	return strings.TrimPrefix(string(id), ns+":")
}

// UnitOf returns the unit of a resource, by id or by name.
func UnitOf(id ResourceID) Unit {
	_, name, _ := id.Split()
	base, _, _ := strings.Cut(name, "@")
	if base == string(Memory) || base == string(Disk) {
		return Bytes
	}
	return Milli
}

// Resource is what is stored of an ephemeral resource at one place.
type Resource struct {
	Extra
	// Capacity is how much of it there is; 0 when it is declared and closed.
	Capacity Quantity
	// Lifetime is what ends it.
	Lifetime Lifetime
	// Owner is the task, session, reservation, job or shared policy of that lifetime, by id.
	Owner string
	// Selector says on which nodes it is, for a resource of many nodes.
	Selector *Selector
	// NodeSession is the session of the node it is on, for a resource of one
	// node: it is void in any other.
	NodeSession int64
}

func (r *Resource) fields(w *wire) {
	integer(w, 2, &r.Capacity)
	text(w, 3, &r.Lifetime)
	text(w, 4, &r.Owner)
	optional(w, 5, &r.Selector, (*Selector).fields)
	integer(w, 6, &r.NodeSession)
}

// Lifetime is what an ephemeral resource ends with, besides being removed.
type Lifetime string

// The lifetimes. A resource of one node also ends with the session of the node.
const (
	Forever       Lifetime = ""
	OfTask        Lifetime = "task"
	OfSession     Lifetime = "session"
	OfReservation Lifetime = "reservation"
	// OfJob is until all tasks of the job have ended.
	OfJob Lifetime = "job"
	// OfPolicy is until the policy that jobs share, by its id, is withdrawn.
	OfPolicy Lifetime = "policy"
)

// Where a resource is, in its key, when it is not on one node.
const (
	// EveryNode is that capacity on every node its selector matches.
	EveryNode = "+"
	// ClusterWide is one pool for the whole cluster.
	ClusterWide = "*"
)
