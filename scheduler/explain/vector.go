package explain

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/escher-sched/escher/controlplane"
	"github.com/escher-sched/escher/controlplane/cluster"
	"github.com/escher-sched/escher/controlplane/grants"
	"github.com/escher-sched/escher/controlplane/match"
	"github.com/escher-sched/escher/controlplane/why"
	"github.com/escher-sched/escher/types"
)

// finding is the result for one request vector: why it fits nowhere, or where it fits.
type finding struct {
	ns    string
	needs []cluster.Need
	// pools are the short pools.
	pools []lack
	// fits are the nodes where it fits. short are nodes with too little free. barred are ineligible
	// nodes, whether or not they have enough. The nearest are first.
	fits          []*cluster.Node
	short, barred []candidate
	// tooSmall are all nodes with what they lack even when empty; nil if one lacks nothing.
	tooSmall []candidate
	// allowed is when the alternative becomes allowed; zero means now.
	allowed time.Time
	// said caches the reason. stuck reports whether the awaited resource cannot come.
	said  why.Reason
	stuck bool
	// unmet is the resource or reservation that the remedy sets or reserves.
	unmet string
}

// candidate is a node with what it lacks.
type candidate struct {
	node     *cluster.Node
	lacks    []lack
	distance float64
}

// lack is a need that a node or pool cannot meet.
type lack struct {
	cluster.Need
	free, capacity types.Quantity
	// known reports whether the resource exists there. astray reports whether there is enough, but
	// the devices never match the topology.
	known, astray bool
}

// small reports whether even an empty node has too little.
func (l *lack) small() bool { return l.capacity < l.Amount || l.astray }

// infeasible reports whether no registered node is large enough.
func (f *finding) infeasible() bool { return len(f.tooSmall) > 0 }

// placeable reports whether it fits now, disregarding allowed.
func (f *finding) placeable() bool { return len(f.fits) > 0 && len(f.pools) == 0 }

// find checks every node with the predicates of the scheduler.
func (e *explainer) find(ns string, needs []cluster.Need) *finding {
	e.read.needs(needs)
	f := &finding{ns: ns, needs: needs}
	for _, x := range needs {
		if p := e.v.Pool(x.ID); p != nil && e.d.PoolFree(p) < x.Amount {
			f.pools = append(f.pools, lack{Need: x, free: e.d.PoolFree(p), capacity: p.Capacity(), known: true})
		}
	}
	large := false
	f.short = make([]candidate, 0, len(e.nodes)) // most often all
	for _, n := range e.nodes {
		e.looks++
		c := e.candidate(n, needs)
		switch {
		case !n.Eligible():
			f.barred = append(f.barred, c)
		case len(c.lacks) == 0:
			f.fits = append(f.fits, n)
		default:
			f.short = append(f.short, c)
		}
		if large {
			continue
		}
		if lacks := e.everLacking(n, needs); len(lacks) > 0 {
			f.tooSmall = append(f.tooSmall, candidate{n, lacks, distance(lacks)})
		} else {
			large, f.tooSmall = true, nil
		}
	}
	for _, list := range [][]candidate{f.short, f.barred, f.tooSmall} {
		slices.SortFunc(list, func(a, b candidate) int {
			return cmp.Or(cmp.Compare(a.distance, b.distance), strings.Compare(a.node.Name, b.node.Name))
		})
	}
	return f
}

// candidate returns n with everything it lacks; fits stops at the first.
func (e *explainer) candidate(n *cluster.Node, needs []cluster.Need) candidate {
	c := candidate{node: n}
	for i := range needs {
		if _, ok := e.d.Fits(n, needs[i:i+1]); !ok {
			c.lacks = append(c.lacks, e.lack(n, needs[i]))
		}
	}
	c.distance = distance(c.lacks)
	return c
}

func (e *explainer) lack(n *cluster.Node, x cluster.Need) lack {
	free, known := e.d.Free(n, x.ID)
	// The capacity as the draft leaves it, including its own provided and granted amounts.
	capacity := free.Add(grants.HeldOf(e.d.Holds(n), x.ID))
	astray := false
	if x.Devices != nil {
		free, capacity = e.such(n, x, free)
		astray = capacity >= x.Amount && !match.Possible(e.d.EverSlots(n, x), x.Amount, match.TopologyOf(x))
	}
	return lack{x, free, capacity, known, astray}
}

// everLacking returns the physical needs that n cannot meet even when empty. Ephemeral resources
// may appear at any time, and devices may recover.
func (e *explainer) everLacking(n *cluster.Node, needs []cluster.Need) []lack {
	var out []lack
	r := e.d.RoomOn(n)
	for _, x := range needs {
		if !x.ID.Physical() || r.EverHas(x) {
			continue
		}
		capacity, known := e.v.Capacity(n, x.ID)
		if x.Devices != nil {
			_, capacity = e.such(n, x, 0)
		}
		out = append(out, lack{x, capacity, capacity, known, x.Devices != nil && capacity >= x.Amount})
	}
	return out
}

// distance says how far a node is from fitting: another place is farthest, then a larger node, then
// a missing resource.
func distance(lacks []lack) float64 {
	var sum float64
	for _, x := range lacks {
		switch {
		case x.ID.IsPlacement():
			sum += 10000
		case x.ID.Physical() && x.small():
			sum += 100 * (1 + share01(x.Amount-x.capacity, x.Amount))
		case !x.known:
			sum += 10
		default:
			sum += 1 + share01(x.Amount-x.free, x.Amount)
		}
	}
	return sum
}

// share01 is part divided by of, between 0 and 1.
func share01(part, of types.Quantity) float64 {
	if of <= 0 {
		return 0
	}
	return min(1, max(0, float64(part)/float64(of)))
}

// lacking returns the lack of a resource, if there is one.
func (c *candidate) lacking(rid types.ResourceID) (lack, bool) {
	for _, x := range c.lacks {
		if x.ID == rid {
			return x, true
		}
	}
	return lack{}, false
}

// barredBy says why a node is ineligible.
func barredBy(n *cluster.Node) string {
	switch {
	case n.Alive.V == nil:
		return "not alive"
	case n.Cordon.V != nil && n.Cordon.V.Reason != "":
		return "cordoned: " + n.Cordon.V.Reason
	case n.Cordon.V != nil:
		return "cordoned"
	case !n.Eligible():
		return unreadOf(n) + " cannot be read"
	}
	return ""
}

// unreadOf returns the key of a node that cannot be read.
func unreadOf(n *cluster.Node) string {
	switch {
	case n.Info.Unread():
		return controlplane.NodeKey(n.Name)
	case n.Cordon.Unread():
		return controlplane.CordonKey(n.Name)
	case n.Devices.Unread():
		return controlplane.DevicesKey(n.Name)
	}
	return controlplane.AllocatedKey(n.Name)
}

// rejection says briefly why a vector does not fit on a node.
func rejection(ns string, c candidate) string {
	if why := barredBy(c.node); why != "" {
		return why
	}
	var parts []string
	for _, x := range c.lacks {
		name := why.NameOf(ns, x.ID)
		switch {
		case x.ID.IsPlacement():
			// In the wrong place, nothing else matters.
			if node, ok := strings.CutPrefix(string(x.ID), "node/"); ok {
				return "not " + node
			}
			return "not in " + name
		case !x.known:
			parts = append(parts, "no "+name)
		case fixedPort(x.ID):
			parts = append(parts, name+" not free")
		case x.astray:
			parts = append(parts, "no "+wantOf(ns, x.Need))
		case x.ID.Physical() && x.capacity < x.Amount:
			parts = append(parts, tooLittle(name)+which(x.Need))
		default:
			parts = append(parts, "short of "+name+which(x.Need))
		}
	}
	return strings.Join(parts, ", ")
}

func tooLittle(name string) string {
	if strings.HasSuffix(name, "s") { // such as ports
		return "too few " + name
	}
	return "too little " + name
}

func fixedPort(rid types.ResourceID) bool {
	_, fixed := rid.FixedPort()
	return fixed
}

// explanation converts a finding to its exported form.
func (e *explainer) explanation(f *finding, requests types.Requests) why.Vector {
	x := why.Vector{Requests: requests, Devices: devicesOf(f.needs), Fits: names(f.fits), Infeasible: f.infeasible()}
	if !f.allowed.IsZero() {
		x.AllowedAt = &f.allowed
	}
	for _, l := range f.pools {
		x.Pools = append(x.Pools, e.missing(nil, l))
	}
	reasons := make(map[string][]string)
	for _, list := range [][]candidate{f.short, f.barred} {
		for _, c := range list {
			reason := rejection(f.ns, c)
			reasons[reason] = append(reasons[reason], c.node.Name)
		}
	}
	x.Rejected = byFrequency(reasons)
	for _, c := range f.barred {
		if len(c.lacks) == 0 {
			x.Barred = append(x.Barred, c.node.Name)
		}
	}
	nearest := f.short
	if f.infeasible() {
		nearest = f.tooSmall
	}
	nearest = filtered(nearest, func(c *candidate) bool { return !astray(c) })
	for _, c := range nearest[:min(3, len(nearest))] {
		near := why.Nearest{Node: c.node.Name}
		for _, l := range c.lacks {
			near.Missing = append(near.Missing, e.missing(c.node, l))
		}
		x.Nearest = append(x.Nearest, near)
	}
	return x
}

// missing converts a lack, on a node or of a pool, to its exported form.
func (e *explainer) missing(n *cluster.Node, x lack) why.Missing {
	m := why.Missing{
		Resource: x.ID, Want: x.Amount.Format(x.ID), Free: x.free.Format(x.ID), Capacity: x.capacity.Format(x.ID), Absent: !x.known,
	}
	if x.Devices != nil {
		m.Which = x.Devices.String()
	}
	if x.ID.IsPlacement() {
		m.Want, m.Free, m.Capacity = "", "", ""
	}
	if n != nil {
		m.Reason = e.oddity(n, x)
	} else if x.free < 0 {
		m.Reason = lowered
	}
	return m
}

// lowered describes a resource allocated beyond its capacity.
const lowered = "its capacity was lowered below what is in use"

// oddity explains a lack that the amounts do not explain; empty if they do.
func (e *explainer) oddity(n *cluster.Node, x lack) string {
	if number, fixed := x.ID.FixedPort(); fixed {
		if n.HasInRange(number) {
			return fmt.Sprintf("it is of the node's own range, %d to %d", n.Info.V.PortFirst, n.Info.V.PortLast)
		}
		return ""
	}
	if own := n.Own[x.ID]; own != nil && own.V.NodeSession != n.Session() {
		return "set in a former session of the node, and void since"
	}
	if x.known && x.free < 0 {
		return lowered
	}
	if x.Devices != nil {
		return e.astrayDevices(n, x)
	}
	if x.free < x.Amount || x.ID == types.Port {
		return ""
	}
	return e.inPieces(n, x)
}

// inPieces lists the devices when a free amount cannot be made up of them.
func (e *explainer) inPieces(n *cluster.Node, x lack) string {
	var parts []string
	slots := e.d.Slots(n, x.ID, nil)
	for _, s := range slots {
		switch {
		case s.Capacity != 0:
		case s.Device == nil:
			parts = append(parts, s.ID+" is gone")
		default:
			parts = append(parts, fmt.Sprintf("%s is unhealthy: %s", s.ID, s.Device.Unhealthy))
		}
	}
	if x.Amount > match.Whole && x.Amount%match.Whole != 0 {
		parts = append(parts, "more than one is given out only as a whole number")
	}
	for _, s := range slots {
		if rest := s.Capacity - s.Used; rest > 0 && len(parts) < few {
			parts = append(parts, fmt.Sprintf("%s has %s free", s.ID, rest.Format(x.ID)))
		}
	}
	return strings.Join(parts, ", ")
}

func byFrequency(reasons map[string][]string) []why.Rejection {
	var out []why.Rejection
	for reason, nodes := range reasons {
		slices.Sort(nodes)
		out = append(out, why.Rejection{Reason: reason, Nodes: nodes})
	}
	slices.SortFunc(out, func(a, b why.Rejection) int {
		if len(a.Nodes) != len(b.Nodes) {
			return len(b.Nodes) - len(a.Nodes)
		}
		return strings.Compare(a.Reason, b.Reason)
	})
	return out
}
