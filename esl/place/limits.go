package place

import (
	"fmt"
	"maps"
	"slices"

	"github.com/escher-sched/escher/controlplane"
	"github.com/escher-sched/escher/controlplane/cluster"
	"github.com/escher-sched/escher/esl"
	"github.com/escher-sched/escher/esl/taskset"
	"github.com/escher-sched/escher/types"
	"github.com/escher-sched/escher/types/words"
)

// nothingWaits is why most policies of this package do nothing.
const nothingWaits = "no task waits"

// limits is the engine of policies that allow a number of tasks in each domain: apart, spread,
// balance and elastic-balance. Each task requests one of a resource. A policy chooses the kind of
// domain and the numbers; the engine sets the capacity of the resource on the nodes.
type limits struct {
	s     *esl.State
	name  string
	id    types.ResourceID
	over  esl.Domain
	tasks taskset.Set
	parts []*domain
}

// numbers are the limits of the domains of l. level reports whether each node has the same limit,
// which then holds for later nodes too.
type numbers func(l *limits) (most []int, level bool)

// limitsOf returns the limits of a policy with the domains that count.
func limitsOf(s *esl.State, over esl.Domain) *limits {
	l := limitsFor(s, over)
	l.parts = domainsOf(s, l.over, l.id, l.tasks)
	return l
}

// limitsFor is limitsOf without the domains.
func limitsFor(s *esl.State, over esl.Domain) *limits {
	name := s.Own("")
	return &limits{s: s, name: name, id: types.Resolve(s.Namespace, name), over: over.Or(esl.Node), tasks: taskset.Of(s, name)}
}

// keepLimits returns the plan that sets the limits of a policy.
func keepLimits(s *esl.State, over esl.Domain, reason string, limit numbers) esl.Plan {
	l := limitsFor(s, over)
	plan := esl.Plan{Reason: reason, RequeueAfter: l.tasks.Next, Idle: "the limits are as they should be"}
	l.tasks.SeekNone(s)
	switch {
	case len(l.tasks.Waiting)+len(l.tasks.Held) == 0:
		return esl.Plan{Idle: nothingWaits}
	case len(l.tasks.Waiting) == 0 && l.over != esl.Node:
		l.close(&plan)
		return plan
	}
	if l.parts = domainsOf(s, l.over, l.id, l.tasks); len(l.parts) == 0 {
		return plan
	}
	most, level := limit(l)
	if level {
		l.level(&plan, most[0])
		return plan
	}
	l.seek(most)
	for i, d := range l.parts {
		l.set(&plan, l.of(d, most[i]))
	}
	s.TakeTurn(&plan)
	return plan
}

// seek notes that free capacity matters in the domains that may get more tasks than slots are open there.
func (l *limits) seek(most []int) {
	short, text := make(map[string]bool), string(l.over)
	for i, d := range l.parts {
		open := d.used
		for _, n := range d.nodes {
			open += int(max(0, taskset.Capacity(l.s, n, l.id)-n.Used(l.id)) / esl.One)
		}
		if open < most[i] {
			short[d.name] = true
			text += " " + d.name
		}
	}
	over := l.over
	l.tasks.Seek(l.s, l.name, text, func(n *cluster.Node) bool { return short[over.Of(n)] })
}

// opens returns how many more tasks each rack or zone may hold. Single nodes need no Limit.
func opens(s *esl.State, over esl.Domain, limit numbers) esl.Limit {
	if over.Or(esl.Node) == esl.Node {
		return esl.Limit{}
	}
	l := limitsOf(s, over)
	most, _ := limit(l)
	out := esl.Limit{Name: l.name, Over: l.over, More: make(map[string]int, len(l.parts))}
	for i, p := range l.parts {
		out.More[p.name] = most[i] - p.used
	}
	return out
}

// equal returns the same limit for all domains.
func (l *limits) equal(most int) []int { return slices.Repeat([]int{most}, len(l.parts)) }

// level sets the limit of each node, if that changes anything: it is raised only for waiting tasks.
func (l *limits) level(plan *esl.Plan, most int) {
	is, want := onEveryNode(l.s, l.name), types.Quantity(most)*esl.One
	if want == is || want > is && len(l.tasks.Waiting) == 0 {
		return
	}
	plan.Set = append(plan.Set, controlplane.Resource{Name: l.name, Capacity: want, Where: controlplane.OnEvery(), Options: l.s.Lifetime()})
	l.s.Unchanged(plan, l.name, types.EveryNode)
}

// onEveryNode returns how much of a resource every node has, except nodes with a key of their own.
func onEveryNode(s *esl.State, name string) types.Quantity {
	if c := s.View.Everywhere[types.Resolve(s.Namespace, name)]; c != nil {
		return c.V.Capacity
	}
	return 0
}

// of returns the nodes of a domain whose capacity of the resource changes, by new capacity, so that
// never more than most of it is in use there.
//
// Free capacity is where waiting tasks fit, or where capacity is being made for them. Moving it to
// another node takes two plans: after the first, no task can use it on the old node; the second
// knows which tasks began there before that.
func (l *limits) of(p *domain, most int) map[types.Quantity][]string {
	lower, raise := make(map[types.Quantity][]string), make(map[types.Quantity][]string)
	slots := l.slots(p, most-p.used)
	could := 0 // how many could be in use during the plan and after it
	for _, n := range p.nodes {
		used, has := n.Used(l.id)-p.made[n.Name].Held, taskset.Capacity(l.s, n, l.id)
		want := has
		switch free := types.Quantity(slots[n.Name]) * esl.One; {
		case free > 0:
			want = used + free
		case has > used:
			want = used
		}
		could += int(max(has, want, used) / esl.One)
		switch {
		case want < has:
			lower[want] = append(lower[want], n.Name)
		case want > has:
			raise[want] = append(raise[want], n.Name)
		}
	}
	if could > max(most, p.used) {
		return lower
	}
	for q, names := range raise {
		lower[q] = append(lower[q], names...)
	}
	return lower
}

// close adds to a plan that no more tasks fit while none waits: their placement would follow
// outdated limits.
func (l *limits) close(plan *esl.Plan) {
	full := make(map[types.Quantity][]string)
	for _, n := range openNodes(l.s, l.id) {
		if used := n.Used(l.id); taskset.Capacity(l.s, n, l.id) > used {
			full[used] = append(full[used], n.Name)
		}
	}
	l.set(plan, full)
	l.s.TakeTurn(plan)
}

// set adds to a plan the capacity of the resource on nodes.
func (l *limits) set(plan *esl.Plan, nodes map[types.Quantity][]string) {
	for _, q := range slices.Sorted(maps.Keys(nodes)) {
		slices.Sort(nodes[q])
		plan.Set = append(plan.Set, controlplane.Resource{Name: l.name, Capacity: q, Where: controlplane.OnNode(nodes[q]...), Options: l.s.Lifetime()})
	}
}

// counts names the first six domains, and how many are used in each.
func (l *limits) counts() string {
	texts := make([]string, len(l.parts))
	for i, p := range l.parts {
		texts[i] = fmt.Sprintf("%s %d", p.name, p.used)
	}
	return words.List(texts, 6)
}
