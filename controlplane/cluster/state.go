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

// State is an application's view of the cluster at one revision: the physical resources of every
// node, and the ephemeral resources of its namespace. It can be sent as JSON, with amounts as text.
// The JSON lacks the read set, so a change conditional on a decoded State is refused.
type State struct {
	Namespace string      `json:"namespace"`
	Revision  int64       `json:"revision"`
	Nodes     []NodeState `json:"nodes"`
	// Pools are the cluster-wide resources of the namespace.
	Pools []Amounts `json:"pools,omitempty"`

	view  *View
	reads controlplane.ReadSet
}

// NodeState is the state of one node.
type NodeState struct {
	Name string `json:"name"`
	// Alive reports whether its agent is alive, and Cordoned whether nothing new may be bound to
	// it.
	Alive    bool `json:"alive"`
	Cordoned bool `json:"cordoned,omitempty"`
	// Reason is why it is cordoned, and Drain how its tasks leave. DrainBy, unless nil, is the time
	// until which they may end by themselves.
	Reason  string          `json:"reason,omitempty"`
	Drain   types.DrainMode `json:"drain,omitempty"`
	DrainBy *time.Time      `json:"drain_by,omitempty"`
	// Version is the version of its agent.
	Version string        `json:"version,omitempty"`
	Labels  []types.Label `json:"labels,omitempty"`
	// Resources are sorted by name; a scoped one has a name like gpu@train.
	Resources []Amounts `json:"resources"`
}

// Amounts are the amounts of a resource, by its name in the namespace. Free is Capacity minus
// Allocated: negative if the capacity was lowered below the allocated amount.
type Amounts struct {
	Name                      string
	Capacity, Allocated, Free types.Quantity
}

// amountsText is the JSON form of Amounts.
type amountsText struct {
	Name      string `json:"name"`
	Capacity  string `json:"capacity"`
	Allocated string `json:"allocated"`
	Free      string `json:"free"`
}

// MarshalJSON encodes amounts as text, with their units.
func (a Amounts) MarshalJSON() ([]byte, error) {
	text := func(q types.Quantity) string { return q.Format(types.ResourceID(a.Name)) }
	return json.Marshal(amountsText{a.Name, text(a.Capacity), text(a.Allocated), text(a.Free)})
}

// UnmarshalJSON decodes what MarshalJSON encodes.
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

// ClusterState reads the state of the cluster for the client's namespace.
func ClusterState(ctx context.Context, c *controlplane.Client) (*State, error) {
	return Read(ctx, c.Store(), c.Namespace())
}

// Node returns the node with a name, nil if there is none.
func (s *State) Node(name string) *NodeState {
	i, ok := slices.BinarySearchFunc(s.Nodes, name, func(n NodeState, name string) int { return strings.Compare(n.Name, name) })
	if !ok {
		return nil
	}
	return &s.Nodes[i]
}

// Pool returns the amounts of a cluster-wide resource; ok is false if there is none.
func (s *State) Pool(name string) (a Amounts, ok bool) { return find(s.Pools, name) }

// Get returns the amounts of a resource on the node; ok is false if it is not there.
func (n *NodeState) Get(name string) (a Amounts, ok bool) { return find(n.Resources, name) }

// Free returns the free amount of a resource on the node, 0 if it is not there.
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

// View returns what the state was read from; nil if it was decoded from JSON. It must not be changed.
func (s *State) View() *View { return s.view }

// Reads returns every key that was read, absent ones included: a change conditional on it is
// refused if any of them changed. It lacks nodes and resources created since. In a large cluster it
// is larger than a transaction: see Relied.
func (s *State) Reads() controlplane.ReadSet {
	all := make(controlplane.ReadSet, len(s.reads))
	for key, revision := range s.reads {
		all[key] = revision
	}
	return all
}

// Relied returns the keys that determine the amounts of these resources on a node, and that it is
// alive and not cordoned.
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

// ReliedPool is Relied for a cluster-wide resource, or for a reservation by one of its scoped
// resources. It has the absence of a missing one.
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

// nodeKeys returns the keys that describe a node and its allocations.
func nodeKeys(node string) []string {
	return []string{
		controlplane.NodeKey(node), controlplane.AliveKey(node),
		controlplane.CordonKey(node), controlplane.AllocatedKey(node),
	}
}
