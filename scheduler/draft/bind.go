package draft

import (
	"time"

	"github.com/escher-sched/escher/controlplane"
	"github.com/escher-sched/escher/controlplane/cluster"
	"github.com/escher-sched/escher/types"
)

// relied is a key that a decision depends on.
type relied struct {
	key string
	mod int64
}

// reliedOn returns the keys that needs, placed on n, depend on besides the node's.
func (d *Draft) reliedOn(ns string, n *cluster.Node, needs []cluster.Need) []relied {
	return d.alsoReliedOn(make([]relied, 0, 1+2*len(needs)), ns, n, needs)
}

// RelyOn makes the draft depend on what needs, placed on n, depend on besides the node.
func (d *Draft) RelyOn(ns string, n *cluster.Node, needs []cluster.Need) {
	for _, k := range d.reliedOn(ns, n, needs) {
		d.Change.IfUnchanged(k.key, k.mod)
	}
}

// CompareReservation makes the draft depend on a reservation, its grant and its namespace being
// unchanged.
func (d *Draft) CompareReservation(r *cluster.Reservation) {
	ns, id := r.ID.Namespace, r.ID.ID
	d.Change.IfUnchanged(controlplane.ReservationKey(ns, id), r.Info.Mod)
	d.Change.IfUnchanged(controlplane.GrantKey(ns, id), r.Grant.Mod)
	d.CompareNamespace(ns)
}

// CompareNamespace makes the draft depend on a namespace being unchanged.
func (d *Draft) CompareNamespace(ns string) {
	space := d.namespace(ns)
	d.Change.IfUnchanged(space.key, space.mod)
}

// alsoReliedOn is reliedOn, appended to keys.
func (d *Draft) alsoReliedOn(keys []relied, ns string, n *cluster.Node, needs []cluster.Need) []relied {
	keys = append(keys, d.namespace(ns))
	add := func(key string, mod int64) { keys = append(keys, relied{key, mod}) }
	for _, x := range needs {
		if p := d.view.Pool(x.ID); p != nil {
			ns, name, _ := x.ID.Split()
			add(controlplane.ResourceKey(ns, name, types.ClusterWide), p.Info.Mod)
			continue
		}
		if d.reliedOnLast.id != x.ID {
			d.view.Relied(n, x.ID, add)
			if x.ID.Scoped() { // by its grant alone, on any node
				d.reliedOnLast.id, d.reliedOnLast.grant = x.ID, keys[len(keys)-1]
			}
		} else {
			keys = append(keys, d.reliedOnLast.grant)
		}
		if x.Devices != nil || x.ID.Unscoped() != types.Port && d.MadeOfDevices(n, x.ID) {
			add(controlplane.DevicesKey(n.Name), n.Devices.Mod)
		}
	}
	return keys
}

// namespace is the key of the requests that a namespace adds to every vector.
func (d *Draft) namespace(ns string) relied {
	if last := &d.reliedOnLast; last.space.key == "" || last.ns != ns {
		key := controlplane.NamespaceKey(ns)
		last.ns, last.space = ns, relied{key, d.view.UnreadMod(key)}
		if c := d.view.Namespaces[ns]; c != nil {
			last.space.mod = c.Mod
		}
	}
	return d.reliedOnLast.space
}

// CompareNode makes the draft depend on the node being unchanged: alive in this session, not
// cordoned, of this capacity.
func (d *Draft) CompareNode(n *cluster.Node) {
	p := d.at(n)
	if p.eligible {
		return
	}
	p.eligible = true
	keys := d.keysOf(n)
	d.Change.If(controlplane.Compare{Key: keys.node, Revision: n.Info.Mod})
	if d.fewCordons() {
		d.compareCordons()
	} else {
		d.Change.If(controlplane.Compare{Key: controlplane.CordonKey(n.Name)})
	}
	d.Change.If(controlplane.Compare{Key: keys.alive, Target: controlplane.CreateRevision, Revision: n.Session()})
}

// CompareTask makes the draft depend on the task being unchanged: not bound by another scheduler,
// not stopped.
func (d *Draft) CompareTask(t *cluster.Task) {
	d.Change.If(controlplane.Compare{Key: controlplane.TaskKey(t.ID.Namespace, t.ID.ID), Revision: t.Info.Mod})
	d.Change.If(controlplane.Compare{Key: controlplane.StatusKey(t.ID.Namespace, t.ID.ID), Revision: t.Status.Mod})
}

// ManyCordons is the number of cordons above which the draft compares the cordon of each node.
// Below it, the store reads all cordons to find a new one.
const ManyCordons = 64

func (d *Draft) fewCordons() bool { return d.hooks.Cordons != nil && d.hooks.Cordons() <= ManyCordons }

// compareCordons makes the draft depend on no node having been cordoned since.
func (d *Draft) compareCordons() {
	if !d.cordons {
		d.cordons = true
		d.Change.If(controlplane.Compare{
			Key: controlplane.Prefix(controlplane.Cordons), Target: controlplane.Newest, Revision: d.view.Revision,
		})
	}
}

// nodeCompares is the number of compares per node of a bind: allocated, node, cordon and session.
const nodeCompares = controlplane.NodeCompares

// manyKeys is the number of relied keys above which space for their compares is grown at once.
const manyKeys = 16

// Bind adds the next attempt of t on n to the draft. needs are the vector of the chosen alternative,
// from Vectors, and fit: see Fits and PoolShort. Of a draft of New, the caller checks that t may
// be bound: it is visible and pending, without binding, stop or pending retry, and n is eligible.
// Bind returns false, and changes nothing, when the attempt exceeds the limits of the transaction.
func (d *Draft) Bind(t *cluster.Task, n *cluster.Node, alternative int, needs []cluster.Need, now time.Time) bool {
	d.keys = d.alsoReliedOn(d.keys[:0], t.ID.Namespace, n, needs)
	keys := d.keys
	if !d.roomToBind(n, keys, needs) {
		return false
	}
	holds := d.Hold(n, needs)
	d.Take(n, holds)
	if len(keys) > manyKeys {
		d.Change.Grow(2 + nodeCompares + len(keys))
	}
	d.CompareNode(n)
	d.CompareTask(t)
	for _, r := range keys {
		d.Change.IfUnchanged(r.key, r.mod)
	}
	d.Keep(n, holds)
	attempt := 1
	if t.Status.V != nil {
		attempt = t.Status.V.Attempt + 1
	}
	task, image := t.Info.V, d.view.Image(t)
	d.Put(controlplane.BindingKey(n.Name, t.ID.Namespace, t.ID.ID, attempt), &types.Binding{
		Session: n.Session(), Holds: holds, Alternative: alternative, Provides: task.Provides,
		Spec: task.Spec, Bound: now.UnixNano(), MaxRun: task.MaxRun, OnDisconnect: task.OnDisconnect,
		Deadline: task.Deadline, Image: image,
	}, 0)
	d.Put(controlplane.StatusKey(t.ID.Namespace, t.ID.ID), &types.Status{
		Phase: types.Bound, Node: n.Name, Attempt: attempt, Bound: now.UnixNano(), Image: image, Failures: failuresOf(t.Status.V),
	}, t.Status.Mod)
	for _, p := range task.Provides {
		if p.When == types.WhenBound {
			d.offer(n, types.Resolve(t.ID.Namespace, p.Name), p.Amount)
		}
	}
	d.at(n).binds++
	d.claim(t)
	d.items++
	d.Binds = append(d.Binds, Bind{Task: t.ID, Node: n.Name, Attempt: attempt, Alternative: alternative})
	return true
}
