package server

import (
	"time"

	"github.com/escher-sched/escher/controlplane"
	"github.com/escher-sched/escher/controlplane/cluster"
	"github.com/escher-sched/escher/types"
)

// snapshot is what the collector decides on. Nothing of it is changed.
type snapshot struct {
	now  time.Time
	view *cluster.View
	// revision is the one up to which view lacks nothing; of some kinds of keys
	// it may know more.
	revision int64
	// specs are the specs with their ModRevision.
	specs map[cluster.ID]int64
	// usage is that of the database; zero while it is not known.
	usage Usage
	// since says since when something has been waiting for its end that has no
	// time of its own, by key.
	since map[string]time.Time
}

// step is one thing to do, on conditions that hold if it still is to be done.
// Steps are independent of one another.
type step struct {
	why      why
	key      string // what it is about
	compares []controlplane.Compare
	deletes  []string
	put      types.Message // under key, if not nil
}

// why is the reason of a step, for logs.
type why string

const (
	finished     why = "finished"
	statusOnly   why = "status without a task"
	jobDone      why = "its tasks are gone"
	neverJoined  why = "its job never came"
	sessionEnded why = "its session ended"
	ownerGone    why = "its owner is gone"
	nodeSession  why = "the session of its node is over"
	unused       why = "no task refers to it"
	full         why = "the database is nearly full"
	room         why = "the database has room again"
)

// decision is what is to be done at a snapshot.
type decision struct {
	steps []step
	// since is for the next snapshot.
	since map[string]time.Time
}

// decide says what is to be collected. It is pure; the order of steps is any.
func decide(s snapshot, p Policy) decision {
	d := &decider{snapshot: s, policy: p, next: make(map[string]time.Time)}
	d.admission()
	d.nodes()
	d.resources()
	d.reservations()
	d.tasks()
	d.jobs()
	d.unusedSpecs()
	return decision{d.steps, d.next}
}

// decider is one decide.
type decider struct {
	snapshot
	policy Policy
	steps  []step
	next   map[string]time.Time
}

func (d *decider) add(why why, key string, compares ...controlplane.Compare) *step {
	d.steps = append(d.steps, step{why: why, key: key, compares: compares})
	return &d.steps[len(d.steps)-1]
}

// remove adds a step that deletes a key.
func (d *decider) remove(why why, key string, mod int64, more ...controlplane.Compare) {
	s := d.add(why, key, append(more, unchanged(key, mod))...)
	s.deletes = []string{key}
}

func unchanged(key string, mod int64) controlplane.Compare {
	return controlplane.Compare{Key: key, Target: controlplane.ModRevision, Revision: mod}
}

func created(key string, rev int64) controlplane.Compare {
	return controlplane.Compare{Key: key, Target: controlplane.CreateRevision, Revision: rev}
}

// waited reports whether what key is about has been so for at least that long.
func (d *decider) waited(key string, long time.Duration) bool {
	start, ok := d.since[key]
	if !ok {
		start = d.now
	}
	d.next[key] = start
	return d.now.Sub(start) >= long
}

// nodes collects what was on nodes whose session is over: it is void already.
// The compare of the session is for one that is newer than what is known here.
func (d *decider) nodes() {
	for name, n := range d.view.Nodes {
		alive := created(controlplane.AliveKey(name), n.Session())
		for id, r := range n.Own {
			ns, res, _ := id.Split()
			if key := controlplane.ResourceKey(ns, res, name); r.V.NodeSession != n.Session() {
				d.remove(nodeSession, key, r.Mod, alive)
			} else {
				d.resource(key, ns, r)
			}
		}
		for id, left := range n.Left {
			ns, res, _ := id.Split()
			if left.V.NodeSession != n.Session() {
				d.remove(nodeSession, controlplane.ProvidedKey(ns, res, name), left.Mod, alive)
			}
		}
	}
}

// resources collects resources of many nodes, and of the cluster.
func (d *decider) resources() {
	for id, r := range d.view.Everywhere {
		ns, name, _ := id.Split()
		d.resource(controlplane.ResourceKey(ns, name, types.EveryNode), ns, r)
	}
	for id, p := range d.view.Pools {
		if p.Info.V != nil {
			ns, name, _ := id.Split()
			d.resource(controlplane.ResourceKey(ns, name, types.ClusterWide), ns, &p.Info)
		}
	}
}

// resource collects a resource whose owner is gone.
func (d *decider) resource(key, ns string, r *cluster.Cell[types.Resource]) {
	owner := cluster.ID{Namespace: ns, ID: r.V.Owner}
	switch r.V.Lifetime {
	case types.OfTask:
		t := d.view.Tasks[owner]
		switch {
		case t == nil || t.Info.V == nil:
			d.remove(ownerGone, key, r.Mod, unchanged(controlplane.TaskKey(ns, owner.ID), 0))
		case t.Phase().Ended():
			d.remove(ownerGone, key, r.Mod, unchanged(controlplane.StatusKey(ns, owner.ID), t.Status.Mod))
		}
	case types.OfSession:
		if d.view.Sessions[owner] == nil {
			d.remove(ownerGone, key, r.Mod, unchanged(controlplane.SessionKey(ns, owner.ID), 0))
		}
	case types.OfReservation:
		if res := d.view.Reservations[owner]; res == nil || res.Info.V == nil {
			d.remove(ownerGone, key, r.Mod, unchanged(controlplane.ReservationKey(ns, owner.ID), 0))
		}
	}
}

// reservations collects those whose session has ended; their grants are the
// scheduler's to release.
func (d *decider) reservations() {
	for id, r := range d.view.Reservations {
		if r.Info.V != nil && d.orphaned(id.Namespace, r.Info.V.Session) {
			d.remove(sessionEnded, controlplane.ReservationKey(id.Namespace, id.ID), r.Info.Mod,
				unchanged(controlplane.SessionKey(id.Namespace, r.Info.V.Session), 0))
		}
	}
}

// orphaned reports whether a session is named and has ended.
func (d *decider) orphaned(ns, session string) bool {
	return session != "" && d.view.Sessions[cluster.ID{Namespace: ns, ID: session}] == nil
}

// jobs collects those whose tasks are all gone. A job is written after its tasks,
// and none joins it later.
func (d *decider) jobs() {
	for id, j := range d.view.Jobs {
		if len(d.view.Members(id)) == 0 && j.Mod <= d.revision {
			d.remove(jobDone, controlplane.JobKey(id.Namespace, id.ID), j.Mod)
		}
	}
}

// unusedSpecs collects specs that no task has referred to for some time. Who
// launches a task writes its spec anew, even if it is there: that is what the
// compare is for.
func (d *decider) unusedSpecs() {
	used := make(map[cluster.ID]bool)
	for id, t := range d.view.Tasks {
		if t.Info.V != nil {
			used[cluster.ID{Namespace: id.Namespace, ID: t.Info.V.Spec}] = true
		}
	}
	for id, mod := range d.specs {
		key := controlplane.SpecKey(id.Namespace, id.ID)
		if !used[id] && mod <= d.revision && d.waited(key, d.policy.SpecGrace) {
			d.remove(unused, key, mod)
		}
	}
}
