package place

import (
	"cmp"
	"fmt"
	"math"

	"github.com/escher-sched/escher/controlplane"
	"github.com/escher-sched/escher/esl"
	"github.com/escher-sched/escher/esl/taskset"
	"github.com/escher-sched/escher/types"
)

// choose opens one domain: the one where most tasks are already, otherwise the one where most fit.
// Opening another one takes two plans: after the first, no task can be bound in the old domain; the
// second knows which tasks were bound there before that.
func (p Colocate) choose(s *esl.State, c taskset.Set) esl.Plan {
	name, in := s.Own(""), p.In.Or(esl.Node)
	id := types.Resolve(s.Namespace, name)
	parts := domainsOf(s, in, id, c)
	is, want := p.opened(s, name), p.best(s, parts, c)
	if at := p.inUse(s, name); at != "" {
		want = at
	}
	if want == "" || is == want {
		return esl.Plan{}
	}
	if is != "" && is != want {
		return p.open(s, is, 0, fmt.Sprintf("no longer on %s %s", in, is))
	}
	return p.open(s, want, types.Inf, fmt.Sprintf("together on %s %s", in, want))
}

// opened returns the open domain, "" if there is none.
func (p Colocate) opened(s *esl.State, name string) string {
	id := types.Resolve(s.Namespace, name)
	if p.In.Or(esl.Node) == esl.Node {
		for _, n := range openNodes(s, id) {
			return n.Name
		}
		return ""
	}
	c := s.View.Everywhere[id]
	if c == nil || c.V.Capacity == 0 || c.V.Selector == nil {
		return ""
	}
	for _, l := range c.V.Selector.Labels {
		return l.Value
	}
	return ""
}

// open sets the capacity of the resource in a domain.
func (p Colocate) open(s *esl.State, domain string, capacity types.Quantity, reason string) esl.Plan {
	plan := esl.Plan{Reason: reason}
	name, in := s.Own(""), p.In.Or(esl.Node)
	set := controlplane.Resource{Name: name, Capacity: capacity, Where: controlplane.OnNode(domain), Options: lifetimeOf(s)}
	switch {
	case in == esl.Node && capacity == 0:
		set.Options = controlplane.SetOptions{}
	case in != esl.Node && capacity == 0:
		set.Where = controlplane.OnEvery()
	case in != esl.Node:
		set.Where = controlplane.OnEvery(types.Label{Name: string(in), Value: domain})
	}
	plan.Set = append(plan.Set, set)
	return plan
}

// inUse returns the domain where most of the resource is in use, by tasks or their reservations, ""
// if none is.
func (p Colocate) inUse(s *esl.State, name string) string {
	id := types.Resolve(s.Namespace, name)
	used := make(map[string]types.Quantity)
	most := ""
	for _, n := range s.View.Nodes {
		q := n.Used(id)
		if q == 0 || n.Alive.V == nil {
			continue
		}
		d := p.In.Or(esl.Node).Of(n)
		if used[d] += q; most == "" || used[d] > used[most] || used[d] == used[most] && d < most {
			most = d
		}
	}
	return most
}

// best returns the domain where most tasks fit, of equal ones the open one. If no task fits in any,
// it returns the one that is large enough for most.
func (p Colocate) best(s *esl.State, parts []*domain, c taskset.Set) string {
	is, best := p.opened(s, s.Own("")), ""
	most := fit{now: -1}
	for _, d := range parts {
		f := d.fit(c)
		if better := f.compare(most); better > 0 || better == 0 && d.name == is {
			best, most = d.name, f
		}
	}
	return best
}

// fit is how many waiting tasks fit in a domain now, the sum of the indices of their alternatives,
// and how many tasks would fit on each of its nodes, if alone there, summed over the nodes.
type fit struct{ now, far, ever int }

// compare orders domains by the number of tasks that fit, then by their preference. If no task
// fits, it orders them by ever.
func (f fit) compare(than fit) int {
	return cmp.Or(cmp.Compare(f.now, than.now), cmp.Compare(than.far, f.far), taskset.BoolInt(f.now == 0)*cmp.Compare(f.ever, than.ever))
}

// fit returns how well the waiting tasks fit in a domain.
func (p *domain) fit(c taskset.Set) (f fit) {
	c.Put(p.clones(), math.MaxInt, func(_ *esl.Room, n, way int) {
		f.now += n
		f.far += n * way
	})
	for _, r := range p.rooms {
		for _, x := range c.Shapes {
			if x.EverFits(r) {
				f.ever += x.Waiting * x.Unit
			}
		}
	}
	return f
}
