package place

import (
	"cmp"
	"slices"

	"github.com/escher-sched/escher/controlplane"
	"github.com/escher-sched/escher/controlplane/why"
	"github.com/escher-sched/escher/esl"
	"github.com/escher-sched/escher/esl/taskset"
)

// Spread divides the tasks of a job evenly among nodes, racks or zones: no task is bound where the
// domain would then have over MaxSkew more tasks than the one with the fewest.
//
// A domain counts if one of its nodes takes tasks and would fit one of the tasks if it were empty.
// So a full domain counts, and tasks wait for it. Nodes without the label are in no domain. When
// tasks end or are lost, it may become uneven: running tasks are not moved, and the next ones go
// where the fewest are.
type Spread struct {
	// Over is node, rack or zone; empty means node.
	Over esl.Domain `json:"over,omitempty" desc:"what the tasks are spread over: node, rack or zone; node if it is left out"`
	// MaxSkew is how many more tasks one domain may have than another; 0 means 1.
	MaxSkew int `json:"maxSkew,omitempty" desc:"how many more tasks one may have than another; 1 if it is left out" zero:"would let none begin: give how many more one may have, or leave it out for 1"`
}

// Kind returns spread.
func (Spread) Kind() string { return "spread" }

// Describe says what the policy does, and its flags.
func (Spread) Describe() esl.Description {
	return esl.Description{Does: "tasks are spread evenly over nodes, racks or zones", OneByOne: true, Flags: []esl.Flag{{
		Name: "spread", Usage: "spread the tasks over node, rack or zone",
		Text: esl.Sets[string]("over"), Values: esl.Values{Words: esl.Domain("").Choices()},
		With: []esl.Flag{{
			Name: "max-skew", Usage: "with --spread: how many more tasks one may have than another (default: 1)",
			Number: esl.Sets[int]("maxSkew"),
			Alone:  "is given, and nothing is spread: give --spread node, --spread rack or --spread zone too",
		}},
	}}}
}

// Validate checks the parameters.
func (p Spread) Validate() error {
	if p.MaxSkew < 0 {
		return esl.Invalid("maxSkew: %d is negative: give how many more tasks one may have than another, or leave it out for 1", p.MaxSkew)
	}
	return p.Over.Or(esl.Node).Validate("over")
}

// Apply makes each task request one of a resource that Next creates where the task may go.
func (p Spread) Apply(g *esl.Group) error {
	if err := p.Validate(); err != nil {
		return err
	}
	g.OnMany()
	g.Steers()
	g.Evenly(p.Over.Or(esl.Node), max(p.MaxSkew, 1))
	g.Make(g.Own(""), 0, controlplane.OnEvery())
	g.AskAll(g.Own(""), esl.One)
	return nil
}

// Next opens as many in each domain as may be there now.
func (p Spread) Next(s *esl.State) esl.Plan { return keepLimits(s, p.Over, "tasks are spread", p.most) }

// most returns the limit of each domain, the same for all nodes without a gang. A gang is placed at once, so its limits are the final
// ones: of domains with equally many tasks, those with capacity for one more get it.
func (p Spread) most(l *limits) (most []int, level bool) {
	parts, c := l.parts, l.tasks
	out := l.equal(least(parts) + max(p.MaxSkew, 1))
	if !c.Gang {
		return out, l.over == esl.Node
	}
	units := (len(c.Waiting) + c.Unit - 1) / c.Unit
	order := make([]int, len(parts))
	for i, d := range parts {
		order[i] = i
		units += d.used / c.Unit
	}
	lacks := make([]int, len(parts)) // tasks that do not fit if the domain gets one more unit
	for i, d := range parts {
		if len(c.Waiting) > 0 && units%len(parts) > 0 {
			lacks[i] = max(0, (units/len(parts)+1)*c.Unit-d.used-d.fit(c).now)
		}
	}
	slices.SortStableFunc(order, func(a, b int) int {
		return cmp.Or(cmp.Compare(parts[b].used, parts[a].used), cmp.Compare(lacks[a], lacks[b]))
	})
	for i, at := range order {
		out[at] = units / len(parts) * c.Unit
		if i < units%len(parts) {
			out[at] += c.Unit
		}
	}
	return out, false
}

// Opens returns how many more tasks each rack or zone may hold.
func (p Spread) Opens(s *esl.State) esl.Limit { return opens(s, p.Over, p.most) }

// ClusterScoped is set: free capacity in a rack changes with other jobs.
func (Spread) ClusterScoped() {}

// Why says where the task may go, and why nowhere else.
func (p Spread) Why(s *esl.State, task string) why.Reason {
	if _, ok := taskset.Waits(s, task); !ok {
		return why.Reason{}
	}
	l := limitsOf(s, p.Over)
	if len(l.parts) == 0 {
		return why.Say(why.Place, "spread: there is no %s with a node that is large enough for it: label nodes, or add some", l.over)
	}
	slices.SortStableFunc(l.parts, func(a, b *domain) int { return cmp.Compare(a.used, b.used) })
	return why.Say(why.Place, "spread: at most %d more may be on one %s than on another, and they have: %s; it goes where fewer than %d are, when there is room",
		max(p.MaxSkew, 1), l.over, l.counts(), least(l.parts)+max(p.MaxSkew, 1))
}
