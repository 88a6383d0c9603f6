package place

import (
	"github.com/escher-sched/escher/controlplane"
	"github.com/escher-sched/escher/controlplane/why"
	"github.com/escher-sched/escher/esl"
	"github.com/escher-sched/escher/esl/taskset"
	"github.com/escher-sched/escher/types"
)

// Apart keeps the tasks of a job apart: anti-affinity. Every node, later ones included, has one of
// an ephemeral resource, or as many as tasks may share a node. Each task requests one. The nodes of
// a rack or zone have that many together.
type Apart struct {
	// PerNode is how many tasks may share a node, or a domain of kind In; 0 means 1.
	PerNode int `json:"perNode,omitempty" desc:"how many of the tasks may share a node, rack or zone; 1 if it is left out" zero:"would let none begin: give how many may share it, or leave it out for 1"`
	// In is the kind of domain: node, rack or zone; empty means node. Nodes without the label get
	// no task.
	In esl.Domain `json:"in,omitempty" desc:"what perNode counts for: a node, rack or zone; node if it is left out"`
}

// Kind returns apart.
func (Apart) Kind() string { return "apart" }

// Describe says what the policy does, and its flags.
func (Apart) Describe() esl.Description {
	return esl.Description{Does: "at most perNode tasks of the job run on one node", OneByOne: true, Flags: []esl.Flag{{
		Name: "apart", Usage: "put at most one of the tasks on each node",
		With: []esl.Flag{{Name: "per-node", Number: esl.Sets[int]("perNode")}},
	}}}
}

// Validate checks the parameters.
func (p Apart) Validate() error {
	if p.PerNode < 0 {
		return esl.Invalid("perNode: %d is negative: give how many tasks may share a node, or leave it out for 1", p.PerNode)
	}
	return p.In.Or(esl.Node).Validate("in")
}

// Apply creates the resource, and makes every task request one.
func (p Apart) Apply(g *esl.Group) error {
	if err := p.Validate(); err != nil {
		return err
	}
	in, most := p.In.Or(esl.Node), max(p.PerNode, 1)
	g.AtMost(most, in)
	each := types.Quantity(most) * esl.One
	if in != esl.Node {
		g.Steers()
		each = 0 // closed until the nodes are known
	}
	g.Make(g.Own(""), each, controlplane.OnEvery())
	g.AskAll(g.Own(""), esl.One)
	return nil
}

// Next decides which nodes of each rack or zone waiting tasks may go to.
func (p Apart) Next(s *esl.State) esl.Plan {
	if p.In.Or(esl.Node) == esl.Node {
		s.Seek(esl.Seeking{})
		return esl.Plan{Idle: "each node has the limit since the submission"}
	}
	return keepLimits(s, p.In, "tasks are kept apart", p.most)
}

// most returns the limit of each domain.
func (p Apart) most(l *limits) (most []int, level bool) { return l.equal(max(p.PerNode, 1)), false }

// Opens returns how many more tasks each rack or zone may hold.
func (p Apart) Opens(s *esl.State) esl.Limit { return opens(s, p.In, p.most) }

// ClusterScoped is set: free capacity changes with other jobs.
func (Apart) ClusterScoped() {}

// Why says where the limit is reached.
func (p Apart) Why(s *esl.State, task string) why.Reason {
	if _, ok := taskset.Waits(s, task); !ok {
		return why.Reason{}
	}
	l := limitsOf(s, p.In)
	for _, d := range l.parts {
		if d.used < max(p.PerNode, 1) {
			return why.Reason{}
		}
	}
	return why.Say(why.Place, "apart: at most %d of its job may be on one %s, and each of %d has so many: it waits for one to end, or for another %s", max(p.PerNode, 1), l.over, len(l.parts), l.over)
}
