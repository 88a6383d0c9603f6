package audit

import (
	"github.com/escher-sched/escher/controlplane"
	"github.com/escher-sched/escher/controlplane/writers"
	"github.com/escher-sched/escher/types"
	"github.com/escher-sched/escher/types/action"
)

// checkChanges runs the validators of changes over the touched objects.
func (c *Checker) checkChanges() {
	s := c.s
	m := moment{at: s.revision, now: true}
	for _, b := range s.touched.bindings {
		if b.info.created(s.revision) {
			s.eligible(b, m, c.change(BoundImpliesEligible))
			s.deadlineKept(b, c.change(DeadlineKept))
			s.deviceGiven(b.node, nil, b.info.V.Holds, b.String(), c.change(DeviceExclusive))
			s.devicesBound(b, m, c.change(DevicesAsRequested))
		}
		s.bindingFixed(b, c.change(Immutable))
		s.singleAttempt(b, c.change(NoDoubleBind))
		s.stopsStay(b, c.change(StoppedStaysStopped))
		s.exitIsFinal(b, c.change(NoOrphanReport))
	}
	for _, t := range s.touched.tasks {
		t.settle()
		s.imagePinned(t, c.change(ImagePinned))
		s.monotonic(t, c.change(StatusMonotonic))
		s.copied(t, c.change(StatusMonotonic))
		s.taskFixed(t, c.change(Immutable))
		s.stopStays(t, c.change(StoppedStaysStopped))
		s.notDropped(t, c.change(NothingLost))
		s.retriesKept(t, c.change(RetriesKept))
		if t.info.created(s.revision) && t.info.V.Job == "" {
			s.admitted(t.object(), t.id.ns, c.change(Admitted))
		}
	}
	for _, job := range s.touched.written {
		s.jobWhole(job, c.change(JobWhole))
		if s.jobs[job] != nil && s.jobs[job].created(s.revision) {
			s.admitted("job "+job.String(), job.ns, c.change(Admitted))
		}
	}
	for _, r := range s.touched.reservations {
		s.reservationFixed(r, c.change(Immutable))
		if r.info.created(s.revision) {
			s.inBudget("reservation "+r.id.String(), r.id.ns, c.change(Admitted))
		}
		s.grantSteps(r, c.change(GangAtomic))
		s.devicesGranted(r, c.change(DevicesAsRequested))
		s.grantedWhereEligible(r, c.change(BoundImpliesEligible), c.change(DeviceExclusive))
	}
	for _, job := range s.touched.jobs {
		s.jobFinished(job, c.change(NothingLost))
	}
	c.checkRises()
}

// checkTouched runs the validators of the state over the touched objects.
func (c *Checker) checkTouched() {
	t := &c.s.touched
	for _, key := range t.unread {
		c.checkKey(key)
	}
	for _, a := range t.accounts {
		c.checkAccount(a)
	}
	for _, rid := range t.names {
		c.checkName(rid)
	}
	for _, x := range t.tasks {
		c.checkTask(x)
	}
	c.checkSpecs()
	for _, b := range t.bindings {
		c.checkBinding(b)
	}
	for _, r := range t.reservations {
		c.checkReservation(r)
	}
	if len(t.reservations) > 0 {
		c.checkInPart()
	}
	for at := range c.standing {
		if at.guarantee == Schema {
			c.checkKey(at.of.(string))
		}
	}
}

// checkAll runs the validators of the state over everything. It also runs those of changes, as far
// as the state at the time of the change is known.
func (c *Checker) checkAll() {
	s := c.s
	for key := range s.unread {
		c.checkKey(key)
	}
	for _, n := range s.nodes {
		c.checkAccount(&n.account)
		for _, b := range n.bindings {
			c.checkBinding(b)
			if b.info.V != nil {
				s.eligible(b, moment{at: b.info.Create}, c.change(BoundImpliesEligible))
				s.devicesBound(b, moment{at: b.info.Create}, c.change(DevicesAsRequested))
			}
		}
	}
	for rid, p := range s.pools {
		c.checkAccount(&p.account)
		c.checkName(rid)
	}
	for _, t := range s.tasks {
		c.checkTask(t)
	}
	for _, r := range s.reservations {
		c.checkReservation(r)
	}
	c.checkInPart()
	s.oversubscribed(c.change(NoOversubscription))
	for at := range c.standing {
		if at.guarantee == Schema {
			c.checkKey(at.of.(string))
		}
	}
}

func (c *Checker) checkKey(key string) {
	c.state(Schema, key, func(found finder) { c.s.schema(key, found) })
}

func (c *Checker) checkAccount(a *account) {
	held := c.s.held(a)
	c.state(AllocatedIsSum, a, func(found finder) {
		allocatedIsSum(a, held, func(object, format string, args ...any) {
			found(object, format+"; %s", append(args, action.RepairKey.Of(a.key()))...)
		})
	})
	if a.node != nil {
		c.state(DeviceExclusive, a, func(found finder) { c.s.deviceExclusive(a, held, found) })
	}
}

func (c *Checker) checkName(rid types.ResourceID) {
	c.state(NameIsOneKind, rid, func(found finder) { c.s.nameIsOneKind(rid, found) })
}

func (c *Checker) checkTask(t *task) {
	c.state(NoDoubleBind, t, func(found finder) { boundOnce(t, found) })
	c.state(NothingLost, t, func(found finder) { nothingLost(t, found) })
	c.checkSpec(t)
}

func (c *Checker) checkBinding(b *binding) {
	c.state(NoOrphanReport, b, func(found finder) { noOrphanReport(b, found) })
	c.state(DeviceExclusive, b, func(found finder) { bindingAddsUp(b, found) })
}

func (c *Checker) checkReservation(r *reservation) {
	c.state(GangAtomic, r, func(found finder) { c.s.gangAtomic(r, found) })
	c.state(DeviceExclusive, r, func(found finder) { c.s.grantAddsUp(r, found) })
}

func (c *Checker) checkInPart() {
	c.state(GangAtomic, c.s, func(found finder) { c.s.oneInPart(found) })
}

func (c *Checker) finding(g Guarantee, object, format string, args []any) Finding {
	return Finding{Guarantee: g, Object: object, Revision: c.s.revision, Text: types.Textf(format, args...)}
}

// schema validates Schema: every key below controlplane.Root has a known form and a readable value.
func (s *state) schema(key string, found finder) {
	why, ok := s.unread[key]
	if !ok {
		return
	}
	k, known := controlplane.Parse(key)
	for _, a := range writers.Table() {
		if known && a.Kind == k.Kind {
			found("key "+key, "%s; %s writes such keys; %s", why, (&Repair{Writers: a.Put}).Writer(), action.RepairKey.Of(key))
			return
		}
	}
	found("key "+key, "%s; %s", why, action.RepairKey.Of(key))
}

// moment is the time of a bind or grant.
type moment struct {
	// at is the revision.
	at int64
	// now reports whether it is the present revision: then a key that is absent was absent.
	now bool
}

// knows reports whether a key last changed at revision mod is unchanged since the moment.
func (m moment) knows(mod int64) bool { return mod <= m.at }

// amount formats a quantity of a resource.
func amount(q types.Quantity, rid types.ResourceID) string { return q.Format(rid) }
