package controlplane

import (
	"context"
	"slices"

	"github.com/escher-sched/escher/types"
)

// A name of a namespace is either one pool of the cluster or on nodes. So whoever relies on
// a key of a node need not compare that there is no pool, in which nothing on nodes
// counts.

// oneKind makes the change depend on the name not being of the other kind, if it makes a
// key: a key that is there and stays says as much. If the client may not guess, it reads.
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

// makes reports whether a key that is not there is still to be written.
func (e *set) makes(writes []write) bool {
	for _, w := range writes {
		if w.mod == 0 && w.want != nil && !e.written[w.where] {
			return true
		}
	}
	return false
}

// grows reports whether what is to be written takes more room in the store: a key that is
// not there, or labels.
func (e *set) grows(writes []write) bool {
	return e.makes(writes) || slices.ContainsFunc(writes, func(w write) bool { return !w.same && w.want != nil && w.want.Selector != nil })
}

// otherKind says so when a key that is there makes the name one of the other kind.
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
	return types.Errorf(types.Precondition, "where.cluster: %q is %s, and what is one pool of the cluster can be on no node: remove it on every node first, or choose another name", e.name, on)
}

// oneKindEach refuses edits that make a name both: the compares of a transaction are about
// what was there before it.
func oneKindEach(edits []edit) error {
	last := make(map[string]*set)
	for _, e := range edits {
		x, ok := e.(*set)
		if !ok {
			continue
		}
		before := last[x.name]
		if before != nil && before.where.Cluster != x.where.Cluster && !(before.removes() && x.removes()) {
			return types.Errorf(types.Invalid, "where: %q is set in the cluster and on nodes in one transaction, and a name is one or the other: remove the one first, in a transaction of its own", x.name)
		}
		if before == nil || before.removes() {
			last[x.name] = x
		}
	}
	return nil
}
