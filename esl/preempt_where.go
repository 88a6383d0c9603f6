package esl

import (
	"strings"

	"github.com/escher-sched/escher/controlplane/cluster"
	"github.com/escher-sched/escher/types"
)

// Where room may be made for tasks, as other policies of their job say where they may be. Most
// have a resource of theirs there, be there room or not; some only where there is room.

// opener is a Policy that has a resource of its own where there is room for who asks for it,
// and where room is being made, as far as its law allows.
type opener interface {
	Policy
	opens(s *State) law
}

// law says where room may be made for who asks for a resource of a policy.
type law struct {
	// name is that of the resource; empty if the policy has it where there is no room, too.
	// each: there is one of each task, the name, a dot and a number.
	name string
	each bool
	// more is how many more may be in each rack, or zone; nil: any number anywhere.
	over Domain
	more map[string]int
}

// lawOf allows so many in each of some domains.
func lawOf(name string, over Domain, parts []*part, most []int) law {
	l := law{name: name, over: over, more: make(map[string]int, len(parts))}
	for i, p := range parts {
		l.more[p.name] = most[i] - p.used
	}
	return l
}

// is reports whether a resource is what the law is about.
func (l law) is(name string) bool {
	return name == l.name || l.each && strings.HasPrefix(name, l.name+".")
}

// laws returns those of the policies of a job.
func (s *State) laws(job cluster.ID) []law {
	c := s.View.Policies[job]
	if c == nil || c.V == nil {
		return nil
	}
	var out []law
	page := readPage(job, c, s.kinds)
	for i, p := range page.policies {
		o, ok := p.(opener)
		if !ok {
			continue
		}
		of := *s
		of.Namespace, of.ID, of.Job, of.label, of.memo, of.largest = job.Namespace, job.ID, job.ID, page.labels[i], nil, nil
		if l := o.opens(&of); l.name != "" {
			out = append(out, l)
		}
	}
	return out
}

// asker is for whom room is made.
type asker struct {
	ns, job  string
	priority int
}

// asked is what a bundle asks for: of a node, and what is there where room is made for it.
type asked struct {
	needs []cluster.Need
	under []asks
}

// asks is for so many of what is under a law.
type asks struct {
	law
	n int
}

// lawful is a law and where it is about so many.
type lawful struct{ ns, name, domain string }

// asked returns what a bundle asks for.
func (c *clearing) asked(who asker, b types.Bundle) (out asked) {
	job := cluster.ID{Namespace: who.ns, ID: who.job}
	laws, known := c.laws[job]
	if !known {
		laws = c.s.laws(job)
		c.laws[job] = laws
	}
needs:
	for _, x := range c.s.View.BundleNeeds(who.ns, b.Requests, b.Devices...) {
		for _, l := range laws {
			if l.is(x.ID.In(who.ns)) {
				out.under = append(out.under, asks{l, int(x.Amount / One)})
				continue needs
			}
		}
		out.needs = append(out.needs, x)
	}
	return out
}

// allowed reports whether room for what is asked for may be made on a node.
func (c *clearing) allowed(ns string, under []asks, n *cluster.Node) bool {
	for _, x := range under {
		if d := x.over.of(n); x.more != nil && c.under[lawful{ns, x.name, d}]+x.n > x.more[d] {
			return false
		}
	}
	return true
}

// put counts that room for what is asked for is made on a node.
func (c *clearing) put(ns string, under []asks, n *cluster.Node) {
	for _, x := range under {
		if x.more != nil {
			c.under[lawful{ns, x.name, x.over.of(n)}] += x.n
		}
	}
}

// like is the same for bundles for which room is made alike.
func (c *clearing) like(who asker, bundles []types.Bundle) string {
	var b strings.Builder
	for _, x := range bundles {
		asks := c.asked(who, x)
		b.WriteString(x.Node + ":" + signature(asks.needs))
		for _, u := range asks.under {
			b.WriteString(u.name + " ")
		}
		b.WriteString(";")
	}
	return b.String()
}
