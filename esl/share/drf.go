package share

// A sharer is a team or a user in a tree of shares, while capacity is divided. Only leaves have a
// demand.
type sharer struct {
	weight float64
	of     []*sharer
	// demand is what it could use, by resource: what it has and what it waits for.
	demand []float64
	// given is how much of the demand it is entitled to.
	given []float64

	// dominant is the largest fraction of a resource in the demand.
	dominant float64
	// done is the fraction of the demand that is given.
	done float64
	// rate is how fast its dominant share grows now; 0 means that its demand is met, or that a
	// resource it needs is exhausted.
	rate   float64
	active bool
}

// shareOut computes the entitlement of each leaf below t: hierarchical, weighted max-min fairness
// of dominant shares. All leaves grow from zero at the same time. The rate of a team is divided by
// weight among its members that still grow. A leaf stops when its demand is met, or when a resource
// it needs is exhausted. Its rate goes to the others of its team first. So
//
//   - of some resource that an unmet leaf wants, nothing is left;
//   - each leaf has all that it wants or, of the resource that it needs most, at least
//     the fraction of the cluster that its weights give;
//   - for one resource, it is hierarchical max-min fairness; without teams, and with equal
//     weights, it is dominant resource fairness.
//
// A resource of which the cluster has nothing limits no leaf.
func (t *sharer) shareOut(capacity []float64) {
	leaves := t.leaves(nil)
	free := make([]float64, len(capacity))
	copy(free, capacity)
	for _, l := range leaves {
		l.begin(capacity)
	}
	for t.wake() {
		t.flow(1)
		dt := step(leaves, free)
		for _, l := range leaves {
			l.grow(dt, free)
		}
		for _, l := range leaves {
			l.active = l.active && l.done < 1 && !l.blocked(free, capacity)
		}
	}
}

// leaves appends the leaves below t.
func (t *sharer) leaves(to []*sharer) []*sharer {
	if len(t.of) == 0 {
		return append(to, t)
	}
	for _, c := range t.of {
		to = c.leaves(to)
	}
	return to
}

// begin resets a leaf to nothing given.
func (t *sharer) begin(capacity []float64) {
	t.given = make([]float64, len(capacity))
	t.dominant, t.done = 0, 0
	for r, c := range capacity {
		if r < len(t.demand) && c > 0 {
			t.dominant = max(t.dominant, t.demand[r]/c)
		}
	}
	t.active = t.dominant > tiny // a smaller one cannot divide
}

// wake marks the teams with a member that still grows, and reports whether t is active.
func (t *sharer) wake() bool {
	if len(t.of) == 0 {
		return t.active
	}
	t.active = false
	for _, c := range t.of {
		if c.wake() {
			t.active = true
		}
	}
	return t.active
}

// flow divides a rate among the members that still grow.
func (t *sharer) flow(rate float64) {
	t.rate = rate
	weights := 0.0
	for _, c := range t.of {
		if c.active {
			weights += c.weight
		}
	}
	for _, c := range t.of {
		if c.active {
			c.flow(rate * c.weight / weights)
		} else {
			c.stop()
		}
	}
}

func (t *sharer) stop() {
	t.rate = 0
	for _, c := range t.of {
		c.stop()
	}
}

// step returns for how long all rates hold.
func step(leaves []*sharer, free []float64) float64 {
	first := true
	least := 0.0
	note := func(dt float64) {
		if first || dt < least {
			first, least = false, dt
		}
	}
	flows := make([]float64, len(free))
	for _, l := range leaves {
		if !l.active {
			continue
		}
		note((1 - l.done) * l.dominant / l.rate)
		for r := range free {
			flows[r] += l.rate / l.dominant * l.demand[r]
		}
	}
	for r, flow := range flows {
		if flow > 0 && free[r] > 0 {
			note(free[r] / flow)
		}
	}
	return least
}

// tiny is a negligible difference.
const tiny = 1e-9

// grow gives a leaf its rate for dt, out of free.
func (t *sharer) grow(dt float64, free []float64) {
	if !t.active {
		return
	}
	more := min(1-t.done, dt*t.rate/t.dominant)
	if t.done += more; t.done > 1-tiny {
		t.done = 1
	}
	for r := range free {
		t.given[r] += more * t.demand[r]
		free[r] -= more * t.demand[r]
	}
}

// blocked reports whether a resource that a leaf needs is exhausted.
func (t *sharer) blocked(free, capacity []float64) bool {
	for r, c := range capacity {
		if c > 0 && t.demand[r] > 0 && free[r] <= tiny*c {
			return true
		}
	}
	return false
}
