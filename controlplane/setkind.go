package controlplane

import (
	"context"
	"slices"

	"github.com/escher-sched/escher/types"
)

// A resource name of a namespace is either one cluster-wide pool or a resource on nodes. So a
// reader of a node's key need not compare the absence of a pool.

// oneKind makes a change that creates a key depend on the name not being of the other kind. An
// existing key proves that already. Without guesses it also reads.
func (e *set) oneKind(ctx context.Context, s Store, change *Change, writes []write) error {
	if !e.makes(writes) {
		return nil
	}
	other := ListOptions{Limit: 1, KeysOnly: true}
	if e.where.Cluster {
		other.Prefix = Prefix(Resources, e.c.ns, e.name)
		change.IfNoneSince(other.Prefix, 0)
	} else {
		other.Key = ResourceKey(e.c.ns, e.name, types.ClusterWide)
		change.IfUnchanged(other.Key, 0)
	}
	if e.guesses {
		return nil
	}
	page, err := s.List(ctx, other)
	if err != nil {
		return err
	}
	for _, kv := range page.KVs {
		if err := e.otherKind(kv); err != nil {
			return err
		}
	}
	return nil
}

// makes reports whether the edit still has to create a key.
func (e *set) makes(writes []write) bool {
	for _, w := range writes {
		if w.mod == 0 && w.want != nil && !e.written[w.where] {
			return true
		}
	}
	return false
}

// grows reports whether the writes take more space in the store: they create a key, or set labels.
func (e *set) grows(writes []write) bool {
	return e.makes(writes) || slices.ContainsFunc(writes, func(w write) bool { return !w.same && w.want != nil && w.want.Selector != nil })
}

// otherKind returns an error if an existing key makes the name one of the other kind.
func (e *set) otherKind(kv KV) error {
	k, ok := Parse(kv.Key)
	if e.removes() || !ok || kv.ModRevision == 0 || k.Kind != Resources || k.Namespace != e.c.ns || k.Name != e.name {
		return nil
	}
	switch {
	case (k.Where == types.ClusterWide) == e.where.Cluster:
		return nil
	case !e.where.Cluster:
		return types.Errorf(types.Precondition, "where: %q is one pool of the whole cluster, which all requests draw on: set it in the cluster, or remove it there first", e.name)
	}
	on := OnNode(k.Where)
	if k.Where == types.EveryNode {
		on = OnEvery()
	}
	return types.Errorf(types.Precondition, "where.cluster: %q is %s, and a pool of the cluster cannot be on nodes: remove it on every node first, or choose another name", e.name, on)
}

// oneKindEach refuses edits that together make a name both kinds. The compares of a transaction
// cannot: they see the state before it.
func oneKindEach(edits []edit) error {
	last := make(map[string]*set)
	for _, e := range edits {
		x, ok := e.(*set)
		if !ok {
			continue
		}
		before := last[x.name]
		if before != nil && before.where.Cluster != x.where.Cluster && !(before.removes() && x.removes()) {
			return types.Errorf(types.Invalid, "where: %q is set in the cluster and on nodes in one transaction, and a name is one or the other: remove one first, in a transaction of its own", x.name)
		}
		if before == nil || before.removes() {
			last[x.name] = x
		}
	}
	return nil
}
