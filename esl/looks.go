package esl

import (
	"context"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/escher-sched/escher/controlplane"
	"github.com/escher-sched/escher/types"
)

// nodesFor is how long a client reuses the nodes it has read. Before it refuses a group because of
// them, it reads them again.
const nodesFor = time.Minute

// registered caches the nodes read last. No call holds the lock while it reads the store, so that a
// canceled call does not wait for another.
type registered struct {
	mu    sync.Mutex
	read  time.Time
	nodes map[string]*types.Node
}

// look returns the registered nodes by name, and whether it has just read them; nil if no policy
// needs them. A node whose description cannot be read is nil.
func (c *Client) look(ctx context.Context, policies []Policy, again bool) (nodes map[string]*types.Node, fresh bool, err error) {
	if !slices.ContainsFunc(policies, needsNodes) {
		return nil, true, nil
	}
	if !again {
		if nodes := c.registered.recent(); nodes != nil {
			return nodes, false, nil
		}
	}
	kvs, _, err := controlplane.ListAll(ctx, c.Store(), controlplane.ListOptions{Prefix: controlplane.Prefix(controlplane.Nodes)})
	if err != nil {
		return nil, false, err
	}
	nodes = make(map[string]*types.Node, len(kvs))
	for _, kv := range kvs {
		n := &types.Node{}
		if err := types.Decode(kv.Value, n); err != nil {
			n = nil // written by a later version
		}
		nodes[strings.TrimPrefix(kv.Key, controlplane.Prefix(controlplane.Nodes))] = n
	}
	c.registered.keep(nodes)
	return nodes, true, nil
}

// recent returns the nodes that were read in the last nodesFor; nil means none were.
func (r *registered) recent() map[string]*types.Node {
	r.mu.Lock()
	defer r.mu.Unlock()
	if time.Since(r.read) >= nodesFor {
		return nil
	}
	return r.nodes
}

func (r *registered) keep(nodes map[string]*types.Node) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.read, r.nodes = time.Now(), nodes
}
