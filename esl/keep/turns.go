package keep

import (
	"time"

	"github.com/escher-sched/escher/controlplane/heap"
)

// turns are the policies to call: now, when the view is newer, or at a time.
type turns struct {
	now, waiting []*managedPolicy
	later        heap.Heap[*managedPolicy]
}

// ready reports whether a policy is to call now.
func (t *turns) ready() bool { return len(t.now) > 0 }

// put schedules p now, once.
func (t *turns) put(p *managedPolicy) {
	if !p.queued {
		p.queued = true
		t.now = append(t.now, p)
	}
}

// take returns the policy that has been ready for longest, nil if there is none.
func (t *turns) take() *managedPolicy {
	if len(t.now) == 0 {
		return nil
	}
	p := t.now[0]
	t.now[0] = nil
	t.now = t.now[1:]
	p.queued = false
	return p
}

// behind makes p wait for a newer view.
func (t *turns) behind(p *managedPolicy) {
	p.queued = true
	t.waiting = append(t.waiting, p)
}

// further schedules the policies that waited for a view of this revision.
func (t *turns) further(revision int64) {
	still := t.waiting[:0]
	for _, p := range t.waiting {
		if p.after > revision {
			still = append(still, p)
			continue
		}
		p.queued = false
		t.put(p)
	}
	clear(t.waiting[len(still):])
	t.waiting = still
}

// at schedules p at a time, and replaces the time set before; zero means never.
func (t *turns) at(p *managedPolicy, when time.Time) {
	waits := !p.wake.IsZero()
	p.wake = when
	switch {
	case waits && when.IsZero():
		t.later.Remove(p.place)
	case waits:
		t.later.Fix(p.place)
	case !when.IsZero():
		t.later.Push(p)
	}
}

// never removes the time of p.
func (t *turns) never(p *managedPolicy) {
	if !p.wake.IsZero() {
		t.at(p, time.Time{})
	}
}

// wake returns the earliest time of a policy.
func (t *turns) wake() (at time.Time, ok bool) {
	if len(t.later) == 0 {
		return at, false
	}
	return t.later[0].wake, true
}

// due schedules the policies whose time has come.
func (t *turns) due(now time.Time) {
	for len(t.later) > 0 && !t.later[0].wake.After(now) {
		p := t.later[0]
		t.at(p, time.Time{})
		p.woken.time = true
		t.put(p)
	}
}

// Before reports whether p comes before another policy.
func (p *managedPolicy) Before(other *managedPolicy) bool { return p.wake.Before(other.wake) }

// Placed records the index of p in the heap.
func (p *managedPolicy) Placed(at int) { p.place = at }
