package cluster

import (
	"slices"
	"strings"

	"github.com/escher-sched/escher/controlplane"
	"github.com/escher-sched/escher/types"
)

// Gone returns deletes, at the given revision, of the keys that the view has and the store lacks,
// sorted. A listing in parts needs it: see controlplane.Update.Has. Keys applied ahead of that
// revision stay.
func (v *View) Gone(revision int64, has func(key string) bool) []controlplane.Event {
	var gone []controlplane.Event
	v.keys(func(key string) {
		if !has(key) {
			gone = append(gone, controlplane.Event{Delete: true, KV: controlplane.KV{Key: key, ModRevision: revision}})
		}
	})
	slices.SortFunc(gone, func(a, b controlplane.Event) int { return strings.Compare(a.Key, b.Key) })
	return slices.CompactFunc(gone, func(a, b controlplane.Event) bool { return a.Key == b.Key })
}

// GoneNodes reports whether the view has more than most nodes without any key. It counts again only
// after that many new nodes.
func (v *View) GoneNodes(most int) bool {
	if len(v.Nodes) <= v.checked+most {
		return false
	}
	v.checked = len(v.Nodes)
	gone := 0
	for name, n := range v.Nodes {
		there := false
		n.keys(name, func(string) { there = true })
		if !there {
			gone++
		}
	}
	return gone > most
}

// keys calls f for every present key, in no order; an unreadable key may come twice.
func (v *View) keys(f func(key string)) {
	for key := range v.unread {
		f(key)
	}
	for name, n := range v.Nodes {
		n.keys(name, f)
	}
	for p := range v.compacted.All() {
		f(controlplane.TaskKey(v.compacted.Namespace(p), string(v.compacted.At(p).ID())))
	}
	for id, t := range v.tasks {
		present(&t.Info, f, controlplane.Key{Kind: controlplane.Tasks, Namespace: id.Namespace, ID: id.ID})
		present(&t.Status, f, controlplane.Key{Kind: controlplane.Statuses, Namespace: id.Namespace, ID: id.ID})
	}
	for id, r := range v.Reservations {
		present(&r.Info, f, controlplane.Key{Kind: controlplane.Reservations, Namespace: id.Namespace, ID: id.ID})
		present(&r.Grant, f, controlplane.Key{Kind: controlplane.Grants, Namespace: id.Namespace, ID: id.ID})
	}
	for rid, p := range v.Pools {
		ns, name, _ := rid.Split()
		present(&p.Info, f, controlplane.Key{Kind: controlplane.Resources, Namespace: ns, Name: name, Where: types.ClusterWide})
		present(&p.Allocated, f, controlplane.Key{Kind: controlplane.Allocated, Namespace: ns, Name: name, Where: types.ClusterWide})
	}
	for rid := range v.Everywhere {
		ns, name, _ := rid.Split()
		f(controlplane.ResourceKey(ns, name, types.EveryNode))
	}
	v.others(f)
}

// others calls f for the keys without any other object.
func (v *View) others(f func(key string)) {
	for id := range v.Jobs {
		f(controlplane.JobKey(id.Namespace, id.ID))
	}
	for id := range v.Policies {
		f(controlplane.PoliciesKey(id.Namespace, id.ID))
	}
	for id := range v.Histories {
		f(controlplane.HistoryKey(id.Namespace, id.ID))
	}
	for id := range v.Sessions {
		f(controlplane.SessionKey(id.Namespace, id.ID))
	}
	for ns := range v.Namespaces {
		f(controlplane.NamespaceKey(ns))
	}
	for ns := range v.Closed {
		f(controlplane.NamespaceAdmissionKey(ns))
	}
	for name := range v.Schedulers {
		f(controlplane.SchedulerKey(name))
	}
	for role := range v.Leaders {
		f(controlplane.LeaderKey(role))
	}
	if !v.Admission.Absent() {
		f(controlplane.AdmissionKey())
	}
}

func (n *Node) keys(name string, f func(key string)) {
	present(&n.Info, f, controlplane.Key{Kind: controlplane.Nodes, Node: name})
	present(&n.Alive, f, controlplane.Key{Kind: controlplane.Alive, Node: name})
	present(&n.Cordon, f, controlplane.Key{Kind: controlplane.Cordons, Node: name})
	present(&n.Devices, f, controlplane.Key{Kind: controlplane.Devices, Node: name})
	present(&n.Allocated, f, controlplane.Key{Kind: controlplane.Allocated, Node: name})
	for rid := range n.Own {
		ns, base, _ := rid.Split()
		f(controlplane.ResourceKey(ns, base, name))
	}
	for rid := range n.Left {
		ns, base, _ := rid.Split()
		f(controlplane.ProvidedKey(ns, base, name))
	}
	for _, b := range n.Bindings {
		k := controlplane.Key{Node: name, Namespace: b.Task.ID.Namespace, ID: b.Task.ID.ID, Attempt: b.Number}
		k.Kind = controlplane.Bindings
		present(&b.Info, f, k)
		k.Kind = controlplane.Reports
		present(&b.Report, f, k)
	}
}

// present calls f with a key if it exists.
func present[T any](c *Cell[T], f func(key string), k controlplane.Key) {
	if !c.Absent() {
		f(k.String())
	}
}
