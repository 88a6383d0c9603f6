package server

import (
	"strings"

	"github.com/escher-sched/escher/controlplane"
	"github.com/escher-sched/escher/types"
)

// thing is what ends with something else: a resource, what an ended task left behind,
// or a reservation.
type thing struct {
	key string
	mod int64
	// node is the one it is on, in a session of which it is alone; empty for none.
	node        string
	nodeSession int64
	// owner is what it ends with, for that reason; its kind is empty for nothing.
	owner owner
	why   why
	// queued tells that it is among those touched.
	queued bool
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
	if th.mod = 0; e.Delete {
		delete(x.things, e.Key)
	} else {
		th.mod = e.ModRevision
		th.read(k, e.Value)
		x.own(th)
		x.touch(th)
	}
	if k.Kind == controlplane.Reservations {
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
		th.owner, th.why = owner{ownerKind(r.Lifetime), strings.Clone(k.Namespace), r.Owner}, ownerGone
	case controlplane.Provided:
		var p types.Provided
		if types.Decode(value, &p) == nil {
			th.node, th.nodeSession = strings.Clone(k.Node), p.NodeSession
		}
	case controlplane.Reservations:
		var r types.Reservation
		if types.Decode(value, &r) == nil && r.Session != "" {
			th.owner, th.why = owner{controlplane.Sessions, strings.Clone(k.Namespace), r.Session}, sessionEnded
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
	}
	return ""
}

// own lists a thing with what it ends with.
func (x *index) own(th *thing) {
	if th.node != "" {
		x.node(th.node).things[th] = struct{}{}
	}
	if th.owner.kind == "" {
		return
	}
	of := x.owned[th.owner]
	if of == nil {
		of = make(map[*thing]struct{})
		x.owned[th.owner] = of
	}
	of[th] = struct{}{}
}

// disown undoes own, and forgets what a thing ends with.
func (x *index) disown(th *thing) {
	if th.node != "" {
		delete(x.node(th.node).things, th)
		x.tidyNode(th.node)
	}
	if of := x.owned[th.owner]; of != nil {
		if delete(of, th); len(of) == 0 {
			delete(x.owned, th.owner)
		}
	}
	th.node, th.nodeSession, th.owner = "", 0, owner{}
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
func (x *index) outlived(th *thing) (cond controlplane.Compare, why why, ok bool) {
	if th.node != "" {
		session := int64(0)
		if n := x.nodes[th.node]; n != nil {
			session = n.session
		}
		if session != th.nodeSession {
			return created(controlplane.AliveKey(th.node), session), nodeSession, true
		}
	}
	switch o := th.owner; o.kind {
	case controlplane.Tasks:
		t := x.find(o.ns, o.id)
		switch {
		case t == nil || t.mod == 0:
			return unchanged(controlplane.TaskKey(o.ns, o.id), 0), th.why, true
		case t.stage == ends:
			return unchanged(t.statusKey(), t.statusMod), th.why, true
		}
	case controlplane.Sessions:
		if s := x.spaces[o.ns]; s == nil || s.sessions[o.id] == nil || s.sessions[o.id].mod == 0 {
			return unchanged(controlplane.SessionKey(o.ns, o.id), 0), th.why, true
		}
	case controlplane.Reservations:
		if key := controlplane.ReservationKey(o.ns, o.id); x.things[key] == nil {
			return unchanged(key, 0), th.why, true
		}
	}
	return controlplane.Compare{}, "", false
}
