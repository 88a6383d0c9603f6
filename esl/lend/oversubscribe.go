package lend

import (
	"cmp"
	"time"

	"github.com/escher-sched/escher/controlplane"
	"github.com/escher-sched/escher/controlplane/manifest"
	"github.com/escher-sched/escher/controlplane/why"
	"github.com/escher-sched/escher/esl"
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
	if p.Margin < 0 || p.Margin > 90 {
		return esl.Invalid("margin: %d is not within 1 and 90 percent: change it, or leave it out for 10", p.Margin)
	}
	return nil
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
func (Oversubscribe) WhyUsed(s *esl.State, u esl.Use, task string) why.Reason {
	return wait(s, u, task)
}
