package share

// A sharer is a team or a user in a tree of shares, while the capacity of a cluster is
// shared out among them. Only those without others below them have a demand.
type sharer struct {
	weight float64
	of     []*sharer
	// demand is what it could use, by resource: what it has and what it waits for.
	demand []float64
	// given is what it is entitled to of that.
	given []float64

	// dominant is the largest part of a resource that the demand is.
	dominant float64
	// done is the part of the demand that is given.
	done float64
	// rate is how fast its dominant share grows at present; 0: it has what it wants, or
	// what it needs is given out.
	rate   float64
	active bool
}

// shareOut gives everybody below t his entitlement: hierarchical, weighted max-min
// fairness of dominant shares. All grow together from nothing, what a team gets being
// divided among those of it that still grow, each at the rate of its weight. Who has
// what he wants stops, as does who needs a resource of which nothing is left, and what
// would have been his goes to the others of his team first. So
//
//   - nothing is left of some resource that is wanted, by whoever wants more;
//   - everybody has at least the part of the cluster that his weights say, of the
//     resource that he needs most, or all that he wants;
//   - of one resource, it is hierarchical max-min fairness; without teams, and with equal
//     weights, it is dominant resource fairness.
//
// A resource that the cluster has nothing of limits nobody.
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

// leaves appends those without others below them.
func (t *sharer) leaves(to []*sharer) []*sharer {
	if len(t.of) == 0 {
		return append(to, t)
	}
	for _, c := range t.of {
		to = c.leaves(to)
	}
	return to
}

// begin has a leaf want its demand, and have nothing.
func (t *sharer) begin(capacity []float64) {
	t.given = make([]float64, len(capacity))
	t.dominant, t.done = 0, 0
	for r, c := range capacity {
		if r < len(t.demand) && c > 0 {
			t.dominant = max(t.dominant, t.demand[r]/c)
		}
	}
	t.active = t.dominant > tiny // less cannot be divided by
}

// wake notes which teams have somebody who still grows, and reports whether t does.
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

// flow divides a rate among those who still grow.
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

// tiny is a difference that is none.
const tiny = 1e-9

// grow gives a leaf what its rate is for dt, of what is free.
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

// blocked reports whether nothing is left of a resource that a leaf needs.
func (t *sharer) blocked(free, capacity []float64) bool {
	for r, c := range capacity {
		if c > 0 && t.demand[r] > 0 && free[r] <= tiny*c {
			return true
		}
	}
	return false
}
