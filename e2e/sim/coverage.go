package sim

import (
	"github.com/escher-sched/escher/controlplane"
	"github.com/escher-sched/escher/types"
)

// count counts what happened in a revision.
func (w *world) count(b controlplane.Batch) {
	for _, e := range b.Events {
		k, _ := controlplane.Parse(e.Key)
		if e.Delete {
			continue
		}
		switch k.Kind {
		case controlplane.Bindings:
			if e.CreateRevision == e.ModRevision {
				w.countBind(decode[types.Binding](w, e))
			}
		case controlplane.Grants:
			g := decode[types.Grant](w, e)
			was := w.grants[e.Key]
			w.grants[e.Key] = g.Phase
			what := "grants " + string(g.Phase)
			if r := new(types.Reservation); g.Phase == types.Collecting && w.read(controlplane.ReservationKey(k.Namespace, k.ID), r) != 0 && r.Directed() {
				what = "grants directed"
			}
			switch {
			case e.CreateRevision == e.ModRevision:
			case was == types.Granted && g.Phase == was:
				what = "grants moved"
			default:
				what += " later"
			}
			w.seen[what]++
		case controlplane.Statuses:
			s := decode[types.Status](w, e)
			w.seen["tasks "+string(s.Phase)]++
			switch {
			case s.Phase == types.Bound && s.Reason != "":
				w.seen["tasks in trouble"]++
			case s.Phase == types.Running && s.Restarts > 0:
				w.seen["tasks run again"]++
			case s.Phase == types.Failed && s.Cause == types.CauseDeadline:
				w.seen["tasks overdue"]++
			}
			if cause := s.Cause; s.Phase == types.Pending {
				if s.Retry != 0 {
					cause = "failed"
				}
				w.seen["tasks pending again: "+string(cause)]++
			}
		}
	}
}

func decode[T any, P interface {
	*T
	types.Message
}](w *world, e controlplane.Event) T {
	var m T
	if err := types.Decode(e.Value, P(&m)); err != nil {
		w.fail("%s: %v", e.Key, err)
	}
	return m
}

func (w *world) countBind(b types.Binding) {
	w.seen["binds"]++
	if b.Image != "" {
		w.seen["binds to a pinned image"]++
	}
	for _, h := range b.Holds {
		switch {
		case isPort(h.Resource):
			w.seen["binds to ports"]++
		case h.Cluster:
			w.seen["binds to pools"]++
		case h.Resource.Scoped():
			w.seen["binds to reservations"]++
		case len(h.Devices) > 0:
			w.seen["binds to devices"]++
		case !h.Resource.Physical():
			_, name, _ := h.Resource.Split()
			w.seen["binds to resources "+name[:1]]++
		}
	}
	if b.Alternative > 0 {
		w.seen["binds by later alternatives"]++
	}
}

func isPort(rid types.ResourceID) bool {
	_, fixed := rid.FixedPort()
	return fixed || rid.Unscoped() == types.Port
}
