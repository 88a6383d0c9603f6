package taskset

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/escher-sched/escher/controlplane/cluster"
	"github.com/escher-sched/escher/controlplane/match"
	"github.com/escher-sched/escher/esl"
	"github.com/escher-sched/escher/types"
)

// isCounted reports whether the registration of a node says how much of a resource it has.
func isCounted(id types.ResourceID) bool {
	return id == types.CPU || id == types.Memory || id == types.Disk || id == types.GPU
}

// mostFitting returns an upper bound for how many of the needs fit, exact if all are equal. It
// places each run of equal needs as if it were alone.
func mostFitting(nodes []*cluster.Node, needs [][]cluster.Need, space match.Space) int {
	n := 0
	for len(needs) > 0 {
		alike := 1
		for alike < len(needs) && slices.Equal(needs[alike], needs[0]) {
			alike++
		}
		n += space.Fit(nodes, needs[:alike])
		needs = needs[alike:]
	}
	return n
}

// MostInNodes returns an upper bound for how many of the needs would fit on the registered nodes if
// these were empty, in the domain where most fit; known is false if there is no node, or a node's
// capacity is unknown.
func MostInNodes(all map[string]*types.Node, over esl.Domain, needs [][]cluster.Need) (most int, known bool) {
	domains, known := emptyDomains(all, over)
	if !known {
		return 0, false
	}
	needs = only(needs, isCounted) // other resources must not make needs differ
	for _, in := range domains {
		most = max(most, mostFitting(in, needs, match.Empty(cluster.New())))
	}
	return most, len(all) > 0
}

// emptyDomains returns the registered nodes without what is on them, by domain; without over, all
// are one domain. known is false if the capacity of one is unknown.
func emptyDomains(all map[string]*types.Node, over esl.Domain) (domains map[string][]*cluster.Node, known bool) {
	domains = make(map[string][]*cluster.Node)
	for name, n := range all {
		in := ""
		if n == nil {
			return nil, false
		}
		if over != "" {
			if in = n.Label(string(over)); in == "" {
				continue
			}
		}
		node := &cluster.Node{Name: name}
		node.Info.V = n
		domains[in] = append(domains[in], node)
	}
	return domains, true
}

// only returns the needs of some resources. It leaves out which devices they need: those of a registered
// node are unknown.
func only(needs [][]cluster.Need, of func(types.ResourceID) bool) [][]cluster.Need {
	out := make([][]cluster.Need, len(needs))
	for i, bundle := range needs {
		for _, x := range bundle {
			if of(x.ID) {
				out[i] = append(out[i], cluster.Need{ID: x.ID, Amount: x.Amount})
			}
		}
	}
	return out
}

// Sums adds up the needs of each resource.
func Sums(needs [][]cluster.Need) map[types.ResourceID]types.Quantity {
	sums := make(map[types.ResourceID]types.Quantity)
	for _, bundle := range needs {
		for _, x := range bundle {
			sums[x.ID] = sums[x.ID].Add(x.Amount)
		}
	}
	return sums
}

// Labeled reports whether a node has a label of a name, or may have one because it is unknown.
func Labeled(nodes map[string]*types.Node, name string) bool {
	for _, n := range nodes {
		if n == nil || n.Label(name) != "" {
			return true
		}
	}
	return false
}

// Lacking says which resource is short even if nothing is allocated, "" if none is: a pool smaller
// than the sum of all needs, or a resource that no node has. It ignores the resource place, and the absence of
// what is of other namespaces: the view may lack it.
func Lacking(s *esl.State, needs [][]cluster.Need, place string) string {
	v, sums := s.View, Sums(needs)
	delete(sums, types.Resolve(s.Namespace, place))
	for _, id := range slices.Sorted(maps.Keys(sums)) {
		switch pool := v.Pool(id); {
		case Unseen(s, id):
		case pool != nil && sums[id] > pool.Capacity():
			return fmt.Sprintf("it asks for %s of %s, which has %s: it waits until that has as much", sums[id].Format(id), id, pool.Capacity().Format(id))
		case pool == nil && sums[id] > 0 && !slices.ContainsFunc(s.Nodes(), func(n *cluster.Node) bool { return Capacity(s, n, id) > 0 }):
			return fmt.Sprintf("it asks for %s, of which no node has any: it waits until one has", id)
		}
	}
	return ""
}

// Unseen reports whether a resource is of another namespace, and not in the view.
func Unseen(s *esl.State, id types.ResourceID) bool {
	ns, _, _ := id.Split()
	return ns != "" && ns != s.Namespace && s.View.Pool(id) == nil && s.View.Everywhere[id] == nil && len(s.View.At(id)) == 0
}

// NeedsOf returns the needs of each bundle of a reservation, with the requests and quotas of the
// namespace in the view; nil means an empty view.
func NeedsOf(v *cluster.View, ns string, r *types.Reservation) [][]cluster.Need {
	if v == nil {
		v = cluster.New()
	}
	needs := make([][]cluster.Need, len(r.Bundles))
	for i, b := range r.Bundles {
		if i > 0 && slices.Equal(b.Requests, r.Bundles[i-1].Requests) && slices.EqualFunc(b.Devices, r.Bundles[i-1].Devices, sameDevices) {
			needs[i] = needs[i-1] // as in most gangs
			continue
		}
		needs[i] = v.BundleNeeds(ns, b.Requests, b.Devices...)
	}
	return needs
}

func sameDevices(a, b types.DeviceRequest) bool { return a.String() == b.String() }

// DomainWithRoom returns a domain in which all needs fit, the domain rather if possible; "" if
// there is none. Without over, the cluster is one domain, "". most is how many needs fit where most
// do. Resources in out count as unlimited.
func DomainWithRoom(s *esl.State, over esl.Domain, needs [][]cluster.Need, out map[types.ResourceID]bool, rather string, space match.Space) (in string, most int) {
	nodes := make(map[string][]*cluster.Node)
	for _, n := range s.Nodes() {
		d := ""
		if over != "" {
			d = over.Of(n)
		}
		if over == "" || d != "" {
			nodes[d] = append(nodes[d], n)
		}
	}
	limits := make(map[types.ResourceID]types.Quantity, len(out))
	for _, d := range slices.Insert(slices.Sorted(maps.Keys(nodes)), 0, rather) {
		even := types.Inf
		if over == esl.Rack && len(needs) > 0 {
			even = evenly(s, nodes[d], needs, out)
		}
		for id := range out {
			if limits[id] = types.Inf; strings.HasSuffix(string(id), "."+kindSpread) {
				limits[id] = even // spread over nodes, because all are in one rack
			}
		}
		n := space.Limited(limits).Fit(nodes[d], needs)
		if most = max(most, n); n == len(needs) {
			return d, n
		}
	}
	return "", most
}

// evenly returns the most of a spread's resource that each node holds when needs are spread over
// the nodes that are large enough.
func evenly(s *esl.State, nodes []*cluster.Node, needs [][]cluster.Need, out map[types.ResourceID]bool) types.Quantity {
	large := 0
	rest := slices.DeleteFunc(slices.Clone(needs[0]), func(x cluster.Need) bool { return out[x.ID] })
	for _, n := range nodes {
		large += BoolInt(esl.NewRoom(s.View, n).EverFits(rest))
	}
	unit := esl.One
	for _, x := range needs[0] {
		if strings.HasSuffix(string(x.ID), "."+kindSpread) {
			unit = x.Amount
		}
	}
	return types.Quantity((len(needs)+large-1)/max(large, 1)) * unit
}

// ChosenWith returns the requested resources that the choice of a domain decides: place, and the
// resources of policies of the job that choose among its nodes. Apart is excluded: its resource is
// wherever tasks fit.
func ChosenWith(s *esl.State, place string, needs [][]cluster.Need) map[types.ResourceID]bool {
	out := map[types.ResourceID]bool{types.Resolve(s.Namespace, place): true}
	job := types.Resolve(s.Namespace, s.Job)
	for i, bundle := range needs {
		if i > 0 && slices.Equal(bundle, needs[i-1]) {
			continue
		}
		for _, x := range bundle {
			if turn := steering(s, job, x.ID); turn >= 0 && steerers()[turn] != kindApart {
				out[x.ID] = true
			}
		}
	}
	return out
}
