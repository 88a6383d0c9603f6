package cluster

import (
	"context"
	"slices"
	"strings"
	"time"

	"github.com/escher-sched/escher/controlplane"
	"github.com/escher-sched/escher/types"
)

// Read reads the state of the cluster for namespace ns, all at one revision.
func Read(ctx context.Context, store controlplane.Store, ns string) (*State, error) {
	const tries = 3
	for try := 1; ; try++ {
		r := reader{store: store, ns: ns, view: New(), reads: make(controlplane.ReadSet), held: make(map[string]controlplane.Key)}
		err := r.read(ctx)
		switch {
		case err == nil:
			return r.state(), nil
		case !types.Is(err, types.Compacted) || try == tries:
			return nil, types.Errorf(types.ClassOf(err), "read the state of the cluster: %w", err)
		}
	}
}

// reader reads a State.
type reader struct {
	store    controlplane.Store
	ns       string
	revision int64
	view     *View
	reads    controlplane.ReadSet
	// held holds the bindings of the namespace's tasks, by the id of the task.
	held map[string]controlplane.Key
}

// read fills the view with the keys of the state.
func (r *reader) read(ctx context.Context) error {
	for _, prefix := range []string{
		controlplane.Prefix(controlplane.Nodes),
		controlplane.Prefix(controlplane.Alive),
		controlplane.Prefix(controlplane.Cordons),
		controlplane.Prefix(controlplane.Allocated),
		controlplane.Prefix(controlplane.Resources, r.ns),
		controlplane.Prefix(controlplane.Provided, r.ns),
		controlplane.Prefix(controlplane.Reservations, r.ns),
		controlplane.Prefix(controlplane.Grants, r.ns),
		controlplane.Prefix(controlplane.Statuses, r.ns),
	} {
		if err := r.list(ctx, prefix); err != nil {
			return err
		}
	}
	if err := r.providers(ctx); err != nil {
		return err
	}
	for name := range r.view.Nodes {
		for _, key := range nodeKeys(name) {
			if _, ok := r.reads[key]; !ok {
				r.reads[key] = 0
			}
		}
	}
	r.view.Reached(r.revision)
	return nil
}

// list reads a range, at the revision of the first range.
func (r *reader) list(ctx context.Context, prefix string) error {
	kvs, revision, err := controlplane.ListAll(ctx, r.store, controlplane.ListOptions{Prefix: prefix, Revision: r.revision})
	if err != nil {
		return err
	}
	r.revision = revision
	for _, kv := range kvs {
		r.takeKey(kv)
	}
	return nil
}

// Shown reports whether the state of namespace ns depends on a key, so that State.Reads may contain
// it.
func Shown(ns, key string) bool {
	k, ok := controlplane.Parse(key)
	if !ok || k.Namespace != "" && k.Namespace != ns {
		return false
	}
	switch k.Kind {
	case controlplane.Nodes, controlplane.Alive, controlplane.Cordons, controlplane.Allocated,
		controlplane.Resources, controlplane.Provided, controlplane.Reservations, controlplane.Grants,
		controlplane.Bindings, controlplane.Reports:
		return true
	}
	return false
}

// takeKey applies one key unless it belongs to another namespace.
func (r *reader) takeKey(kv controlplane.KV) {
	k, ok := controlplane.Parse(kv.Key)
	switch {
	case ok && k.Namespace == r.ns && k.Kind == controlplane.Statuses:
		r.takeStatus(k, kv)
	case Shown(r.ns, kv.Key):
		r.reads[kv.Key] = kv.ModRevision
		_, _, _ = r.view.Apply(controlplane.Event{KV: kv}) // an unreadable key counts as absent
	}
}

// takeStatus records the binding key of a task, which follows from its status.
func (r *reader) takeStatus(k controlplane.Key, kv controlplane.KV) {
	var s types.Status
	if controlplane.Read(kv, &s) && s.Phase.Held() {
		r.held[k.ID] = controlplane.Key{Kind: controlplane.Bindings, Node: s.Node, Namespace: k.Namespace, ID: k.ID, Attempt: s.Attempt}
	}
}

// providers reads the bindings and reports of the namespace's tasks that provide resources. It
// reads nothing of other namespaces, however many tasks this one has.
func (r *reader) providers(ctx context.Context) error {
	if len(r.held) == 0 {
		return nil
	}
	opts := controlplane.ListOptions{Prefix: controlplane.Prefix(controlplane.Tasks, r.ns), Revision: r.revision}
	tasks, _, err := controlplane.ListAll(ctx, r.store, opts)
	if err != nil {
		return err
	}
	for _, kv := range tasks {
		var t types.Task
		k, _ := controlplane.Parse(kv.Key)
		held, ok := r.held[k.ID]
		if !ok || !controlplane.Read(kv, &t) || len(t.Provides) == 0 {
			continue
		}
		for _, kind := range []controlplane.Kind{controlplane.Bindings, controlplane.Reports} {
			held.Kind = kind
			page, err := r.store.List(ctx, controlplane.ListOptions{Key: held.String(), Revision: r.revision})
			if err != nil {
				return err
			}
			for _, kv := range page.KVs {
				r.takeKey(kv)
			}
		}
	}
	return nil
}

// state builds the state from the view.
func (r *reader) state() *State {
	s := &State{Namespace: r.ns, Revision: r.revision, view: r.view, reads: r.reads}
	for _, n := range r.view.Nodes {
		if n.Info.V != nil {
			s.Nodes = append(s.Nodes, r.node(n))
		}
	}
	slices.SortFunc(s.Nodes, func(a, b NodeState) int { return strings.Compare(a.Name, b.Name) })
	for rid, p := range r.view.Pools {
		s.Pools = append(s.Pools, r.pool(rid, p))
	}
	sortAmounts(s.Pools)
	return s
}

func sortAmounts(list []Amounts) {
	slices.SortFunc(list, func(a, b Amounts) int { return strings.Compare(a.Name, b.Name) })
}

func (r *reader) pool(rid types.ResourceID, p *Pool) Amounts {
	a := Amounts{Name: rid.In(r.ns), Free: p.Free()}
	if p.Info.V != nil {
		a.Capacity = p.Info.V.Capacity
	}
	if p.Allocated.V != nil {
		a.Allocated = p.Allocated.V.Of(rid)
	}
	return a
}

func (r *reader) node(n *Node) NodeState {
	out := NodeState{Name: n.Name, Alive: n.Alive.V != nil, Cordoned: n.Cordon.V != nil, Version: n.Info.V.Version, Labels: n.Info.V.Labels}
	if c := n.Cordon.V; c != nil {
		out.Reason, out.Drain = c.Reason, c.Drain
		if c.DrainBy != 0 {
			by := time.Unix(0, c.DrainBy)
			out.DrainBy = &by
		}
	}
	ids := make(map[types.ResourceID]struct{})
	for _, c := range n.Info.V.Capacity {
		ids[types.ResourceID(c.Name)] = struct{}{}
	}
	n.Has(func(rid types.ResourceID) { ids[rid] = struct{}{} })
	for rid := range r.view.Everywhere {
		ids[rid] = struct{}{}
	}
	// A resource removed while it was held still exists here, with a negative free amount.
	if n.Allocated.V != nil {
		for _, h := range n.Allocated.V.Holds {
			if ns, _, _ := h.Resource.Split(); ns == "" || ns == r.ns {
				ids[h.Resource] = struct{}{}
			}
		}
	}
	for rid := range ids {
		if r.view.Pool(rid) != nil {
			continue
		}
		capacity, known := r.view.Capacity(n, rid)
		used := n.Used(rid)
		if !known && used == 0 {
			continue
		}
		out.Resources = append(out.Resources, Amounts{Name: rid.In(r.ns), Capacity: capacity, Allocated: used, Free: capacity.Minus(used)})
	}
	sortAmounts(out.Resources)
	return out
}
