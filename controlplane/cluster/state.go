package cluster

import (
	"context"
	"encoding/json"
	"slices"
	"strings"
	"time"

	"github.com/escher-sched/escher/controlplane"
	"github.com/escher-sched/escher/types"
)

// State is what an application sees of the cluster, at one revision: the physical
// resources of every node, and what its namespace made of them. It can be sent as
// JSON, amounts as text; what was read is not sent with it, and a change that is
// made conditional on it then is refused.
type State struct {
	Namespace string      `json:"namespace"`
	Revision  int64       `json:"revision"`
	Nodes     []NodeState `json:"nodes"`
	// Pools are the cluster-wide resources of the namespace.
	Pools []Amounts `json:"pools,omitempty"`

	view  *View
	reads controlplane.ReadSet
}

// NodeState is one node.
type NodeState struct {
	Name string `json:"name"`
	// Alive tells that its agent is there; Cordoned that nothing new may be
	// bound to it.
	Alive    bool `json:"alive"`
	Cordoned bool `json:"cordoned,omitempty"`
	// Reason is why it is cordoned; Drain says how what is there leaves, and DrainBy,
	// unless nil, until when it may end by itself.
	Reason  string          `json:"reason,omitempty"`
	Drain   types.DrainMode `json:"drain,omitempty"`
	DrainBy *time.Time      `json:"drain_by,omitempty"`
	// Version is that of its agent.
	Version string        `json:"version,omitempty"`
	Labels  []types.Label `json:"labels,omitempty"`
	// Resources are sorted by name; a scoped one is there as gpu@train.
	Resources []Amounts `json:"resources"`
}

// Amounts is how much there is of a resource, by the name the namespace knows it.
// Free is Capacity less Allocated: negative when the capacity was lowered below
// what is held.
type Amounts struct {
	Name                      string
	Capacity, Allocated, Free types.Quantity
}

// amountsText is Amounts as JSON.
type amountsText struct {
	Name      string `json:"name"`
	Capacity  string `json:"capacity"`
	Allocated string `json:"allocated"`
	Free      string `json:"free"`
}

// MarshalJSON writes amounts as text, with their units.
func (a Amounts) MarshalJSON() ([]byte, error) {
	text := func(q types.Quantity) string { return q.Format(types.ResourceID(a.Name)) }
	return json.Marshal(amountsText{a.Name, text(a.Capacity), text(a.Allocated), text(a.Free)})
}

// UnmarshalJSON reads what MarshalJSON writes.
func (a *Amounts) UnmarshalJSON(data []byte) error {
	var t amountsText
	if err := json.Unmarshal(data, &t); err != nil {
		return types.Errorf(types.Invalid, "amounts: %w", err)
	}
	a.Name = t.Name
	for _, x := range []struct {
		to   *types.Quantity
		text string
	}{{&a.Capacity, t.Capacity}, {&a.Allocated, t.Allocated}, {&a.Free, t.Free}} {
		plain, negative := strings.CutPrefix(x.text, "-")
		q, err := types.ParseQuantity(t.Name, plain)
		if err != nil {
			return err
		}
		if *x.to = q; negative {
			*x.to = -q
		}
	}
	return nil
}

// ClusterState reads the state of the cluster as the client's namespace sees it.
func ClusterState(ctx context.Context, c *controlplane.Client) (*State, error) {
	return Read(ctx, c.Store(), c.Namespace())
}

// Node returns the node of that name, nil if there is none.
func (s *State) Node(name string) *NodeState {
	i, ok := slices.BinarySearchFunc(s.Nodes, name, func(n NodeState, name string) int { return strings.Compare(n.Name, name) })
	if !ok {
		return nil
	}
	return &s.Nodes[i]
}

// Pool returns the amounts of a cluster-wide resource; ok is false if it is none.
func (s *State) Pool(name string) (a Amounts, ok bool) { return find(s.Pools, name) }

// Get returns the amounts of a resource on the node; ok is false if it is not there.
func (n *NodeState) Get(name string) (a Amounts, ok bool) { return find(n.Resources, name) }

// Free returns how much of a resource is free on the node, 0 if it is not there.
func (n *NodeState) Free(name string) types.Quantity {
	a, _ := n.Get(name)
	return a.Free
}

func find(list []Amounts, name string) (Amounts, bool) {
	i, ok := slices.BinarySearchFunc(list, name, func(a Amounts, name string) int { return strings.Compare(a.Name, name) })
	if !ok {
		return Amounts{}, false
	}
	return list[i], true
}

// WithFree returns the names of the nodes that a task with these requests could be
// bound to as far as their own resources go: alive, not cordoned, all of it free.
func (s *State) WithFree(requests types.Requests) []string {
	var names []string
	for i := range s.Nodes {
		if s.Nodes[i].hasFree(requests) {
			names = append(names, s.Nodes[i].Name)
		}
	}
	return names
}

func (n *NodeState) hasFree(requests types.Requests) bool {
	for _, r := range requests {
		if id := types.ResourceID(r.Name); id.IsPlacement() {
			if !n.isAt(id) {
				return false
			}
			continue
		}
		if a, ok := n.Get(r.Name); !ok || a.Free < r.Amount {
			return false
		}
	}
	return n.Alive && !n.Cordoned
}

// isAt reports whether the node is the placement.
func (n *NodeState) isAt(id types.ResourceID) bool {
	kind, value, _ := strings.Cut(string(id), "/")
	if kind == "node" {
		return n.Name == value
	}
	return slices.Contains(n.Labels, types.Label{Name: kind, Value: value})
}

// Reads returns everything that was read, absences included: a change that is
// conditional on it is refused if anything at all changed of these keys. Nodes and
// resources that came to be since are not among them. In a large cluster it is
// larger than a transaction: see Relied.
func (s *State) Reads() controlplane.ReadSet {
	all := make(controlplane.ReadSet, len(s.reads))
	for key, revision := range s.reads {
		all[key] = revision
	}
	return all
}

// Relied returns what the amounts of these resources on a node were derived from,
// and that it is alive and not cordoned: what a decision about them depends on.
func (s *State) Relied(node string, names ...string) controlplane.ReadSet {
	reads := make(controlplane.ReadSet)
	for _, key := range nodeKeys(node) {
		reads[key] = s.reads[key]
	}
	for _, name := range names {
		rid := types.Resolve(s.Namespace, name)
		if rid.Physical() {
			continue
		}
		for key, revision := range s.ReliedPool(name) {
			reads[key] = revision
		}
		if s.view == nil || s.view.Pool(rid) != nil || rid.Scoped() {
			continue
		}
		if n := s.view.Nodes[node]; n != nil {
			s.view.Relied(n, rid, func(key string, revision int64) { reads[key] = revision })
		}
	}
	return reads
}

// ReliedPool is like Relied of a cluster-wide resource, or of a reservation by any
// of its scoped resources: its absence, if there is none.
func (s *State) ReliedPool(name string) controlplane.ReadSet {
	ns, base, reservation := types.Resolve(s.Namespace, name).Split()
	key := controlplane.ResourceKey(ns, base, types.ClusterWide)
	if reservation != "" {
		key = controlplane.GrantKey(ns, reservation)
	}
	reads := controlplane.ReadSet{key: s.reads[key]}
	if pool := controlplane.PoolKey(ns, base); reservation == "" && s.reads[key] != 0 {
		reads[pool] = s.reads[pool]
	}
	return reads
}

// nodeKeys are the keys that say what a node is and has in use.
func nodeKeys(node string) []string {
	return []string{
		controlplane.NodeKey(node), controlplane.AliveKey(node),
		controlplane.CordonKey(node), controlplane.AllocatedKey(node),
	}
}
