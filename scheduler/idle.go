package scheduler

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/escher-sched/escher/controlplane/match"
	"github.com/escher-sched/escher/controlplane/metric"
	"github.com/escher-sched/escher/types"
)

// idleHeld counts capacity that sits idle because a reservation or task collects it. Capacity lent
// to backfill tasks does not count.
type idleHeld struct {
	seconds *prometheus.CounterVec
	// since is the time of the last look, and held the amounts held then.
	since time.Time
	held  map[types.ResourceID]float64
}

// otherResource stands for all ephemeral resources, of which there may be any number.
const otherResource = "other"

func newIdleHeld(set *metric.Set) idleHeld {
	h := idleHeld{seconds: set.Counters("idle_held_seconds_total",
		"How much is held by what collects and has not all yet, times for how long: by resource, in cores, devices or bytes times seconds.", "resource")}
	h.seconds.WithLabelValues(string(types.CPU)) // show 0, too
	return h
}

// looked counts the amounts held since the last look.
func (h *idleHeld) looked(c *Core) {
	for id, amount := range h.held {
		h.seconds.WithLabelValues(string(id)).Add(amount * c.now.Sub(h.since).Seconds())
	}
	h.since, h.held = c.now, nil
	if x, ok := c.accumulating(); ok && c.takesCareOf(x) { // otherwise another scheduler counts it
		h.add(x.Grant.V)
	}
	for _, r := range c.atOnce() {
		if r.Current() && c.division.Owns(r.ID.Namespace, "") {
			h.add(r.Grant.V)
		}
	}
}

// add counts the holdings of a grant.
func (h *idleHeld) add(g *types.Grant) {
	if h.held == nil {
		h.held = make(map[types.ResourceID]float64)
	}
	for _, at := range g.Nodes {
		for _, held := range at.Holds {
			id, amount := held.Resource, float64(held.Amount)
			if types.UnitOf(id) == types.Milli {
				amount /= float64(match.Whole)
			}
			if !id.Physical() {
				id = otherResource
			}
			h.held[id] += amount
		}
	}
}
