package server

import (
	"slices"
	"strings"

	"github.com/escher-sched/escher/controlplane"
	"github.com/escher-sched/escher/types"
)

// dependent is an object that ends with another one: a resource, a provided resource, a
// reservation, or policies.
type dependent struct {
	key string
	mod int64
	// bytes is the size of its key and value.
	bytes int32
	// node is its node, in whose session it is valid; empty if it has none.
	node        string
	nodeSession int64
	// ties are its owners; the first end of any ends it.
	ties []tie
	// queued reports whether index.touched lists it.
	queued bool
}

// tie is an owner of a dependent, with the reason for collecting it then.
type tie struct {
	owner owner
	why   why
}

// tie adds an owner, if the id is not empty.
func (th *dependent) tie(kind controlplane.Kind, ns, id string, why why) {
	if kind != "" && id != "" {
		th.ties = append(th.ties, tie{owner{kind, strings.Clone(ns), id}, why})
	}
}

func (x *index) applyDependent(k controlplane.Key, e controlplane.Event) {
	th := x.dependents[e.Key]
	if th == nil {
		if e.Delete {
			return
		}
		th = &dependent{key: strings.Clone(e.Key)}
		x.dependents[th.key] = th
	}
	x.disown(th)
	x.measure(x.space(k.Namespace), &th.bytes, e)
	if th.mod = 0; e.Delete {
		delete(x.dependents, e.Key)
	} else {
		th.mod = e.ModRevision
		th.read(k, e.Value)
		x.own(th)
		x.touch(th)
	}
	switch k.Kind {
	case controlplane.Policies:
		x.applyPolicies(x.space(k.Namespace), k.ID, !e.Delete)
		x.touchOwned(owner{k.Kind, k.Namespace, k.ID})
	case controlplane.Reservations:
		x.touchOwned(owner{k.Kind, k.Namespace, k.ID})
	}
}

// read records the owners of a dependent.
func (th *dependent) read(k controlplane.Key, value []byte) {
	switch k.Kind {
	case controlplane.Resources:
		var r types.Resource
		if types.Decode(value, &r) != nil {
			return
		}
		if k.Where != types.EveryNode && k.Where != types.ClusterWide {
			th.node, th.nodeSession = strings.Clone(k.Where), r.NodeSession
		}
		why := ownerGone
		switch r.Lifetime {
		case types.OfJob:
			why = jobEnded
		case types.OfPolicy:
			why = withdrawn
		}
		th.tie(ownerKind(r.Lifetime), k.Namespace, r.Owner, why)
	case controlplane.Provided:
		var p types.Provided
		if types.Decode(value, &p) == nil {
			th.node, th.nodeSession = strings.Clone(k.Node), p.NodeSession
			th.tie(controlplane.Jobs, k.Namespace, p.Job, jobEnded)
		}
	case controlplane.Reservations:
		var r types.Reservation
		if types.Decode(value, &r) == nil {
			th.tie(controlplane.Sessions, k.Namespace, r.Session, sessionEnded)
			th.tie(controlplane.Jobs, k.Namespace, r.Job, jobEnded)
			th.tie(controlplane.Policies, k.Namespace, r.Policy, withdrawn)
		}
	case controlplane.Policies:
		var p types.Policies
		if types.Decode(value, &p) == nil {
			th.tie(controlplane.Sessions, k.Namespace, p.Session, sessionEnded)
			th.tie(controlplane.Jobs, k.Namespace, p.Job, jobEnded)
		}
	}
}

// ownerKind returns the kind of owner for a lifetime, empty if it has none.
func ownerKind(l types.Lifetime) controlplane.Kind {
	switch l {
	case types.OfTask:
		return controlplane.Tasks
	case types.OfSession:
		return controlplane.Sessions
	case types.OfReservation:
		return controlplane.Reservations
	case types.OfJob:
		return controlplane.Jobs
	case types.OfPolicy:
		return controlplane.Policies
	}
	return ""
}

// own lists a dependent with its owners.
func (x *index) own(th *dependent) {
	if th.node != "" {
		x.node(th.node).dependents[th] = struct{}{}
	}
	for _, t := range th.ties {
		of := x.owned[t.owner]
		if of == nil {
			of = make(map[*dependent]struct{})
			x.owned[t.owner] = of
		}
		of[th] = struct{}{}
	}
}

// disown is the inverse of own, and forgets the owners.
func (x *index) disown(th *dependent) {
	if th.node != "" {
		delete(x.node(th.node).dependents, th)
		x.tidyNode(th.node)
	}
	for _, t := range th.ties {
		of := x.owned[t.owner]
		if delete(of, th); len(of) == 0 {
			delete(x.owned, t.owner)
		}
	}
	th.node, th.nodeSession, th.ties = "", 0, nil
}

// touch makes the next pass consider a dependent.
func (x *index) touch(th *dependent) {
	if !th.queued {
		th.queued = true
		x.touched = append(x.touched, th)
	}
}

func (x *index) touchOwned(o owner) {
	for th := range x.owned[o] {
		x.touch(th)
	}
}

// outlived returns the condition under which a dependent has outlived an owner; ok is false if it
// has not, as far as is known.
func (l *pass) outlived(th *dependent) (cond controlplane.Compare, why why, ok bool) {
	if th.node != "" {
		session := int64(0)
		if n := l.nodes[th.node]; n != nil {
			session = n.session
		}
		if session != th.nodeSession {
			return created(controlplane.AliveKey(th.node), session), nodeSession, true
		}
	}
	for _, t := range th.ties {
		if cond, ok := l.gone(t.owner); ok {
			return cond, t.why, true
		}
	}
	return controlplane.Compare{}, "", false
}

// gone returns the condition under which an owner is gone for good: it is missing or has ended.
func (l *pass) gone(o owner) (cond controlplane.Compare, ok bool) {
	switch o.kind {
	case controlplane.Tasks:
		switch t := l.find(o.ns, o.id); {
		case t == nil || t.mod == 0:
			return unchanged(controlplane.TaskKey(o.ns, o.id), 0), true
		case t.stage == ends:
			return unchanged(t.statusKey(), t.statusMod), true
		}
	case controlplane.Jobs:
		switch j := l.findJob(o); {
		case j == nil || j.mod == 0:
			return unchanged(controlplane.JobKey(o.ns, o.id), 0), true
		case j.ended(l.tasks):
			return created(controlplane.JobKey(o.ns, o.id), j.created), true
		}
	case controlplane.Sessions:
		if s := l.spaces[o.ns]; s == nil || s.sessions[o.id] == nil || s.sessions[o.id].mod == 0 {
			return unchanged(controlplane.SessionKey(o.ns, o.id), 0), true
		}
	case controlplane.Reservations:
		if key := controlplane.ReservationKey(o.ns, o.id); l.dependents[key] == nil {
			return unchanged(key, 0), true
		}
	case controlplane.Policies:
		if key := controlplane.PoliciesKey(o.ns, o.id); l.dependents[key] == nil {
			return unchanged(key, 0), true
		}
	}
	return controlplane.Compare{}, false
}

// findJob returns the job of an owner, nil if it is unknown.
func (x *index) findJob(o owner) *job {
	if s := x.spaces[o.ns]; s != nil {
		return s.jobs[o.id]
	}
	return nil
}

// awaitsTasks reports whether a dependent has a job with possibly unknown tasks.
func (l *pass) awaitsTasks(th *dependent) bool {
	return slices.ContainsFunc(th.ties, func(t tie) bool {
		if t.owner.kind != controlplane.Jobs {
			return false
		}
		j := l.findJob(t.owner)
		return j != nil && j.mod != 0 && j.mayLackTasks(l.tasks)
	})
}
