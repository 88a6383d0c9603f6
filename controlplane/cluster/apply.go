package cluster

import (
	"slices"
	"strings"

	"github.com/escher-sched/escher/controlplane"
	"github.com/escher-sched/escher/types"
)

// Apply applies one change. It returns the parsed key, and whether the view changed: it ignores
// changes older than the state of the key, and kinds that the view lacks. Internal: the value is
// undecodable. The key then counts as absent (see Cell.Unread), and the view stays usable.
func (v *View) Apply(e controlplane.Event) (controlplane.Key, bool, error) {
	if len(v.committed) > 0 && v.deliver(e) {
		return controlplane.Key{}, false, nil
	}
	return v.applyChange(change{Event: e})
}

// change is an event, with its decoded value if that is known.
type change struct {
	controlplane.Event
	decoded types.Message
}

// value returns the stored form of the put value.
func (e *change) value() []byte {
	if e.Value == nil && e.decoded != nil {
		return types.Encode(0, e.decoded)
	}
	return e.Value
}

func (v *View) applyChange(e change) (controlplane.Key, bool, error) {
	k, ok := controlplane.Parse(e.Key)
	if !ok || len(v.gone) > 0 && v.gone[e.Key] >= e.ModRevision {
		return k, false, nil
	}
	if e.Delete && e.ModRevision > v.Revision {
		v.bury(e.Key, e.ModRevision)
	}
	changed, err := v.apply(k, e)
	if was := v.unread[e.Key]; was != 0 && was < e.ModRevision {
		// The key counted as absent and is known again, even if only as deleted.
		delete(v.unread, e.Key)
		changed = true
	}
	if err != nil {
		v.unread[e.Key] = e.ModRevision
		return k, changed, types.Errorf(types.Internal, "read %s: %w", e.Key, err)
	}
	return k, changed, nil
}

func (v *View) apply(k controlplane.Key, e change) (bool, error) {
	id := ID{k.Namespace, k.ID}
	switch k.Kind {
	case controlplane.Nodes:
		return update(&v.node(k.Node).Info, e)
	case controlplane.Devices:
		return update(&v.node(k.Node).Devices, e)
	case controlplane.Alive:
		return update(&v.node(k.Node).Alive, e)
	case controlplane.Cordons:
		return update(&v.node(k.Node).Cordon, e)
	case controlplane.Namespaces:
		return updateIn(v.Namespaces, k.Namespace, e)
	case controlplane.Admissions:
		return updateIn(v.Closed, k.Namespace, e)
	case controlplane.Resources:
		return v.applyResource(k, e)
	case controlplane.Provided:
		n := v.node(k.Node)
		rid := types.Resolve(k.Namespace, k.Name)
		changed, err := updateIn(n.Left, rid, e)
		v.index(rid, n)
		return changed, err
	case controlplane.Sessions:
		return updateIn(v.Sessions, id, e)
	case controlplane.Tasks:
		return v.applyTask(id, func(t *Task) (bool, error) {
			v.leaveJob(t)
			changed, err := updateBy(&t.Info, e.Event, func() (*TaskValue, error) { return v.readTask(t.ID, e.value(), true) })
			v.joinJob(t)
			return changed, err
		})
	case controlplane.Statuses:
		return v.applyTask(id, func(t *Task) (bool, error) {
			v.countImage(t, -1)
			before := t.Status.V
			changed, err := updateBy(&t.Status, e.Event, func() (*StatusValue, error) { return v.readStatus(e.value()) })
			v.countImage(t, 1)
			if changed {
				v.runs.replace(before, t.Status.V)
			}
			return changed, err
		})
	case controlplane.Jobs:
		return updateIn(v.Jobs, id, e)
	case controlplane.Reservations:
		return v.applyReservation(id, func(r *Reservation) (bool, error) { return update(&r.Info, e) })
	case controlplane.Policies:
		return updateIn(v.Policies, id, e)
	case controlplane.Histories:
		return updateIn(v.Histories, id, e)
	case controlplane.Grants:
		return v.applyGrant(id, e)
	case controlplane.Allocated:
		if k.Where != "" {
			return v.applyPool(types.Resolve(k.Namespace, k.Name), func(p *Pool) (bool, error) { return update(&p.Allocated, e) })
		}
		return update(&v.node(k.Node).Allocated, e)
	case controlplane.Bindings, controlplane.Reports:
		return v.applyBinding(k, e)
	case controlplane.Schedulers:
		return updateIn(v.Schedulers, k.ID, e)
	case controlplane.Leaders:
		return updateIn(v.Leaders, k.ID, e)
	case controlplane.System:
		if e.Key == controlplane.AdmissionKey() {
			return update(&v.Admission, e)
		}
	}
	return false, nil
}

// message is a pointer to T that can be decoded.
type message[T any] interface {
	*T
	types.Message
}

// update applies e to a cell unless the cell is as new or newer.
func update[T any, P message[T]](c *Cell[T], e change) (bool, error) {
	return updateBy(c, e.Event, func() (*T, error) {
		if m, ok := e.decoded.(P); ok {
			return m, nil
		}
		m := new(T)
		return m, types.Decode(e.Value, P(m))
	})
}

// updateBy is update for a cell whose values read decodes.
func updateBy[T any](c *Cell[T], e controlplane.Event, read func() (*T, error)) (bool, error) {
	if e.ModRevision <= c.Mod {
		if e.ModRevision == c.Mod && e.CreateRevision != 0 {
			// A key deleted in between may have looked changed when it was applied ahead.
			c.Create = e.CreateRevision
		}
		return false, nil
	}
	if e.Delete {
		was := c.V != nil
		*c = Cell[T]{}
		return was, nil
	}
	m, err := read()
	if err != nil {
		m = nil
	}
	c.set(e, m)
	return true, err
}

// updateIn applies e to a cell of a map of present keys.
func updateIn[K comparable, T any, P message[T]](m map[K]*Cell[T], k K, e change) (bool, error) {
	c := m[k]
	if c == nil {
		c = new(Cell[T])
	}
	changed, err := update[T, P](c, e)
	if c.V == nil {
		delete(m, k)
	} else {
		m[k] = c
	}
	return changed, err
}

func (v *View) node(name string) *Node {
	n := v.Nodes[name]
	if n == nil {
		name = strings.Clone(name) // keeps no reference to the whole key
		n = &Node{Name: name, Serial: v.serials}
		v.Nodes[name] = n
		v.serials++
	}
	if n.Own == nil { // a fork has made none
		n.Own, n.Left = make(map[types.ResourceID]*Cell[types.Resource]), make(map[types.ResourceID]*Cell[types.Provided])
		n.providers, n.has = make(map[types.ResourceID][]*Binding), make(map[types.ResourceID]struct{})
	}
	if v.bare != nil && !n.stale {
		n.stale = true
		v.bare.stale = append(v.bare.stale, n)
	}
	return n
}

func (v *View) applyResource(k controlplane.Key, e change) (bool, error) {
	rid := types.Resolve(k.Namespace, k.Name)
	switch k.Where {
	case types.EveryNode:
		return updateIn(v.Everywhere, rid, e)
	case types.ClusterWide:
		return v.applyPool(rid, func(p *Pool) (bool, error) { return update(&p.Info, e) })
	}
	n := v.node(k.Where)
	changed, err := updateIn(n.Own, rid, e)
	v.index(rid, n)
	return changed, err
}

func (v *View) applyPool(rid types.ResourceID, f func(*Pool) (bool, error)) (bool, error) {
	p := v.Pools[rid]
	if p == nil {
		p = &Pool{ID: rid}
		v.Pools[rid] = p
	}
	changed, err := f(p)
	if p.Info.Absent() && p.Allocated.Absent() {
		delete(v.Pools, rid)
	}
	return changed, err
}

func (v *View) applyTask(id ID, f func(*Task) (bool, error)) (bool, error) {
	before := v.compacted.Len()
	t := v.task(id)
	changed, err := f(t)
	if v.forget(t); !changed && v.compacted.Len() < before {
		v.Compact(t) // it is unchanged, so nothing needs it expanded
	}
	return changed, err
}

func (v *View) task(id ID) *Task {
	t := v.Task(id)
	if t == nil {
		t = &Task{ID: ID{v.namespace(id.Namespace), strings.Clone(id.ID)}}
		v.tasks[t.ID] = t
	}
	return t
}

// forget drops a task without any key.
func (v *View) forget(t *Task) {
	if t.Info.Absent() && t.Status.Absent() && len(t.Bindings) == 0 {
		delete(v.tasks, t.ID)
	}
}

func (v *View) applyReservation(id ID, f func(*Reservation) (bool, error)) (bool, error) {
	r := v.Reservations[id]
	if r == nil {
		r = &Reservation{ID: id}
		v.Reservations[id] = r
	}
	changed, err := f(r)
	if r.Info.Absent() && r.Grant.Absent() {
		delete(v.Reservations, id)
	}
	return changed, err
}

func (v *View) applyGrant(id ID, e change) (bool, error) {
	var before, after *types.Grant
	changed, err := v.applyReservation(id, func(r *Reservation) (bool, error) {
		before = r.Grant.V
		changed, err := update(&r.Grant, e)
		after = r.Grant.V
		return changed, err
	})
	for _, g := range []*types.Grant{before, after} {
		v.indexGrant(id, g)
	}
	return changed, err
}

// applyBinding keeps a binding and its report together, whichever comes first.
func (v *View) applyBinding(k controlplane.Key, e change) (bool, error) {
	n := v.node(k.Node)
	t := v.tasks[ID{k.Namespace, k.ID}] // compacted tasks have no bindings
	b := t.binding(k)
	if b == nil {
		if e.Delete {
			return false, nil
		}
		if t == nil {
			t = v.task(ID{k.Namespace, k.ID})
		}
		b = &Binding{Task: t, Number: k.Attempt, Node: n, pos: len(n.Bindings)}
		n.Bindings = append(n.Bindings, b)
		t.Bindings = append(t.Bindings, b)
	}
	before := b.Info.V
	var changed bool
	var err error
	if k.Kind == controlplane.Bindings {
		changed, err = updateBy(&b.Info, e.Event, func() (*BindingValue, error) { return v.readBinding(e.value()) })
	} else {
		changed, err = updateBy(&b.Report, e.Event, func() (*ReportValue, error) { return v.readReport(e.value()) })
	}
	if changed {
		v.reindexProviders(b, before)
	}
	if b.Info.Absent() && b.Report.Absent() {
		v.drop(b)
	}
	return changed, err
}

func (v *View) drop(b *Binding) {
	list := b.Node.Bindings
	last := list[len(list)-1]
	list[b.pos], last.pos = last, b.pos
	list[len(list)-1] = nil
	b.Node.Bindings, b.pos = list[:len(list)-1], -1
	t := b.Task
	if i := slices.Index(t.Bindings, b); i >= 0 {
		t.Bindings = slices.Delete(t.Bindings, i, i+1)
	}
	if len(t.Bindings) == 0 {
		t.Bindings = nil
	}
	v.forget(t)
}

// Binding returns the attempt of a binding or report key, nil if there is none.
func (v *View) Binding(k controlplane.Key) *Binding {
	return v.tasks[ID{k.Namespace, k.ID}].binding(k)
}

// binding returns the attempt of the task for a key, nil if there is none or t is nil.
func (t *Task) binding(k controlplane.Key) *Binding {
	if t == nil {
		return nil
	}
	for _, b := range t.Bindings {
		if b.Number == k.Attempt && b.Node.Name == k.Node {
			return b
		}
	}
	return nil
}

// namespace returns the name of a namespace, always the same string.
func (v *View) namespace(name string) string {
	if same, ok := v.names[name]; ok {
		return same
	}
	name = strings.Clone(name)
	v.names[name] = name
	return name
}

// reindexProviders updates the providers of the node's resources.
func (v *View) reindexProviders(b *Binding, before *BindingValue) {
	if before != nil {
		for _, p := range before.Provides {
			rid := types.Resolve(b.Task.ID.Namespace, p.Name)
			list := b.Node.providers[rid]
			if i := slices.Index(list, b); i >= 0 {
				list = slices.Delete(list, i, i+1)
			}
			if b.Node.providers[rid] = list; len(list) == 0 {
				delete(b.Node.providers, rid)
			}
			v.index(rid, b.Node)
		}
	}
	if b.Info.V == nil {
		return
	}
	for _, p := range b.Info.V.Provides {
		if p.When == types.WhenSucceeded {
			continue
		}
		rid := types.Resolve(b.Task.ID.Namespace, p.Name)
		b.Node.providers[rid] = append(b.Node.providers[rid], b)
		v.index(rid, b.Node)
	}
}
