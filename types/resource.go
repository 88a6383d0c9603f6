package types

import (
	"strconv"
	"strings"

	"github.com/escher-sched/escher/types/wire"
)

// ResourceID names a resource in accounting, the same in every namespace:
//
//	cpu memory disk gpu port   physical, a fixed list
//	port/8080                  physical, one on every node
//	acme.com/fpga              physical, of a domain
//	escher.io/privileged       physical, unbounded, on the nodes that permit it: see Spec.Permits
//	node/n1  rack/r7  zone/a   placement: unbounded, on the nodes with that name or label
//	team-a:co_location         ephemeral, of namespace team-a
//	team-a:gpu@train           scoped: gpu that reservation train of team-a holds
//
// A request uses the name without the namespace; see Resolve. Names of ephemeral resources contain
// no "/", ":" or "@", so that none can collide.
type ResourceID string

// The physical resources that every node may have.
const (
	CPU    ResourceID = "cpu"    // milli-cpu
	Memory ResourceID = "memory" // bytes
	Disk   ResourceID = "disk"   // bytes
	GPU    ResourceID = "gpu"    // thousandths of a device
	Port   ResourceID = "port"   // a port of the node's range, assigned by number
)

// FixedPort returns the resource of one port number, such as port/8080. Every node has one of each
// outside its own range.
func FixedPort(number int) ResourceID {
	return ResourceID(string(Port) + "/" + strconv.Itoa(number))
}

// FixedPort returns the port number of id; ok is false for other resources.
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

// MaxPort is the largest port number.
const MaxPort = 65535

// Resolve returns the id of the resource that a task of namespace ns requests by name.
func Resolve(ns, name string) ResourceID {
	if !isOf(name) {
		return ResourceID(name)
	}
	return ResourceID(ns + ":" + name)
}

// isOf reports whether a name belongs to the requesting namespace.
func isOf(name string) bool {
	return !strings.Contains(name, ":") && (strings.Contains(name, "@") || !IsPhysical(name))
}

// AppendResolved appends the result of Resolve to b.
func AppendResolved(b []byte, ns, name string) []byte {
	if !isOf(name) {
		return append(b, name...)
	}
	return append(append(append(b, ns...), ':'), name...)
}

// IsPhysical reports whether applications may not create name: it is in the fixed list, in a
// domain, or a placement.
func IsPhysical(name string) bool {
	switch ResourceID(name) {
	case CPU, Memory, Disk, GPU, Port:
		return true
	}
	return strings.Contains(name, "/")
}

// IsPlacement reports whether id is a location and not counted: node/<name>, rack/<label> or
// zone/<label>.
func (id ResourceID) IsPlacement() bool {
	kind, _, ok := strings.Cut(string(id), "/")
	return ok && (kind == "node" || kind == "rack" || kind == "zone")
}

// Physical reports whether id counts against the capacity that a node's agent registered.
func (id ResourceID) Physical() bool {
	return !strings.Contains(string(id), ":")
}

// OfDevices reports whether id is a physical resource that is usually made of devices: gpu, or one of
// a vendor, such as acme.com/fpga.
func (id ResourceID) OfDevices() bool {
	vendor, _, ok := strings.Cut(string(id), "/")
	return id == GPU || ok && id.Physical() && !id.IsPlacement() && strings.Contains(vendor, ".")
}

// Split returns the namespace, name and reservation of an ephemeral or scoped resource. ns is empty
// for a physical one, reservation for an unscoped one.
func (id ResourceID) Split() (ns, name, reservation string) {
	ns, name, ok := strings.Cut(string(id), ":")
	if !ok {
		return "", string(id), ""
	}
	name, reservation, _ = strings.Cut(name, "@")
	return ns, name, reservation
}

// Scoped reports whether id draws on a reservation.
func (id ResourceID) Scoped() bool { return strings.Contains(string(id), "@") }

// Unscoped returns the resource that the reservation of a scoped id holds: gpu for
// team-a:gpu@train, team-a:x for team-a:x@train. Other ids are unchanged.
func (id ResourceID) Unscoped() ResourceID {
	ns, name, reservation := id.Split()
	if reservation == "" {
		return id
	}
	return Resolve(ns, name)
}

// Scope returns the scoped id of id, held by a reservation of ns.
func (id ResourceID) Scope(ns, reservation string) ResourceID {
	_, name, _ := id.Split()
	return ResourceID(ns + ":" + name + "@" + reservation)
}

// In returns the name by which a task of namespace ns requests id.
func (id ResourceID) In(ns string) string {
	return strings.TrimPrefix(string(id), ns+":")
}

// UnitOf returns the unit of a resource, given its id or name.
func UnitOf(id ResourceID) Unit {
	_, name, _ := id.Split()
	base, _, _ := strings.Cut(name, "@")
	if base == string(Memory) || base == string(Disk) {
		return Bytes
	}
	return Milli
}

// Resource is the stored value of an ephemeral resource at one location.
type Resource struct {
	Extra
	// Capacity is the total amount; 0 means declared and closed.
	Capacity Quantity
	// Lifetime is the kind of object whose end removes it.
	Lifetime Lifetime
	// Owner is the id of the task, session, reservation, job or shared policies of that lifetime.
	Owner string
	// Selector selects the nodes of a resource of many nodes.
	Selector *Selector
	// NodeSession is the session of its node, for a resource of one node. The resource is void in
	// any other session.
	NodeSession int64
}

func (r *Resource) fields(w *wire.Pass) {
	wire.Integer(w, 2, &r.Capacity)
	wire.Text(w, 3, &r.Lifetime)
	wire.Text(w, 4, &r.Owner)
	wire.Optional(w, 5, &r.Selector, (*Selector).fields)
	wire.Integer(w, 6, &r.NodeSession)
}

// Lifetime is the kind of object whose end removes an ephemeral resource.
type Lifetime string

// The lifetimes. A resource of one node also ends with the session of the node.
const (
	Forever       Lifetime = ""
	OfTask        Lifetime = "task"
	OfSession     Lifetime = "session"
	OfReservation Lifetime = "reservation"
	// OfJob lasts until all tasks of the job have ended.
	OfJob Lifetime = "job"
	// OfPolicy lasts until the shared policies with the owner's id are withdrawn.
	OfPolicy Lifetime = "policy"
)

// The locations of a resource, in its key, besides one node.
const (
	// EveryNode means that capacity on every node that the selector matches.
	EveryNode = "+"
	// ClusterWide means one pool for the whole cluster.
	ClusterWide = "*"
)
