package gang

import (
	"cmp"

	"github.com/escher-sched/escher/controlplane"
	"github.com/escher-sched/escher/esl"
	"github.com/escher-sched/escher/esl/taskset"
	"github.com/escher-sched/escher/types"
)

// Gang places all tasks of a job at one revision, or none: one reservation has all of their
// requests, and they draw on it. Until then nothing is held for them. A gang that has waited long
// accumulates free capacity, one gang of the cluster at a time.
type Gang struct {
	// PerNode is how many members share a node, as one bundle; 0 means no constraint.
	PerNode int `json:"perNode,omitempty" desc:"how many of the tasks are together on a node; as they come if it is left out" zero:"is no task: give how many are together, or leave it out" without:"in=node"`
	// In is the kind of domain that all of them share: node, rack or zone.
	In esl.Domain `json:"in,omitempty" desc:"what all of the tasks are in one of; wherever if it is left out"`
	// Loss says what happens to the gang when a member fails, or is lost with its node.
	Loss esl.Loss `json:"onLoss,omitempty" desc:"when a task fails, or its node is lost; fail if it is left out"`
	// Restarts is how often a member may fail before the gang fails; 0 means 3.
	Restarts int `json:"restarts,omitempty" desc:"how often a task may fail before all of them do, unless onLoss is fail; 3 if it is left out" zero:"is not one: write onLoss: fail to have all stop with the first that fails, or leave it out for 3" needs:"onLoss=restart|alone"`
}

// Kind returns gang.
func (Gang) Kind() string { return "gang" }

// NeedsNodes returns true: a gang too large for the cluster is refused.
func (Gang) NeedsNodes() bool { return true }

// Validate checks the parameters.
func (p Gang) Validate() error {
	var errs []error
	if p.PerNode < 0 {
		errs = append(errs, esl.Invalid("perNode: %d is negative: give how many are together on a node, or leave it out", p.PerNode))
	}
	if p.In != "" {
		errs = append(errs, p.In.Validate("in"))
	}
	errs = append(errs, p.Loss.Check(p.Restarts)...)
	if p.PerNode > 0 && p.In == esl.Node {
		errs = append(errs, esl.Invalid("perNode: %d are to be together on a node, and all are by in: node: drop one of them", p.PerNode))
	}
	return esl.Join(errs)
}

// Apply reserves the requests of all members, after every policy has added its own.
func (p Gang) Apply(g *esl.Group) error {
	g.AtOnce()
	if p.In != "" {
		g.Together(p.In)
	}
	g.InUnits(p.unit(len(g.Tasks)), p.In)
	g.Lastly(func() error { return p.lock(g) })
	return p.Validate()
}

// lock creates the reservation, and makes the members draw on it.
func (p Gang) lock(g *esl.Group) error {
	if p.In != esl.Node && g.IsTogether(esl.Node) {
		p.In = esl.Node // from another policy: the mark tells Next
		g.Make(g.Own("node"), types.Inf, controlplane.OnEvery())
		g.AskAll(g.Own("node"), esl.One)
	}
	for i := range g.Tasks {
		if t := &g.Tasks[i].Task; p.Loss == esl.Restart || p.Loss == esl.Alone {
			t.Retries = max(t.Retries, cmp.Or(p.Restarts, 3))
		} else if t.Retries > 0 {
			return esl.Invalid("tasks[%d].retries: %d, and with onLoss: fail all end when one fails: leave retries out, or give onLoss: restart, or alone", i, t.Retries)
		} else if t.OnDisconnect == types.Fence {
			t.OnDisconnect = types.StopLost
		}
	}
	if p.chooses() {
		g.Make(g.Own("place"), 0, controlplane.OnEvery()) // closed until Next has chosen
		g.AskAll(g.Own("place"), esl.One)
	}
	r, err := g.Lock(g.Own(""), p.unit(len(g.Tasks)))
	if err != nil {
		return err
	}
	g.Reservations[len(g.Reservations)-1].Lost = p.Loss.LostBundles()
	if err := g.CheckDomains(); err != nil {
		return err
	}
	return p.fits(g, r)
}

// unit is how many of n members share a node.
func (p Gang) unit(n int) int {
	if p.In == esl.Node {
		return n
	}
	return max(p.PerNode, 1)
}

// chooses reports whether the policy chooses a rack or zone for the gang.
func (p Gang) chooses() bool { return p.In == esl.Rack || p.In == esl.Zone }

// fits refuses a gang that the registered nodes could never hold.
func (p Gang) fits(g *esl.Group, r types.Reservation) error {
	if p.chooses() && len(g.Nodes) > 0 && !taskset.Labeled(g.Nodes, string(p.In)) {
		return types.Errorf(types.Precondition, "in: no node has a label %s: give nodes one, or leave in out", p.In)
	}
	most, known := taskset.MostInNodes(g.Nodes, p.over(), taskset.NeedsOf(nil, g.Namespace, &r))
	if !known || most == len(r.Bundles) {
		return nil
	}
	return types.Errorf(types.Precondition, "the cluster is too small for the gang: were nothing else there, %d of its %d members would fit%s: ask for less, or add nodes first",
		most*p.unit(len(g.Tasks)), len(g.Tasks), p.together())
}

// over is the kind of domain that is chosen; "" means the whole cluster.
func (p Gang) over() esl.Domain {
	if p.chooses() {
		return p.In
	}
	return ""
}

// together names the kind of domain that all members share.
func (p Gang) together() string {
	if p.In == "" {
		return ""
	}
	return " on one " + string(p.In)
}
