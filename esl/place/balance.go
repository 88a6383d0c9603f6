package place

import (
	"cmp"
	"slices"
	"time"

	"github.com/escher-sched/escher/controlplane"
	"github.com/escher-sched/escher/controlplane/cluster"
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
	return esl.Description{Does: "each node gets the same number of tasks of the job", OneByOne: true, Flags: []esl.Flag{{Name: "balance", Usage: "put the same number of tasks on every node"}}}
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
	const reason = "the share of each node"
	if p.Nodes == 0 {
		return keepLimits(s, esl.Node, reason, p.most)
	}
	l := limitsOf(s, esl.Node)
	l.tasks.Seek(s, l.name, "", nil)
	if len(l.tasks.Waiting)+len(l.tasks.Held) == 0 {
		return esl.Plan{Idle: nothingWaits}
	}
	plan := esl.Plan{Reason: reason, RequeueAfter: l.tasks.Next, Idle: "the chosen nodes have their share"}
	share := p.shareOf(l)
	chosen := p.choose(l, share)
	open(s, &plan, l.name, share, true, func(n *cluster.Node) bool { return slices.Contains(chosen, n) })
	s.TakeTurn(&plan)
	return plan
}

// most returns the share of each node.
func (p Balance) most(l *limits) (most []int, level bool) {
	return l.equal(int(p.shareOf(l) / esl.One)), true
}

// on returns on how many nodes the tasks are.
func (p Balance) on(l *limits) int { return min(cmp.Or(p.Nodes, len(l.parts)), len(l.parts)) }

func (p Balance) shareOf(l *limits) types.Quantity {
	return p.share(len(taskset.Tasks(l.s)), p.on(l), l.tasks.Unit)
}

// choose returns the nodes that get the share. The order is: nodes with tasks of the job, nodes with
// capacity for a share, those that have the share, those with the fewest tasks.
func (p Balance) choose(l *limits, share types.Quantity) []*cluster.Node {
	lacks := make(map[*domain]int, len(l.parts))
	for _, d := range l.parts {
		if d.used == 0 {
			lacks[d] = max(0, min(int(share/esl.One), len(l.tasks.Waiting))-d.fit(l.tasks).now)
		}
	}
	slices.SortStableFunc(l.parts, func(a, b *domain) int {
		x, y := a.nodes[0], b.nodes[0]
		return cmp.Or(cmp.Compare(b.used, a.used), cmp.Compare(min(lacks[a], 1), min(lacks[b], 1)), cmp.Compare(taskset.Capacity(l.s, y, l.id), taskset.Capacity(l.s, x, l.id)),
			cmp.Compare(lacks[a], lacks[b]), cmp.Compare(len(x.Bindings), len(y.Bindings)))
	})
	var out []*cluster.Node
	for _, d := range l.parts[:p.on(l)] {
		out = append(out, d.nodes[0])
	}
	return out
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
	l := limitsOf(s, esl.Node)
	if len(l.parts) == 0 {
		return why.Say(why.Place, "balance: no node takes tasks, is large enough for it, and has what else it asks for")
	}
	return why.Say(why.Place, "balance: each of %d nodes may have %s of the job's tasks at once; it waits until one of them has fewer, and room",
		p.on(l), p.shareOf(l).Format("tasks"))
}
