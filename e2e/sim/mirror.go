package sim

import (
	"maps"
	"slices"

	"github.com/escher-sched/escher/controlplane"
	"github.com/escher-sched/escher/controlplane/cluster"
)

// version is the known version of a key.
type version struct{ mod, create int64 }

// known returns the keys in a view.
func known(v *cluster.View) map[string]version {
	all := make(versions)
	for name, n := range v.Nodes {
		add(all, controlplane.NodeKey(name), n.Info)
		add(all, controlplane.AliveKey(name), n.Alive)
		add(all, controlplane.CordonKey(name), n.Cordon)
		add(all, controlplane.DevicesKey(name), n.Devices)
		add(all, controlplane.AllocatedKey(name), n.Allocated)
		for rid, c := range n.Own {
			ns, resource, _ := rid.Split()
			add(all, controlplane.ResourceKey(ns, resource, name), *c)
		}
		for rid, c := range n.Left {
			ns, resource, _ := rid.Split()
			add(all, controlplane.ProvidedKey(ns, resource, name), *c)
		}
		for _, b := range n.Bindings {
			add(all, controlplane.BindingKey(name, b.Task.ID.Namespace, b.Task.ID.ID, b.Number), b.Info)
			add(all, controlplane.ReportKey(name, b.Task.ID.Namespace, b.Task.ID.ID, b.Number), b.Report)
		}
	}
	for t := range v.Tasks() {
		id := t.ID
		add(all, controlplane.TaskKey(id.Namespace, id.ID), t.Info)
		add(all, controlplane.StatusKey(id.Namespace, id.ID), t.Status)
	}
	for id, r := range v.Reservations {
		add(all, controlplane.ReservationKey(id.Namespace, id.ID), r.Info)
		add(all, controlplane.GrantKey(id.Namespace, id.ID), r.Grant)
	}
	for rid, p := range v.Pools {
		ns, resource, _ := rid.Split()
		add(all, controlplane.ResourceKey(ns, resource, "*"), p.Info)
		add(all, controlplane.PoolKey(ns, resource), p.Allocated)
	}
	for rid, c := range v.Everywhere {
		ns, resource, _ := rid.Split()
		add(all, controlplane.ResourceKey(ns, resource, "+"), *c)
	}
	for id, c := range v.Jobs {
		add(all, controlplane.JobKey(id.Namespace, id.ID), *c)
	}
	for id, c := range v.Sessions {
		add(all, controlplane.SessionKey(id.Namespace, id.ID), *c)
	}
	for id, c := range v.Policies {
		add(all, controlplane.PoliciesKey(id.Namespace, id.ID), *c)
	}
	for id, c := range v.Histories {
		add(all, controlplane.HistoryKey(id.Namespace, id.ID), *c)
	}
	for ns, c := range v.Namespaces {
		add(all, controlplane.NamespaceKey(ns), *c)
	}
	for name, c := range v.Schedulers {
		add(all, controlplane.SchedulerKey(name), *c)
	}
	for role, c := range v.Leaders {
		add(all, controlplane.LeaderKey(role), *c)
	}
	return all
}

type versions = map[string]version

func add[T any](to versions, key string, c cluster.Cell[T]) {
	if c.V != nil {
		to[key] = version{c.Mod, c.Create}
	}
}

// checkView checks that at rest a scheduler knows exactly what is stored.
func (w *world) checkView(m *member) {
	has := known(m.core.View())
	for _, kv := range w.list(controlplane.Root).KVs {
		if x := has[kv.Key]; x != (version{kv.ModRevision, kv.CreateRevision}) {
			w.fail("%s has %s as of %v, and it is of %d, created at %d", m.name, kv.Key, x, kv.ModRevision, kv.CreateRevision)
		}
		delete(has, kv.Key)
	}
	for _, key := range slices.Sorted(maps.Keys(has)) {
		w.fail("%s has %s as of %v, and it is not there", m.name, key, has[key])
	}
}
