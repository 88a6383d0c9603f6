package server

import (
	"slices"
	"strings"

	"github.com/escher-sched/escher/controlplane"
	"github.com/escher-sched/escher/types"
)

// thing is what ends with something else: a resource, what an ended task left behind, a
// reservation, or policies.
type thing struct {
	key string
	mod int64
	// bytes are those of its key and value.
	bytes int32
	// node is the one it is on, in a session of which it is alone; empty for none.
	node        string
	nodeSession int64
	// ties are what it ends with, whichever of them ends first.
	ties []tie
	// queued tells that it is among those touched.
	queued bool
}

// tie is what a thing ends with, and the reason for which it is collected then.
type tie struct {
	owner owner
	why   why
}

// tie has a thing end with what has an id, if it has one.
func (th *thing) tie(kind controlplane.Kind, ns, id string, why why) {
	if kind != "" && id != "" {
		th.ties = append(th.ties, tie{owner{kind, strings.Clone(ns), id}, why})
	}
}

func (x *index) applyThing(k controlplane.Key, e controlplane.Event) {
	th := x.things[e.Key]
	if th == nil {
		if e.Delete {
			return
		}
		th = &thing{key: strings.Clone(e.Key)}
		x.things[th.key] = th
	}
	x.disown(th)
	x.measure(x.space(k.Namespace), &th.bytes, e)
	if th.mod = 0; e.Delete {
		delete(x.things, e.Key)
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

// read notes what a thing ends with.
func (th *thing) read(k controlplane.Key, value []byte) {
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

// ownerKind is the kind of the owner that a lifetime names, empty for none.
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

// own lists a thing with what it ends with.
func (x *index) own(th *thing) {
	if th.node != "" {
		x.node(th.node).things[th] = struct{}{}
	}
	for _, t := range th.ties {
		of := x.owned[t.owner]
		if of == nil {
			of = make(map[*thing]struct{})
			x.owned[t.owner] = of
		}
		of[th] = struct{}{}
	}
}

// disown undoes own, and forgets what a thing ends with.
func (x *index) disown(th *thing) {
	if th.node != "" {
		delete(x.node(th.node).things, th)
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

// touch has a thing looked at again.
func (x *index) touch(th *thing) {
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

// outlived returns the condition under which a thing has outlived what it ends with;
// ok is false if, as far as is known, it has not.
func (l *look) outlived(th *thing) (cond controlplane.Compare, why why, ok bool) {
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

// gone returns the condition under which nothing ends with an owner any more: it is not
// there, or has ended, which is for good.
func (l *look) gone(o owner) (cond controlplane.Compare, ok bool) {
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
		if key := controlplane.ReservationKey(o.ns, o.id); l.things[key] == nil {
			return unchanged(key, 0), true
		}
	case controlplane.Policies:
		if key := controlplane.PoliciesKey(o.ns, o.id); l.things[key] == nil {
			return unchanged(key, 0), true
		}
	}
	return controlplane.Compare{}, false
}

// findJob returns the job that is an owner, nil if nothing of it is there.
func (x *index) findJob(o owner) *job {
	if s := x.spaces[o.ns]; s != nil {
		return s.jobs[o.id]
	}
	return nil
}

// early reports whether a thing is of a job of which a task may not be known yet.
func (l *look) early(th *thing) bool {
	return slices.ContainsFunc(th.ties, func(t tie) bool {
		if t.owner.kind != controlplane.Jobs {
			return false
		}
		j := l.findJob(t.owner)
		return j != nil && j.mod != 0 && j.early(l.tasks)
	})
}
