package controlplane

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/escher-sched/escher/types"
)

// nodeState is a node with its session and its stored value.
type nodeState struct {
	name    string
	session int64 // 0: not alive
	info    *types.Node
}

// readNodes reads the named nodes. Invalid: some do not exist; the error names them and some that
// do.
func readNodes(ctx context.Context, s Store, names []string) ([]nodeState, error) {
	out := make([]nodeState, len(names))
	var unknown []string
	for i, name := range names {
		out[i].name = name
		kv, err := Get(ctx, s, NodeKey(name))
		if err != nil {
			return nil, err
		}
		if kv.ModRevision == 0 {
			unknown = append(unknown, name)
			continue
		}
		out[i].info = new(types.Node)
		if !Read(kv, out[i].info) {
			unknown = append(unknown, name)
			continue
		}
		if kv, err = Get(ctx, s, AliveKey(name)); err != nil {
			return nil, err
		}
		out[i].session = kv.CreateRevision
	}
	if len(unknown) > 0 {
		return nil, unknownNodes(ctx, s, unknown)
	}
	return out, nil
}

// liveNodes returns the named nodes if they are few and all alive, and nil otherwise. It reads only
// their sessions, or remembers them if remember is set; info stays nil.
func (c *Client) liveNodes(ctx context.Context, s Store, names []string, remember bool) ([]nodeState, error) {
	out := make([]nodeState, len(names))
	for i, name := range names {
		kv, ok := c.known.get(AliveKey(name))
		if !ok || !remember {
			if len(names) > few {
				return nil, nil
			}
			var err error
			if kv, err = Get(ctx, s, AliveKey(name)); err != nil || kv.ModRevision == 0 {
				return nil, err
			}
			c.knowAlive(name, kv.CreateRevision)
		}
		out[i] = nodeState{name: name, session: kv.CreateRevision}
	}
	return out, nil
}

// knowAlive remembers the session of a node.
func (c *Client) knowAlive(name string, session int64) {
	c.known.set(KV{Key: AliveKey(name), CreateRevision: session})
}

// few is the number of nodes up to which each is read by itself; for more, one scan reads all.
const few = 16

// nodesNamed reads the named nodes, one by one or by one scan, whichever suits their number.
func nodesNamed(ctx context.Context, s Store, names []string) ([]nodeState, error) {
	if len(names) <= few {
		return readNodes(ctx, s, names)
	}
	all, err := readAllNodes(ctx, s)
	if err != nil {
		return nil, err
	}
	out := make([]nodeState, 0, len(names))
	var unknown []string
	for _, name := range names {
		i, ok := slices.BinarySearchFunc(all, name, func(p nodeState, name string) int { return strings.Compare(p.name, name) })
		if !ok {
			unknown = append(unknown, name)
			continue
		}
		out = append(out, all[i])
	}
	if len(unknown) > 0 {
		return nil, unknownNodes(ctx, s, unknown)
	}
	return out, nil
}

// readAllNodes reads every node, sorted by name.
func readAllNodes(ctx context.Context, s Store) ([]nodeState, error) {
	nodes, revision, err := ListAll(ctx, s, ListOptions{Prefix: Prefix(Nodes)})
	if err != nil {
		return nil, err
	}
	alive, _, err := ListAll(ctx, s, ListOptions{Prefix: Prefix(Alive), Revision: revision, KeysOnly: true})
	if err != nil {
		return nil, err
	}
	sessions := make(map[string]int64, len(alive))
	for _, kv := range alive {
		sessions[kv.Key] = kv.CreateRevision
	}
	out := make([]nodeState, 0, len(nodes))
	for _, kv := range nodes {
		k, ok := Parse(kv.Key)
		if !ok {
			continue
		}
		p := nodeState{name: k.Node, session: sessions[AliveKey(k.Node)], info: new(types.Node)}
		if Read(kv, p.info) {
			out = append(out, p)
		}
	}
	// Keys are in order, and names in the order of their keys.
	return out, nil
}

// unknownNodes returns the error for nodes that do not exist.
func unknownNodes(ctx context.Context, s Store, names []string) error {
	known, _, err := ListAll(ctx, s, ListOptions{Prefix: Prefix(Nodes), KeysOnly: true})
	if err != nil {
		return err
	}
	var quoted []string
	for _, name := range firstOf(names) {
		quoted = append(quoted, fmt.Sprintf("%q", name))
	}
	var there []string
	for _, kv := range known {
		if k, ok := Parse(kv.Key); ok {
			there = append(there, k.Node)
		}
	}
	if len(there) == 0 {
		return types.Errorf(types.Invalid, "where.nodes: %s is unknown, and no node is registered yet: start an agent first", strings.Join(quoted, ", "))
	}
	return types.Errorf(types.Invalid, "where.nodes: %s is unknown: name one of the %d registered nodes, such as %s",
		strings.Join(quoted, ", "), len(there), strings.Join(firstOf(there), ", "))
}

// firstOf returns the first few texts, as many as an error can list.
func firstOf(texts []string) []string { return texts[:min(len(texts), 5)] }
