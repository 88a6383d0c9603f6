package sim

import (
	"math/rand/v2"
	"time"

	"github.com/escher-sched/escher/controlplane"
	"github.com/escher-sched/escher/controlplane/cluster"
	"github.com/escher-sched/escher/esl/collect"
)

// director is the server that directs collections over time: the library with a view of an
// arbitrary lag.
type director struct {
	w     *world
	state *collect.State
	view  *cluster.View
	// after is the revision that its view must reach before the next decision.
	after int64
	// again is when the library wants to decide without a change; zero means never.
	again time.Time
}

// collectAfter is how long something waits before it collects.
const collectAfter = 5 * time.Second

// startDirector starts the director, also in place of a killed one.
func (w *world) startDirector() {
	w.director = &director{w: w, state: collect.New(collect.Config{After: collectAfter}), view: cluster.New()}
	w.director.reload()
}

// reload lists everything.
func (d *director) reload() {
	page := d.w.list(controlplane.Root)
	there := make(map[string]bool, len(page.KVs))
	for _, kv := range page.KVs {
		there[kv.Key] = true
		d.apply(controlplane.Event{KV: kv})
	}
	for _, e := range d.view.Gone(page.Revision, func(key string) bool { return there[key] }) {
		d.apply(e)
	}
	d.view.Reached(page.Revision)
}

func (d *director) apply(e controlplane.Event) {
	if key, changed, err := d.view.Apply(e); err == nil && changed {
		d.state.Touch(d.view, key)
	}
}

// deliver advances its view by at most n revisions.
func (d *director) deliver(n int) {
	batches, compacted := d.w.since(d.view.Revision)
	if compacted {
		d.reload()
		return
	}
	for _, b := range batches[:min(n, len(batches))] {
		for _, e := range b.Events {
			d.apply(e)
		}
		d.view.Reached(b.Revision)
	}
}

// decide lets the library decide, and commits its plan: at once, later, or never. A nil rng means at
// once. It reports whether there was a plan.
func (d *director) decide(rng *rand.Rand) bool {
	if d.view.Revision < d.after {
		return false
	}
	plan := d.state.Next(d.view, d.w.now)
	if d.again = plan.Again; len(plan.Changes) == 0 {
		return false
	}
	c := d.w.newChange()
	plan.Write(d.view, c)
	fate := 3
	if rng != nil {
		fate = rng.IntN(12)
	}
	switch fate {
	case 0:
		d.w.say("the director is lost with %q", plan.Reason)
		d.w.startDirector()
	case 1:
		d.w.late = append(d.w.late, c.Txn())
		d.w.say("the director: %q, to arrive late", plan.Reason)
		d.w.startDirector()
	case 2:
		d.w.late = append(d.w.late, c.Txn())
		fallthrough
	default:
		res := d.w.commit(c.Txn())
		d.after = res.Revision
		for _, x := range plan.Changes {
			d.w.say("the director: %s %+v, %q, committed=%t at %d", x.ID, x.To, plan.Reason, res.Committed, res.Revision)
		}
		if res.Committed {
			d.w.seen["directed: "+plan.Reason]++
		}
	}
	return true
}
