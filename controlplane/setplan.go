package controlplane

import (
	"context"
	"maps"
	"slices"

	"github.com/escher-sched/escher/types"
)

// write is a planned write of one key of a resource.
type write struct {
	where string
	// mod is the ModRevision of the key as read.
	mod int64
	// want is the value to store, nil to delete the key; value is its stored form.
	want  *types.Resource
	value []byte
	// same reports whether the key already has that value.
	same bool
}

// add adds one write to the change, if the key differs, and returns it with its value.
func (e *set) add(change *Change, w write) write {
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
		w.value = change.txn.Ops[len(change.txn.Ops)-1].Value
	}
	return w
}

// plan reads the cluster and returns the writes that set the resource.
func (e *set) plan(ctx context.Context, s Store) ([]write, error) {
	if e.where.Cluster {
		kv, ok := e.guessed(types.ClusterWide)
		var err error
		if !ok {
			kv, err = Get(ctx, s, ResourceKey(e.c.ns, e.name, types.ClusterWide))
		}
		return []write{e.write(types.ClusterWide, kv, e.resource())}, err
	}
	if e.where.once() {
		return e.planNodes(ctx, s)
	}
	return e.planEvery(ctx, s)
}

// resource returns the value to store; nil removes the resource.
func (e *set) resource() *types.Resource {
	if e.removes() {
		return nil
	}
	return &types.Resource{Capacity: e.capacity, Lifetime: e.opts.Lifetime, Owner: e.opts.Owner}
}

// guessed returns the remembered key of a resource, if guesses allow it. A removal of an unknown
// key must read.
func (e *set) guessed(where string) (KV, bool) {
	if !e.guesses {
		return KV{}, false
	}
	key := ResourceKey(e.c.ns, e.name, where)
	kv, ok := e.c.known.get(key)
	kv.Key = key
	return kv, ok || !e.removes()
}

// write compares the present value with the wanted one.
func (e *set) write(where string, kv KV, want *types.Resource) write {
	w := write{where: where, mod: kv.ModRevision, want: want, value: kv.Value}
	switch {
	case kv.ModRevision == 0:
		w.same = want == nil
	case want != nil:
		w.same = types.Same(kv.Value, want)
	}
	return w
}

// planNodes plans the keys of named or chosen nodes.
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
		if err := e.mine(own[p.name]); err != nil {
			return nil, err
		}
		want := e.resource()
		if want != nil {
			if p.session == 0 {
				return nil, types.Errorf(types.Precondition, "node %s is not alive, so a resource there would end at once: wait until its agent is back", p.name)
			}
			want.NodeSession = p.session
		}
		writes = append(writes, e.write(p.name, own[p.name], want))
	}
	return writes, nil
}

// mine refuses a key with another owner, if SetOptions.Own is set.
func (e *set) mine(kv KV) error {
	if !e.opts.Own || kv.ModRevision == 0 {
		return nil
	}
	var r types.Resource
	if Read(kv, &r) && r.Lifetime == e.opts.Lifetime && r.Owner == e.opts.Owner {
		return nil
	}
	return types.Errorf(types.Precondition, "resource %s exists, and does not belong to %s %s: choose another name", e.name, e.opts.Lifetime, e.opts.Owner)
}

// chosen returns the nodes. The choice stays the same once a part is written.
func (e *set) chosen(ctx context.Context, s Store) ([]nodeState, error) {
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
	if at, err := e.live(ctx, s, names); at != nil || err != nil {
		return at, err
	}
	at, err := nodesNamed(ctx, s, names)
	if err != nil {
		return nil, err
	}
	for _, p := range at {
		if p.session != 0 {
			e.c.knowAlive(p.name, p.session)
		}
	}
	matching := at[:0]
	for _, p := range at {
		if (&types.Selector{Labels: e.where.Labels}).Matches(p.name, p.info) {
			matching = append(matching, p)
		}
	}
	if len(matching) == 0 {
		return nil, types.Errorf(types.Precondition, "where: no node matches: ask for less")
	}
	return matching, nil
}

// live returns the nodes if their sessions suffice and all are alive, and nil otherwise. A removal
// of the client's own keys needs no sessions. A removal of unknown keys needs the nodes themselves,
// to detect unknown ones.
func (e *set) live(ctx context.Context, s Store, names []string) ([]nodeState, error) {
	switch {
	case len(e.where.Labels) > 0:
		return nil, nil
	case !e.removes():
		return e.c.liveNodes(ctx, s, names, e.guesses)
	}
	at := make([]nodeState, len(names))
	for i, name := range names {
		if _, ok := e.guessed(name); !ok {
			return nil, nil
		}
		at[i].name = name
	}
	return at, nil
}

// own returns the nodes' own keys of the resource, guessed or read.
func (e *set) own(ctx context.Context, s Store, at []nodeState) (map[string]KV, error) {
	out := make(map[string]KV, len(at))
	for _, p := range at {
		if kv, ok := e.guessed(p.name); ok {
			out[p.name] = kv
		}
	}
	if len(out) == len(at) {
		return out, nil
	}
	if len(at) > few {
		return e.keys(ctx, s)
	}
	for _, p := range at {
		kv, err := Get(ctx, s, ResourceKey(e.c.ns, e.name, p.name))
		if err != nil {
			return nil, err
		}
		out[p.name] = kv
	}
	return out, nil
}

// keys reads all keys of the resource, by location.
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

// planEvery plans one key for every node with the labels, and removes the own keys of those nodes.
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
	all, err := readAllNodes(ctx, s)
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
		return nil, types.Errorf(types.Precondition, "where.labels: none of %d nodes has %s: correct it, or allow labels of future nodes", len(all), types.LabelsText(e.where.Labels))
	}
	return writes, nil
}

// sameSelector refuses a removal by labels if the resource has others.
func (e *set) sameSelector(kv KV) error {
	if !e.removes() || kv.ModRevision == 0 || len(e.where.Labels) == 0 {
		return nil
	}
	var r types.Resource
	if !Read(kv, &r) {
		return nil
	}
	if r.Selector != nil && slices.Equal(types.SortLabels(r.Selector.Labels), e.where.Labels) {
		return nil
	}
	on := Where{}
	if r.Selector != nil {
		on.Labels = r.Selector.Labels
	}
	return types.Errorf(types.Precondition, "where.labels: it is %s, not with %s: remove it with those labels, or on every node", on, types.LabelsText(e.where.Labels))
}
