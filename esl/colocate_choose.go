package esl

import (
	"fmt"

	"github.com/escher-sched/escher/controlplane"
	"github.com/escher-sched/escher/types"
)

// choose opens one domain: that in which tasks are already, else that in which the most
// have room. To open another one takes two plans: after the first nobody can be bound in
// the one before, and the second knows who was before that.
func (p Colocate) choose(s *State, c crowd) Plan {
	name, in := s.Own(""), p.In.or(Node)
	id := types.Resolve(s.Namespace, name)
	parts := s.parts(in, id, c)
	is, want := p.opened(s, name), p.best(s, parts, c)
	if at := p.inUse(s, name); at != "" {
		want = at
	}
	if want == "" || is == want {
		return Plan{}
	}
	if is != "" && is != want {
		return p.open(s, is, 0, fmt.Sprintf("no longer on %s %s", in, is))
	}
	return p.open(s, want, types.Inf, fmt.Sprintf("together on %s %s", in, want))
}

// opened returns the domain that is open, "" if none is.
func (p Colocate) opened(s *State, name string) string {
	id := types.Resolve(s.Namespace, name)
	if p.In.or(Node) == Node {
		for _, n := range s.open(id) {
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

// open makes the resource so much in a domain.
func (p Colocate) open(s *State, domain string, capacity types.Quantity, reason string) Plan {
	plan := Plan{Reason: reason}
	name, in := s.Own(""), p.In.or(Node)
	set := Set{Name: name, Capacity: capacity, Where: controlplane.OnNode(domain), Options: s.lifetime()}
	switch {
	case in == Node && capacity == 0:
		set.Options = controlplane.SetOptions{}
	case in != Node && capacity == 0:
		set.Where = controlplane.OnEvery()
	case in != Node:
		set.Where = controlplane.OnEvery(types.Label{Name: string(in), Value: domain})
	}
	plan.Set = append(plan.Set, set)
	return plan
}

// inUse returns the domain where most of the resource is in use, by tasks or by what was
// locked for them, "" if none is.
func (p Colocate) inUse(s *State, name string) string {
	id := types.Resolve(s.Namespace, name)
	used := make(map[string]types.Quantity)
	most := ""
	for _, n := range s.View.Nodes {
		q := n.Used(id)
		if q == 0 || n.Alive.V == nil {
			continue
		}
		d := p.In.or(Node).of(n)
		if used[d] += q; most == "" || used[d] > used[most] || used[d] == used[most] && d < most {
			most = d
		}
	}
	return most
}

// best returns the domain in which the most tasks have room, the one that is open if none
// is better; where none has any, the one that is large enough for the most.
func (p Colocate) best(s *State, parts []*part, c crowd) string {
	is, best := p.opened(s, s.Own("")), ""
	bestNow, bestEver := -1, -1
	for _, d := range parts {
		now, ever := d.fit(c)
		if now < bestNow || now == bestNow && ever < bestEver {
			continue
		}
		if now > bestNow || ever > bestEver && now == 0 || d.name == is {
			best, bestNow, bestEver = d.name, now, ever
		}
	}
	return best
}

// fit returns how many of what waits have room in a domain now, and on how many nodes the
// first would have if nothing else were there.
func (p *part) fit(c crowd) (now, ever int) {
	left := make([]int, len(c.shapes))
	for i, x := range c.shapes {
		left[i] = x.waiting
	}
	for _, r := range p.rooms {
		r = r.Clone()
		for i, x := range c.shapes {
			n := r.Put(x.needs, left[i])
			left[i] -= n
			now += n
			if r.Large(x.needs) {
				ever += x.waiting
			}
		}
	}
	return now, ever
}
