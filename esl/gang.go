package esl

import (
	"cmp"

	"github.com/escher-sched/escher/controlplane"
	"github.com/escher-sched/escher/types"
)

// Gang places all tasks of a job at one revision, or none: what they ask for is locked
// as a whole, and they draw on it. Until then nothing is held for them; a gang that has
// waited long collects what becomes free, one gang of the cluster at a time.
type Gang struct {
	// PerNode is how many members are together on a node, locked as one; 0: as they come.
	PerNode int `json:"perNode,omitempty" desc:"how many of the tasks are together on a node; as they come if it is left out" zero:"is no task: give how many are together, or leave it out" without:"in=node"`
	// In is what all of them are in: one node, one rack or one zone.
	In Domain `json:"in,omitempty" desc:"what all of the tasks are in one of; wherever if it is left out"`
	// Loss says what becomes of the gang when a member fails, or is lost with its node.
	Loss Loss `json:"onLoss,omitempty" desc:"when a task fails, or its node is lost; fail if it is left out"`
	// Restarts is how often a member may fail before the gang does; 0 is 3.
	Restarts int `json:"restarts,omitempty" desc:"how often a task may fail before all of them do, unless onLoss is fail; 3 if it is left out" zero:"is not one: write onLoss: fail to have all stop with the first that fails, or leave it out for 3" needs:"onLoss=restart|alone"`
}

// Loss is what becomes of the tasks of a job when one of them fails, or is lost.
type Loss string

// Fail ends all of them, and is what holds if nothing is said. Restart runs all of them
// again: they are at the same attempt. Alone runs the one again, and the others go on.
const (
	Fail    Loss = "fail"
	Restart Loss = "restart"
	Alone   Loss = "alone"
)

// Choices are what it may be.
func (Loss) Choices() []string { return []string{string(Fail), string(Restart), string(Alone)} }

// Kind is gang.
func (Gang) Kind() string { return "gang" }

// Looks is true: what is too large for the cluster is refused.
func (Gang) Looks() bool { return true }

// Validate checks the parameters.
func (p Gang) Validate() error {
	var errs []error
	if p.PerNode < 0 {
		errs = append(errs, invalid("perNode: %d is negative: give how many are together on a node, or leave it out", p.PerNode))
	}
	if p.In != "" {
		errs = append(errs, p.In.Validate("in"))
	}
	errs = append(errs, p.Loss.check(p.Restarts)...)
	if p.PerNode > 0 && p.In == Node {
		errs = append(errs, invalid("perNode: %d are to be together on a node, and all are by in: node: drop one of them", p.PerNode))
	}
	return joined(errs)
}

// Apply has what all members ask for locked, when every policy has said what that is.
func (p Gang) Apply(g *Group) error {
	g.AtOnce()
	if p.In != "" {
		g.Together(p.In)
	}
	g.inUnits(p.unit(len(g.Tasks)), p.In)
	g.Lastly(func() error { return p.lock(g) })
	return p.Validate()
}

// lock makes the reservation, and has the members draw on it.
func (p Gang) lock(g *Group) error {
	for _, c := range g.claims {
		if c.together && c.in == Node && p.In != Node {
			p.In = Node // by another policy: a mark says so later
			g.Make(g.Own("node"), types.Inf, controlplane.OnEvery())
			g.AskAll(g.Own("node"), One)
		}
	}
	for i := range g.Tasks {
		if t := &g.Tasks[i].Task; p.Loss == Restart || p.Loss == Alone {
			t.Retries = max(t.Retries, cmp.Or(p.Restarts, 3))
		} else if t.Retries > 0 {
			return invalid("tasks[%d].retries: %d, and with onLoss: fail all end when one fails: leave retries out, or give onLoss: restart, or alone", i, t.Retries)
		} else if t.OnDisconnect == types.Fence {
			t.OnDisconnect = types.StopLost
		}
	}
	if p.chooses() {
		g.Make(g.Own("place"), 0, controlplane.OnEvery()) // until Next has chosen
		g.AskAll(g.Own("place"), One)
	}
	r, err := g.Lock(g.Own(""), p.unit(len(g.Tasks)))
	if err != nil {
		return err
	}
	g.Reservations[len(g.Reservations)-1].Lost = p.Loss.ofPlace()
	if err := g.tooFew(); err != nil {
		return err
	}
	return p.fits(g, r)
}

// unit is how many of n members are together on a node.
func (p Gang) unit(n int) int {
	if p.In == Node {
		return n
	}
	return max(p.PerNode, 1)
}

// chooses reports whether a rack or zone is chosen for the gang.
func (p Gang) chooses() bool { return p.In == Rack || p.In == Zone }

// fits refuses what would never have its place, as far as the nodes are registered.
func (p Gang) fits(g *Group, r types.Reservation) error {
	if p.chooses() && len(g.Nodes) > 0 && !labelled(g.Nodes, string(p.In)) {
		return types.Errorf(types.Precondition, "in: no node has a label %s: give nodes one, or leave in out", p.In)
	}
	most, known := mostInNodes(g.Nodes, p.over(), needsOf(nil, g.Namespace, &r))
	if !known || most == len(r.Bundles) {
		return nil
	}
	return types.Errorf(types.Precondition, "the cluster is too small for the gang: were nothing else there, %d of its %d members would fit%s: ask for less, or add nodes first",
		most*p.unit(len(g.Tasks)), len(g.Tasks), p.together())
}

// over is the domain of which one is chosen; none is the whole cluster.
func (p Gang) over() Domain {
	if p.chooses() {
		return p.In
	}
	return ""
}

// together says what all of them are in one of.
func (p Gang) together() string {
	if p.In == "" {
		return ""
	}
	return " on one " + string(p.In)
}
