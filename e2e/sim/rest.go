package sim

import (
	"slices"
	"strings"
	"time"

	"github.com/escher-sched/escher/controlplane"
	"github.com/escher-sched/escher/controlplane/cluster"
	"github.com/escher-sched/escher/scheduler"
	"github.com/escher-sched/escher/types"
)

// rest ends the faults and lets the cluster settle, again and again: with processes still running,
// with them ended, and with everything in abundance. Each time nothing may wait that could be
// placed; in the end nothing may be left.
func (w *world) rest() {
	w.say("\nthe faults stop; ")
	w.seen["binds amid faults"] = w.seen["binds"]
	for _, a := range w.agents {
		for i := 0; a.state != up && len(w.findings) == 0; i++ {
			if a.state == down {
				a.lose(nil)
			}
			if a.back(nil); a.state == gone {
				// It was declared dead, and Keep tasks there must be given up.
				w.schedule()
				w.now = w.now.Add(time.Second)
			}
			if i == rounds {
				w.fail("%s does not come back", a.name)
			}
		}
	}
	for len(w.late) > 0 {
		w.commitLate(0)
	}
	w.settle()
	w.checkPlaced()
	w.endAll()
	w.collectAll()
	if len(w.findings) > 0 {
		return
	}
	w.say("\neverybody is given everything; ")
	w.apps.collect()
	w.apps.generous()
	w.settle()
	w.checkPlaced()
	w.endAll()
	w.dissolve()
	w.apps.endSessions()
	w.collectAll()
	w.endAll()
	w.collectAll()
	if len(w.findings) == 0 {
		w.checkEmpty()
	}
}

// rounds bounds the passes before the cluster counts as not settling.
const rounds = 2000

// settle delivers everything until nothing more happens, and advances the time to every wake.
func (w *world) settle() {
	for i := 0; len(w.findings) == 0; i++ {
		if i == rounds {
			w.fail("it does not come to rest")
			return
		}
		if w.advance() {
			continue
		}
		at := w.wake()
		if at.IsZero() {
			break
		}
		if !at.After(w.now) {
			w.fail("a scheduler wants to be woken at %s, has nothing to do, and it is %s", at, w.now)
			return
		}
		w.now = at
	}
}

// schedule lets the schedulers do all they can once, and reports whether they did anything.
func (w *world) schedule() (drafted bool) {
	for _, m := range w.members {
		m.lazy = false
		m.deliver(1 << 30)
		m.decide()
		drafted = drafted || len(m.flights) > 0
		for len(m.flights) > 0 && len(w.findings) == 0 {
			f := m.flights[0]
			if f.answer == nil {
				m.send(f)
			}
			m.done(f)
		}
	}
	return drafted
}

// advance lets every part do all it can once, and reports whether anything was done.
func (w *world) advance() bool {
	before, drafted := w.store.Revision(), w.schedule()
	for _, a := range w.agents {
		a.deliver(1 << 30)
		for _, x := range a.all() {
			for a.advance(x, nil) && len(w.findings) == 0 {
				drafted = true
			}
			if x.alive && w.ending {
				a.ends(x, 0)
				drafted = true
			}
		}
	}
	w.director.deliver(1 << 30)
	return w.director.decide(nil) || drafted || w.store.Revision() != before
}

// wake is the earliest wake time of the schedulers and the director.
func (w *world) wake() (first time.Time) {
	first = w.director.again
	for _, m := range w.members {
		if at := m.core.Wake(); !at.IsZero() && (first.IsZero() || at.Before(first)) {
			first = at
		}
	}
	return first
}

// endAll ends all processes, with success, until nothing runs.
func (w *world) endAll() {
	w.ending = true
	w.settle()
	w.ending = false
	w.checkPlaced()
}

// dissolve deletes all reservations, and stops the tasks that only one of them, or something of
// their job, could help.
func (w *world) dissolve() {
	for _, kv := range w.list(controlplane.Prefix(controlplane.Reservations)).KVs {
		w.apps.remove(kv.Key)
	}
	for _, id := range w.apps.tasks {
		t := new(types.Task)
		w.read(controlplane.TaskKey(id.ns, id.id), t)
		if s := w.status(id); !s.Phase.Ended() && slices.ContainsFunc(t.Requests, func(r types.Request) bool { return strings.ContainsAny(r.Name, "@.") }) {
			w.apps.halt(id)
		}
	}
	w.settle()
}

func (w *world) status(id ref) types.Status {
	s := types.Status{Phase: types.Pending}
	w.read(controlplane.StatusKey(id.ns, id.id), &s)
	return s
}

// view reads the cluster again.
func (w *world) view() *cluster.View {
	v := cluster.New()
	page := w.list(controlplane.Root)
	for _, kv := range page.KVs {
		if _, _, err := v.Apply(controlplane.Event{KV: kv}); err != nil {
			w.fail("%v", err)
		}
	}
	v.Reached(page.Revision)
	return v
}

// checkPlaced checks that what waits at rest does not fit, as a new scheduler sees it.
func (w *world) checkPlaced() {
	if len(w.findings) > 0 {
		return
	}
	view := w.view()
	for id, r := range view.Reservations {
		if r.Grant.V != nil && r.Grant.V.Phase == types.Granting {
			w.fail("reservation %s is being granted, and no scheduler goes on", id)
		}
	}
	plan := scheduler.Schedule(view, scheduler.Config{Limits: w.store.Limits()}, w.now)
	for _, b := range plan.Binds {
		w.fail("%s waits, and fits on %s", b.Task, b.Node)
	}
	for _, id := range plan.Grants {
		w.fail("reservation %s waits, and fits", id)
	}
	w.checkOrder(view, plan.Waiting)
	for _, m := range w.members {
		w.checkView(m)
		if n := m.core.Waiting(); !w.cfg.Shared && n != len(plan.Waiting) {
			w.fail("%s has %d waiting, and there are %d", m.name, n, len(plan.Waiting))
		}
	}
}

// checkEmpty checks that every task is finished, and that nothing is left of any.
func (w *world) checkEmpty() {
	for _, id := range w.apps.tasks {
		if s := w.status(id); !s.Phase.Ended() {
			w.fail("%s/%s is %s at the end: %s", id.ns, id.id, s.Phase, s.Reason)
		}
	}
	for _, kind := range []controlplane.Kind{controlplane.Bindings, controlplane.Reports, controlplane.Grants, controlplane.Leaders} {
		for _, kv := range w.list(controlplane.Prefix(kind)).KVs {
			w.fail("%s is left", kv.Key)
		}
	}
	for _, kv := range w.list(controlplane.Prefix(controlplane.Allocated)).KVs {
		var alloc types.Allocated
		if w.read(kv.Key, &alloc); len(alloc.Holds) > 0 {
			w.fail("%s is left with %v", kv.Key, alloc.Holds)
		}
	}
	for _, id := range w.apps.owned {
		for _, kind := range []controlplane.Kind{controlplane.Resources, controlplane.Reservations, controlplane.Policies, controlplane.Provided} {
			for _, kv := range w.list(controlplane.Prefix(kind, id.ns) + id.id).KVs {
				if k, _ := controlplane.Parse(kv.Key); strings.HasPrefix(k.ID+k.Name, id.id+".") || k.ID == id.id {
					w.fail("%s is left", kv.Key)
				}
			}
		}
	}
	for _, m := range w.members {
		if m.core.InFlight() > 0 || m.core.Waiting() > 0 {
			w.fail("%s has %d in flight and %d waiting at the end", m.name, m.core.InFlight(), m.core.Waiting())
		}
	}
}
