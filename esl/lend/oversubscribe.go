package lend

import (
	"cmp"
	"fmt"
	"time"

	"github.com/escher-sched/escher/controlplane"
	"github.com/escher-sched/escher/controlplane/cluster"
	"github.com/escher-sched/escher/controlplane/manifest"
	"github.com/escher-sched/escher/controlplane/why"
	"github.com/escher-sched/escher/esl"
	"github.com/escher-sched/escher/esl/taskset"
	"github.com/escher-sched/escher/types"
)

// Oversubscribe lends guests the cpu and memory that others, the owners, leave idle (Borg: Verma et al.,
// EuroSys 2015, section 5.5). It is shared: tasks of jobs with a Use are guests. They run when owners
// leave a processor idle, the kernel kills them first when a machine runs out of memory, and they are
// evicted when their owners want back what they use.
type Oversubscribe struct {
	// Margin is the percentage of the cpu and memory of a node that is not lent; 0 means 10. Guests that
	// run may use half of it before one is evicted.
	Margin int `json:"margin,omitempty" desc:"how many percent of the cpu and memory of a node are not lent; 10 if it is left out" zero:"would leave owners nothing to grow into: give 1 to 90, or leave it out for 10" max:"90"`
}

// Kind returns oversubscribe.
func (Oversubscribe) Kind() string { return kind }

// Describe says what the policy does, and the flag that uses it.
func (Oversubscribe) Describe() esl.Description {
	return esl.Description{Does: "lends tasks what others request and leave idle, and evicts them when the owners want it back", OnlyDeclared: true, Flags: []esl.Flag{{
		Name: "best-effort", Usage: "NAME: declared oversubscribe policy; use what others leave idle, until they want it back", Pattern: "^" + manifest.NamePattern + "$",
		Text: esl.Sets[string]("name"),
	}}}
}

// Apply refuses: jobs take part by Use.
func (Oversubscribe) Apply(*esl.Group) error { return esl.SharedOnly(kind) }

// Validate checks the margin.
func (p Oversubscribe) Validate() error {
	return esl.InvalidIf(p.Margin < 0 || p.Margin > 90, "margin: %d is not within 1 and 90 percent: change it, or leave it out for 10", p.Margin)
}

// Declare creates nothing: what is lent depends on what is used.
func (p Oversubscribe) Declare(string) ([]controlplane.Resource, error) { return nil, p.Validate() }

// Use has each task request what is lent instead of cpu and memory, which becomes its limit.
func (p Oversubscribe) Use(g *esl.Group, u esl.Use) error {
	if err := u.Only(p.Kind()); err != nil {
		return err
	}
	g.Borrows()
	return borrow(g, u.Name)
}

// Pace bounds how often all nodes are compared with what they lend.
func (Oversubscribe) Pace() time.Duration { return 250 * time.Millisecond }

// ClusterScoped has the policy see each owner that comes.
func (Oversubscribe) ClusterScoped() {}

// Measures asks the nodes while there are guests, those with guests more often.
func (Oversubscribe) Measures(s *esl.State) map[string]time.Duration { return ask(s) }

// Next evicts guests where less is lent than they hold. Otherwise it sets what each node lends: what its
// owners leave idle, less the margin; guests that run keep what they hold within half of that.
func (p Oversubscribe) Next(s *esl.State) esl.Plan {
	margin := types.Quantity(cmp.Or(p.Margin, 10))
	return next(s, func(of usage) types.Quantity {
		idle := of.idle - of.capacity*margin/200
		return max(0, idle-of.capacity*margin/200, min(of.held, idle))
	})
}

// WhyUsed says what is lent, when a task waits for that.
func (p Oversubscribe) WhyUsed(s *esl.State, u esl.Use, task string) why.Reason {
	t, waits := taskset.Waits(s, task)
	if !waits {
		return why.Reason{}
	}
	both := lents(s)
	nodes, best := 0, (*cluster.Node)(nil)
	var sum, most [2]types.Quantity
	for _, n := range byName(s) {
		var free [2]types.Quantity
		for i, l := range both {
			has, _ := s.View.Capacity(n, l.id)
			sum[i] += has
			free[i], _ = s.View.Free(n, l.id)
		}
		if has, _ := s.View.Capacity(n, both[0].id); has > 0 {
			nodes++
		}
		if best == nil || min(free[0], free[1]) > min(most[0], most[1]) {
			best, most = n, free
		}
	}
	if nodes == 0 {
		return why.Say(why.Room, "best-effort: %s lends nothing: the owners use what they request, or have come just now, or no node has told yet what is used", u.Name)
	}
	wants := [2]types.Quantity{t.Info.V.Requests.Get(both[0].name), t.Info.V.Requests.Get(both[1].name)}
	if most[0] >= wants[0] && most[1] >= wants[1] {
		return why.Reason{}
	}
	return why.Say(why.Room, "best-effort: it waits for %s of %s to be idle on one node; of what is lent on %d nodes, %s, most is free on %s: %s",
		amounts(wants), u.Name, nodes, amounts(sum), best.Name, amounts([2]types.Quantity{max(0, most[0]), max(0, most[1])}))
}

// amounts writes amounts of what is lent.
func amounts(of [2]types.Quantity) string {
	return fmt.Sprintf("%s cpu and %s of memory", of[0].Format(types.CPU), (of[1] / esl.One * mib).Format(types.Memory))
}
