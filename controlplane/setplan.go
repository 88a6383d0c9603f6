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
	// want is what is to be there, nil for nothing; value is that as it is stored.
	want  *types.Resource
	value []byte
	// same tells that it is there already.
	same bool
}

// add adds one write, of nothing if it is there already, and returns it with its value.
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

// plan reads the cluster and returns the keys of the resource as they are to be.
func (e *set) plan(ctx context.Context, s Store) ([]write, error) {
	if e.where.Cluster {
		kv, ok := e.guessed(types.ClusterWide)
		var err error
		if !ok {
			kv, err = get(ctx, s, ResourceKey(e.c.ns, e.name, types.ClusterWide))
		}
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

// guessed returns what the client goes by where it may guess. To remove what it does
// not know, it must read.
func (e *set) guessed(where string) (KV, bool) {
	if !e.guesses {
		return KV{}, false
	}
	key := ResourceKey(e.c.ns, e.name, where)
	kv, ok := e.c.known.get(key)
	kv.Key = key
	return kv, ok || !e.removes()
}

// write compares what is there with what is wanted.
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
		if err := e.mine(own[p.name]); err != nil {
			return nil, err
		}
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

// mine refuses a key that ends with another owner, if only the owner's own are to be set.
func (e *set) mine(kv KV) error {
	if !e.opts.Own || kv.ModRevision == 0 {
		return nil
	}
	var r types.Resource
	if Read(kv, &r) && r.Lifetime == e.opts.Lifetime && r.Owner == e.opts.Owner {
		return nil
	}
	return types.Errorf(types.Precondition, "resource %s is there, and is not of %s %s: choose another name", e.name, e.opts.Lifetime, e.opts.Owner)
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
	if at, err := e.live(ctx, s, names); at != nil || err != nil {
		return at, err
	}
	at, err := placesOf(ctx, s, names)
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
		return nil, types.Errorf(types.Precondition, "where: none of the nodes is as asked for: ask for less")
	}
	return matching, nil
}

// live returns the nodes if all that is needed of them are their sessions, and all are
// alive; nil if not. To remove what the client itself has set there takes not even that;
// to remove what it does not know takes more, as nothing would show that a node is
// unknown.
func (e *set) live(ctx context.Context, s Store, names []string) ([]place, error) {
	switch {
	case len(e.where.Labels) > 0:
		return nil, nil
	case !e.removes():
		return e.c.livePlaces(ctx, s, names, e.guesses)
	}
	at := make([]place, len(names))
	for i, name := range names {
		if _, ok := e.guessed(name); !ok {
			return nil, nil
		}
		at[i].name = name
	}
	return at, nil
}

// own returns the keys that nodes have of their own: those that may be guessed, or all
// of them as they are.
func (e *set) own(ctx context.Context, s Store, at []place) (map[string]KV, error) {
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
	if !Read(kv, &r) {
		return nil
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
