package escher

import (
	"context"

	"github.com/escher-sched/escher/controlplane"
	"github.com/escher-sched/escher/controlplane/cluster"
)

// State is the cluster at one revision: the physical resources of every node, and the ephemeral
// ones of the namespace.
type State struct {
	Namespace string
	Revision  int64
	// Nodes and Pools, the resources of the whole cluster, are sorted by name.
	Nodes []Node
	Pools []Amounts

	cluster *cluster.State
	reads   controlplane.ReadSet
}

// Node returns the node with a name, nil if there is none.
func (s *State) Node(name string) *Node { return s.cluster.Node(name) }

// Pool returns the amounts of a resource of the whole cluster; ok is false if there is none.
func (s *State) Pool(name string) (amounts Amounts, ok bool) { return s.cluster.Pool(name) }

// StateOption is an option of State.
type StateOption func(reads *bool)

// ForChange reads also what Change.If compares.
func ForChange() StateOption { return func(reads *bool) { *reads = true } }

// State reads the state of the cluster.
func (c *Client) State(ctx context.Context, opts ...StateOption) (*State, error) {
	reads := false
	for _, opt := range opts {
		opt(&reads)
	}
	read, err := c.requests.State(ctx, reads)
	if err != nil {
		return nil, err
	}
	s := &read.State
	return &State{Namespace: s.Namespace, Revision: s.Revision, Nodes: s.Nodes, Pools: s.Pools, cluster: s, reads: read.Reads}, nil
}
