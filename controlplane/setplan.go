package controlplane

import (
	"context"
	"maps"
	"slices"

	"github.com/escher-sched/escher/types"
)

// write is one key of a resource to be set.
type write struct {
	where string
	// mod is the revision it was read at.
	mod int64
	// want is what is to be there, nil for nothing.
	want *types.Resource
	// same tells that it is there already.
	same bool
}

// add adds one write: nothing if it is there already.
func (e *set) add(change *Change, w write) {
	key := ResourceKey(e.c.ns, e.name, w.where)
	change.IfUnchanged(key, w.mod)
	if w.want != nil && w.want.NodeSession != 0 {
		change.IfCreated(AliveKey(w.where), w.want.NodeSession)
	}
	switch {
	case w.same:
	case w.want == nil:
		change.Delete(key)
	default:
		change.Put(key, w.want)
	}
}

// plan reads the cluster and returns the keys of the resource as they are to be.
func (e *set) plan(ctx context.Context, s Store) ([]write, error) {
	if e.where.Cluster {
		kv, err := get(ctx, s, ResourceKey(e.c.ns, e.name, types.ClusterWide))
		return []write{e.write(types.ClusterWide, kv, e.resource())}, err
	}
	if e.where.once() {
		return e.planNodes(ctx, s)
	}
	return e.planEvery(ctx, s)
}

// resource is what is to be stored, nil if nothing.
func (e *set) resource() *types.Resource {
	if e.removes() {
		return nil
	}
	return &types.Resource{Capacity: e.capacity, Lifetime: e.opts.Lifetime, Owner: e.opts.Owner}
}

// write compares what is there with what is wanted.
func (e *set) write(where string, kv KV, want *types.Resource) write {
	w := write{where: where, mod: kv.ModRevision, want: want}
	switch {
	case kv.ModRevision == 0:
		w.same = want == nil
	case want != nil:
		w.same = types.Same(kv.Value, want)
	}
	return w
}

// planNodes plans for nodes that are named or chosen.
func (e *set) planNodes(ctx context.Context, s Store) ([]write, error) {
	at, err := e.chosen(ctx, s)
	if err != nil {
		return nil, err
	}
	own, err := e.own(ctx, s, at)
	if err != nil {
		return nil, err
	}
	writes := make([]write, 0, len(at))
	for _, p := range at {
		want := e.resource()
		if want != nil {
			if p.session == 0 {
				return nil, types.Errorf(types.Precondition, "node %s is not alive, and what is set there would end at once: wait until its agent is back", p.name)
			}
			want.NodeSession = p.session
		}
		writes = append(writes, e.write(p.name, own[p.name], want))
	}
	return writes, nil
}

// chosen returns the nodes. What was chosen stays so once a part is written.
func (e *set) chosen(ctx context.Context, s Store) ([]place, error) {
	names := e.where.Nodes
	if e.where.Among != nil {
		if len(e.written) == 0 {
			chosen, err := e.where.Among(ctx, e.c)
			if err != nil {
				return nil, err
			}
			e.nodes = chosen
		}
		names = e.nodes
	}
	if at := e.remembered(names); at != nil {
		return at, nil
	}
	at, err := placesOf(ctx, s, names)
	if err != nil {
		return nil, err
	}
	for _, p := range at {
		e.c.nodes.set(p.name, p.session)
	}
	matching := at[:0]
	for _, p := range at {
		if (&types.Selector{Labels: e.where.Labels}).Matches(p.name, p.info) {
			matching = append(matching, p)
		}
	}
	if len(matching) == 0 {
		return nil, types.Errorf(types.Precondition, "where: none of the nodes is as asked for: ask for less")
	}
	return matching, nil
}

// remembered returns the nodes if all that is needed of them is their sessions, and
// these are known. What is removed needs no session to compare, so that nothing
// would show that a node is unknown.
func (e *set) remembered(names []string) []place {
	if len(e.where.Labels) > 0 || e.removes() {
		return nil
	}
	at := make([]place, len(names))
	for i, name := range names {
		at[i] = place{name: name, session: e.c.nodes.get(name)}
		if at[i].session == 0 {
			return nil
		}
	}
	return at
}

// own reads the keys that nodes have of their own.
func (e *set) own(ctx context.Context, s Store, at []place) (map[string]KV, error) {
	out := make(map[string]KV, len(at))
	if len(at) > few {
		return e.keys(ctx, s)
	}
	for _, p := range at {
		kv, err := get(ctx, s, ResourceKey(e.c.ns, e.name, p.name))
		if err != nil {
			return nil, err
		}
		out[p.name] = kv
	}
	return out, nil
}

// keys reads all keys of the resource, by place.
func (e *set) keys(ctx context.Context, s Store) (map[string]KV, error) {
	kvs, _, err := ListAll(ctx, s, ListOptions{Prefix: Prefix(Resources, e.c.ns, e.name)})
	out := make(map[string]KV, len(kvs))
	for _, kv := range kvs {
		if k, ok := Parse(kv.Key); ok {
			out[k.Where] = kv
		}
	}
	return out, err
}

// planEvery plans for every node that has the labels: one key for all, and none of
// the nodes' own.
func (e *set) planEvery(ctx context.Context, s Store) ([]write, error) {
	keys, err := e.keys(ctx, s)
	if err != nil {
		return nil, err
	}
	want := e.resource()
	if want != nil && len(e.where.Labels) > 0 {
		want.Selector = &types.Selector{Labels: e.where.Labels}
	}
	if err := e.sameSelector(keys[types.EveryNode]); err != nil {
		return nil, err
	}
	writes := []write{e.write(types.EveryNode, keys[types.EveryNode], want)}
	if len(e.where.Labels) == 0 {
		for _, where := range slices.Sorted(maps.Keys(keys)) {
			if where != types.EveryNode && where != types.ClusterWide {
				writes = append(writes, e.write(where, keys[where], nil))
			}
		}
		return writes, nil
	}
	all, err := allPlaces(ctx, s)
	if err != nil {
		return nil, err
	}
	matching := 0
	for _, p := range all {
		if !(&types.Selector{Labels: e.where.Labels}).Matches(p.name, p.info) {
			continue
		}
		matching++
		if kv, ok := keys[p.name]; ok {
			writes = append(writes, e.write(p.name, kv, nil))
		}
	}
	if matching == 0 && want != nil && !e.opts.Future {
		return nil, types.Errorf(types.Precondition, "where.labels: none of %d nodes has %s: correct it, or say that such nodes are to come", len(all), labelTexts(e.where.Labels))
	}
	return writes, nil
}

// sameSelector refuses to remove, with some labels, what is on nodes with others.
func (e *set) sameSelector(kv KV) error {
	if !e.removes() || kv.ModRevision == 0 || len(e.where.Labels) == 0 {
		return nil
	}
	var r types.Resource
	if err := types.Decode(kv.Value, &r); err != nil {
		return err
	}
	if r.Selector != nil && slices.Equal(r.Selector.Labels, e.where.Labels) {
		return nil
	}
	on := Where{}
	if r.Selector != nil {
		on.Labels = r.Selector.Labels
	}
	return types.Errorf(types.Precondition, "where.labels: it is %s, not with %s: remove it with those labels, or on every node", on, labelTexts(e.where.Labels))
}
