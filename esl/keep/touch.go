package keep

import (
	"context"

	"go.uber.org/zap"

	"github.com/escher-sched/escher/controlplane"
	"github.com/escher-sched/escher/controlplane/cluster"
	"github.com/escher-sched/escher/esl"
	"github.com/escher-sched/escher/types"
)

// apply applies an update.
func (k *loop) apply(ctx context.Context, u controlplane.Update) {
	clear(k.common)
	k.synced = k.synced && !u.Synced
	events := u.Events
	if u.Has != nil {
		events = append(events[:len(events):len(events)], k.view.Gone(u.Revision, u.Has)...)
	}
	for _, e := range events {
		k.change(ctx, e)
	}
	if u.More {
		return
	}
	k.view.Reached(u.Revision)
	k.turns.further(u.Revision)
	k.collections.further(u.Revision)
	if u.Synced {
		k.touchAll()
	}
	k.synced = true
}

// change applies the change of a key.
func (k *loop) change(ctx context.Context, e controlplane.Event) {
	if e.Delete { // afterwards the owner is not known
		if at, ok := controlplane.Parse(e.Key); ok {
			k.touch(at)
		}
	}
	at, changed, err := k.view.Apply(e)
	if err != nil {
		k.opts.Log.Warn("a value cannot be read: it counts as absent", zap.String("path", e.Key), zap.Error(err))
	}
	if !changed {
		return
	}
	k.collections.touch(k.view, at)
	if at.Kind == controlplane.Policies {
		k.read(ctx, cluster.ID{Namespace: at.Namespace, ID: at.ID})
	}
	k.touch(at)
}

// read reads the policies of a key again.
func (k *loop) read(ctx context.Context, id cluster.ID) {
	k.changed = controlplane.Key{Kind: controlplane.Policies, Namespace: id.Namespace, ID: id.ID}
	k.touchShared(id)
	was := k.items[id]
	k.drop(id)
	var stay []string
	defer func() { k.gone(was, stay) }()
	c := k.view.Policies[id]
	page := k.book.Set(id, c)
	if page == nil || !k.opts.mine(id.Namespace, c.V) {
		delete(k.told, id)
		return
	}
	stay = page.Labels
	k.tell(ctx, id, c, page)
	item := &managed{id: id, job: c.V.Job, session: c.V.Session, mod: c.Mod}
	for i, policy := range page.Policies {
		p, err := (*managedPolicy)(nil), page.Wrong[i]
		if keeper, ok := policy.(esl.Controller); ok {
			p, err = newManaged(item, keeper, page.Labels[i])
		}
		switch {
		case err != nil && !types.Is(err, types.NotFound):
			k.opts.Log.Warn("a policy cannot be read: it is not kept",
				zap.String("namespace", id.Namespace), zap.String("policy", id.ID+"."+page.Labels[i]), zap.Error(err))
			k.unreadable(id, page.Labels[i], err)
		case p != nil:
			item.policies = append(item.policies, p)
			k.listen(p)
		}
	}
	if len(item.policies) > 0 {
		k.items[id] = item
	}
}

// listen registers a policy for changes outside its job.
func (k *loop) listen(p *managedPolicy) {
	if p.wide {
		k.wide[p] = struct{}{}
	}
	for _, on := range p.watches {
		k.watching.add(on, p)
	}
}

// drop forgets the running policies of a key.
func (k *loop) drop(id cluster.ID) {
	item := k.items[id]
	if item == nil {
		return
	}
	delete(k.items, id)
	for _, p := range item.policies {
		p.gone = true
		delete(k.wide, p)
		for _, on := range p.watches {
			k.watching.drop(on, p)
		}
		k.lacks(p, nil)
		k.seekers.drop(p)
		k.meter.want(p, nil, k.looked)
		k.turns.never(p)
	}
}

// touch marks the policies that may depend on a changed key.
func (k *loop) touch(at controlplane.Key) {
	k.changed = at
	defer func() { k.changed = controlplane.Key{} }()
	id := cluster.ID{Namespace: at.Namespace, ID: at.ID}
	switch at.Kind {
	case controlplane.Nodes, controlplane.Alive, controlplane.Cordons, controlplane.Devices, controlplane.Namespaces:
		k.touchAll()
		return
	case controlplane.Tasks, controlplane.Statuses:
		k.touchTask(id)
	case controlplane.Jobs, controlplane.Policies:
		k.touchJob(id)
	case controlplane.Reservations, controlplane.Grants:
		k.touchNamed(id)
		k.touchReserved(id)
	case controlplane.Resources, controlplane.Provided:
		k.touchNamed(cluster.ID{Namespace: at.Namespace, ID: at.Name})
	case controlplane.Allocated:
		if at.Name != "" {
			k.touchNamed(cluster.ID{Namespace: at.Namespace, ID: at.Name})
		} else {
			k.touchNode(at.Node)
		}
	case controlplane.Bindings, controlplane.Reports:
		k.touchProvided(at)
	}
	for p := range k.wide {
		k.mark(p)
	}
}

// touchTask handles a change of a task, or of its status.
func (k *loop) touchTask(id cluster.ID) {
	k.touchWatching(id)
	t := k.view.Task(id)
	if t == nil || t.Info.V == nil {
		return
	}
	if len(k.watching) > 0 && t.Info.V.Name != "" {
		k.touchWatching(cluster.ID{Namespace: id.Namespace, ID: t.Info.V.Name})
	}
	if t.Info.V.Job != "" {
		k.touchJob(cluster.ID{Namespace: id.Namespace, ID: t.Info.V.Job})
	}
}

// touchJob handles a change of a job, or of the policies of an id.
func (k *loop) touchJob(id cluster.ID) {
	k.touchItem(id)
	k.touchShared(id)
	k.touchWatching(id)
	if job := k.view.Jobs[id]; len(k.watching) > 0 && job != nil && job.V != nil && job.V.Name != "" {
		k.touchWatching(cluster.ID{Namespace: id.Namespace, ID: job.V.Name})
	}
}

// touchNamed handles a change of a resource or reservation: the names of a policy's objects begin
// with the key of the policy.
func (k *loop) touchNamed(name cluster.ID) {
	k.touchWatching(name)
	for i := range len(name.ID) {
		if name.ID[i] == '.' {
			id := cluster.ID{Namespace: name.Namespace, ID: name.ID[:i]}
			k.touchItem(id)
			k.touchShared(id)
		}
	}
}

// touchNode offers a node with other amounts in use, and marks the policies that have opened capacity there.
func (k *loop) touchNode(node string) {
	for _, c := range k.seekers.nodeChanged(node) {
		k.mark(c.by)
	}
}

// touchReserved handles a change of a reservation: it may make capacity on nodes for its job.
func (k *loop) touchReserved(id cluster.ID) {
	r := k.view.Reservations[id]
	if r == nil || r.Info.V == nil {
		return
	}
	if r.Info.V.Job != "" {
		k.touchItem(cluster.ID{Namespace: id.Namespace, ID: r.Info.V.Job})
	}
	for _, b := range r.Info.V.Bundles {
		if b.Node != "" {
			k.touchNode(b.Node)
		}
	}
}

// touchItem marks all policies of a key, for a change of their own.
func (k *loop) touchItem(id cluster.ID) {
	if item := k.items[id]; item != nil {
		for _, p := range item.policies {
			p.own = item.job != ""
			k.mark(p)
		}
	}
}

// touchShared marks the shared policies that a job refers to.
func (k *loop) touchShared(id cluster.ID) {
	for _, shared := range k.book.SharedOf(id) {
		k.touchItem(shared)
	}
}

// touchProvided handles a change of an attempt: the amounts that it provides change with it.
func (k *loop) touchProvided(at controlplane.Key) {
	b := k.view.Binding(at)
	if b == nil || b.Info.V == nil {
		return
	}
	for _, p := range b.Info.V.Provides {
		k.touchNamed(cluster.ID{Namespace: at.Namespace, ID: p.Name})
	}
}

func (k *loop) touchWatching(on cluster.ID) {
	for p := range k.watching[on] {
		k.mark(p)
	}
	for p := range k.lacked[on] {
		k.mark(p)
	}
}

func (k *loop) touchAll() {
	for _, item := range k.items {
		for _, p := range item.policies {
			k.mark(p)
		}
	}
}

// mark schedules a policy as soon as it may be called.
func (k *loop) mark(p *managedPolicy) {
	p.moved = true
	p.woken.by(k.changed)
	if !p.gone && !p.busy {
		k.turns.put(p)
	}
}
