package place

import (
	"cmp"
	"slices"
	"time"

	"github.com/escher-sched/escher/controlplane"
	"github.com/escher-sched/escher/controlplane/why"
	"github.com/escher-sched/escher/esl"
	"github.com/escher-sched/escher/esl/taskset"
	"github.com/escher-sched/escher/types"
)

// Balance gives each of a number of nodes the same share of the tasks of a job with a fixed number
// of tasks: n tasks on m nodes, ceil(n/m) on each. See ElasticBalance for a changing number.
type Balance struct {
	// Nodes is the number of nodes; 0 means all that take tasks and are large enough at the time.
	Nodes int `json:"nodes,omitempty" desc:"on how many nodes; on all that take tasks if it is left out" zero:"would let none begin: give on how many, or leave it out for all that take tasks"`
}

// Kind returns balance.
func (Balance) Kind() string { return "balance" }

// Describe says what the policy does, and its flags.
func (Balance) Describe() esl.Description {
	return esl.Description{Does: "as many tasks of the job on each node", Flags: []esl.Flag{{Name: "balance", Usage: "put the same number of tasks on every node"}}}
}

// Validate checks the parameters.
func (p Balance) Validate() error {
	if p.Nodes < 0 {
		return esl.Invalid("nodes: %d is negative: give on how many nodes, or leave it out for all", p.Nodes)
	}
	return nil
}

// Apply makes each task request one of a resource that Next creates on the nodes.
func (p Balance) Apply(g *esl.Group) error {
	if err := p.Validate(); err != nil {
		return err
	}
	g.OnMany()
	if p.Nodes > 0 {
		g.Finally(func() error { return checkExcludes(g, p.Kind(), "spread") })
	}
	if p.Nodes > 1 {
		g.AtMost(int(p.share(len(g.Tasks), p.Nodes, 1)/esl.One), esl.Node)
	}
	if p.Nodes == 0 {
		g.Evenly(esl.Node, 0)
	}
	g.Steers()
	g.Make(g.Own(""), 0, controlplane.OnEvery())
	g.AskAll(g.Own(""), esl.One)
	return nil
}

// share is the most tasks on each of m nodes, in units of unit tasks.
func (p Balance) share(tasks, m, unit int) types.Quantity {
	if m == 0 {
		return 0
	}
	units := (tasks + unit - 1) / unit
	return types.Quantity((units+m-1)/m*unit) * esl.One
}

// Next sets the share of each node. After a node is lost or drained, the share of the others grows,
// or another node replaces it if Nodes is given.
func (p Balance) Next(s *esl.State) esl.Plan {
	name := s.Own("")
	c := taskset.Of(s, name)
	if len(c.Waiting)+len(c.Held) == 0 {
		return esl.Plan{}
	}
	id, all := types.Resolve(s.Namespace, name), len(taskset.Tasks(s))
	parts := domainsOf(s, esl.Node, id, c)
	plan := esl.Plan{Reason: "the share of each node", RequeueAfter: c.Next}
	if p.Nodes == 0 {
		if want := p.share(all, len(parts), c.Unit); want != onEveryNode(s, name) && len(parts) > 0 {
			onEvery(s, &plan, name, want)
		}
		return plan
	}
	p.choose(s, &plan, name, parts, c, p.share(all, min(p.Nodes, len(parts)), c.Unit))
	takeTurn(s, &plan)
	return plan
}

// choose gives the share to Nodes nodes. The order is: nodes with tasks of the job, nodes with
// capacity for a share, those that have the share, those with the fewest tasks. A change of nodes
// takes two plans: after the first, no task can begin on the old node.
func (p Balance) choose(s *esl.State, plan *esl.Plan, name string, parts []*domain, c taskset.Set, share types.Quantity) {
	id := types.Resolve(s.Namespace, name)
	lacks := make(map[*domain]int, len(parts))
	for _, d := range parts {
		if d.used == 0 {
			lacks[d] = max(0, min(int(share/esl.One), len(c.Waiting))-d.fit(c).now)
		}
	}
	slices.SortStableFunc(parts, func(a, b *domain) int {
		x, y := a.nodes[0], b.nodes[0]
		return cmp.Or(cmp.Compare(b.used, a.used), cmp.Compare(min(lacks[a], 1), min(lacks[b], 1)), cmp.Compare(taskset.Capacity(s, y, id), taskset.Capacity(s, x, id)),
			cmp.Compare(lacks[a], lacks[b]), cmp.Compare(len(x.Bindings), len(y.Bindings)))
	})
	chosen := make(map[string]bool)
	var on, off []string
	for _, d := range parts[:min(p.Nodes, len(parts))] {
		n := d.nodes[0]
		chosen[n.Name] = true
		if taskset.Capacity(s, n, id) != share {
			on = append(on, n.Name)
		}
	}
	for _, n := range openNodes(s, id) {
		if !chosen[n.Name] {
			off = append(off, n.Name)
		}
	}
	if len(off) > 0 {
		on = nil
	}
	setOn(s, plan, name, share, on, off)
}

// ClusterScoped is set: free capacity changes with other jobs.
func (Balance) ClusterScoped() {}

// Pace bounds how often Next is called: one call handles all waiting tasks.
func (Balance) Pace() time.Duration { return widePace }

// Why tells the share.
func (p Balance) Why(s *esl.State, task string) why.Reason {
	if _, ok := taskset.Waits(s, task); !ok {
		return why.Reason{}
	}
	name := s.Own("")
	c := taskset.Of(s, name)
	parts := domainsOf(s, esl.Node, types.Resolve(s.Namespace, name), c)
	if len(parts) == 0 {
		return why.Say(why.Place, "balance: no node takes tasks, is large enough for it, and has what else it asks for")
	}
	m := len(parts)
	if p.Nodes > 0 {
		m = min(m, p.Nodes)
	}
	return why.Say(why.Place, "balance: each of %d nodes may have %s of the job's tasks at once; it waits until one of them has fewer, and room",
		m, p.share(len(taskset.Tasks(s)), m, c.Unit).Format("tasks"))
}
