package controlplane

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/escher-sched/escher/types"
)

// place is a node as somebody named it.
type place struct {
	name    string
	session int64 // 0: not alive
	info    *types.Node
}

// places reads the nodes of these names. Invalid: some are not there; the error
// names them, and those that are.
func places(ctx context.Context, s Store, names []string) ([]place, error) {
	out := make([]place, len(names))
	var unknown []string
	for i, name := range names {
		out[i].name = name
		kv, err := get(ctx, s, NodeKey(name))
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
		if kv, err = get(ctx, s, AliveKey(name)); err != nil {
			return nil, err
		}
		out[i].session = kv.CreateRevision
	}
	if len(unknown) > 0 {
		return nil, unknownNodes(ctx, s, unknown)
	}
	return out, nil
}

// livePlaces returns the nodes of these names if all of them are few and alive, going
// by what is remembered where that is wanted; nil if not. Nothing else is known of them
// then.
func (c *Client) livePlaces(ctx context.Context, s Store, names []string, remember bool) ([]place, error) {
	out := make([]place, len(names))
	for i, name := range names {
		kv, ok := c.known.get(AliveKey(name))
		if !ok || !remember {
			if len(names) > few {
				return nil, nil
			}
			var err error
			if kv, err = get(ctx, s, AliveKey(name)); err != nil || kv.ModRevision == 0 {
				return nil, err
			}
			c.knowAlive(name, kv.CreateRevision)
		}
		out[i] = place{name: name, session: kv.CreateRevision}
	}
	return out, nil
}

// knowAlive remembers the session of a node.
func (c *Client) knowAlive(name string, session int64) {
	c.known.set(KV{Key: AliveKey(name), CreateRevision: session})
}

// few is how many nodes are read one by one; of more, all are read.
const few = 16

// placesOf reads nodes like places, in a way that suits their number.
func placesOf(ctx context.Context, s Store, names []string) ([]place, error) {
	if len(names) <= few {
		return places(ctx, s, names)
	}
	all, err := allPlaces(ctx, s)
	if err != nil {
		return nil, err
	}
	out := make([]place, 0, len(names))
	var unknown []string
	for _, name := range names {
		i, ok := slices.BinarySearchFunc(all, name, func(p place, name string) int { return strings.Compare(p.name, name) })
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

// allPlaces reads every node, sorted by name.
func allPlaces(ctx context.Context, s Store) ([]place, error) {
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
	out := make([]place, 0, len(nodes))
	for _, kv := range nodes {
		k, ok := Parse(kv.Key)
		if !ok {
			continue
		}
		p := place{name: k.Node, session: sessions[AliveKey(k.Node)], info: new(types.Node)}
		if Read(kv, p.info) {
			out = append(out, p)
		}
	}
	// Keys are in order, and names in the order of their keys.
	return out, nil
}

// unknownNodes is the error about nodes that are not there.
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

// firstOf returns as many of the texts as an error can well list.
func firstOf(texts []string) []string { return texts[:min(len(texts), 5)] }
