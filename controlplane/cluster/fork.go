package cluster

import (
	"context"
	"maps"
	"slices"

	"github.com/escher-sched/escher/controlplane"
)

// ForkOf returns a view of the nodes that a store follows, as mirror.Store does; nil if it follows none.
func ForkOf(ctx context.Context, store controlplane.Store) (*View, error) {
	if s, ok := store.(interface {
		Fork(ctx context.Context) (*View, error)
	}); ok {
		return s.Fork(ctx)
	}
	return nil, nil
}

// bare are the nodes as forks begin with them. A view keeps them from its first fork on.
type bare struct {
	// nodes are sorted by name; at is the index of a node by its Serial.
	nodes []Node
	at    []int
	// stale are the nodes that changed since the last fork.
	stale []*Node
}

// Fork returns a view with what this one knows of the nodes, the settings of namespaces, the schedulers and
// leaders, and the admission. It lacks tasks, jobs, reservations and the resources that programs made. Either may
// change afterwards. The nodes of the fork arrived in the order of their names. It copies no values, so a fork of
// 10,000 nodes takes few milliseconds.
func (v *View) Fork() *View {
	f := New()
	f.Revision, f.serials, f.checked = v.Revision, v.serials, v.checked
	f.unread = maps.Clone(v.unread)
	f.Admission = v.Admission
	f.Namespaces, f.Closed = cells(v.Namespaces), cells(v.Closed)
	f.Schedulers, f.Leaders = cells(v.Schedulers), cells(v.Leaders)
	nodes := v.bareNodes()
	f.Nodes = make(map[string]*Node, len(nodes))
	for i := range nodes {
		f.Nodes[nodes[i].Name] = &nodes[i]
	}
	for rid, p := range v.Pools {
		if !p.Allocated.Absent() {
			f.Pools[rid] = &Pool{ID: rid, Allocated: p.Allocated}
		}
	}
	return f
}

// bareNodes returns a copy of the nodes, by name. It reads those that changed since the last call: most of the
// time of a fork would go into reading 10,000 nodes from all over the memory.
func (v *View) bareNodes() []Node {
	b := v.bare
	if b == nil || len(b.nodes) != len(v.Nodes) {
		b = &bare{nodes: make([]Node, len(v.Nodes)), at: make([]int, len(v.Nodes))}
		v.bare = b
		for i, name := range slices.Sorted(maps.Keys(v.Nodes)) {
			n := v.Nodes[name]
			b.at[n.Serial] = i
			b.stale = append(b.stale, n)
		}
	}
	for _, n := range b.stale {
		i := b.at[n.Serial]
		b.nodes[i] = Node{Name: n.Name, Serial: i, Info: n.Info, Alive: n.Alive, Cordon: n.Cordon, Devices: n.Devices, Allocated: n.Allocated}
		n.stale = false
	}
	b.stale = b.stale[:0]
	return slices.Clone(b.nodes)
}

// cells copies the cells of a map.
func cells[K comparable, T any](m map[K]*Cell[T]) map[K]*Cell[T] {
	out := make(map[K]*Cell[T], len(m))
	for k, c := range m {
		of := *c
		out[k] = &of
	}
	return out
}
