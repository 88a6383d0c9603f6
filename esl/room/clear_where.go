package room

import (
	"strings"

	"github.com/escher-sched/escher/controlplane/cluster"
	"github.com/escher-sched/escher/esl"
	"github.com/escher-sched/escher/esl/taskset"
	"github.com/escher-sched/escher/types"
)

// asker is the job for which capacity is made.
type asker struct {
	ns, job  string
	priority int
}

// asked holds the requests of a bundle: needs from its node, and amounts covered by limits. on is
// its node if it has one already.
type asked struct {
	on    string
	needs []cluster.Need
	under []asks
}

// asks is a request for n of a resource under a limit.
type asks struct {
	esl.Limit
	n int
}

// lawful identifies a limit and a domain that it counts.
type lawful struct{ ns, name, domain string }

// asked returns the requests of a bundle.
func (c *clearing) asked(who asker, b types.Bundle) (out asked) {
	out.on = b.Node
	job := cluster.ID{Namespace: who.ns, ID: who.job}
	laws, known := c.laws[job]
	if !known {
		laws = c.s.Limits(job)
		c.laws[job] = laws
	}
needs:
	for _, x := range c.s.View.BundleNeeds(who.ns, b.Requests, b.Devices...) {
		for _, l := range laws {
			if l.Covers(x.ID.In(who.ns)) {
				out.under = append(out.under, asks{l, int(x.Amount / esl.One)})
				continue needs
			}
		}
		out.needs = append(out.needs, x)
	}
	return out
}

// allowed reports whether the limits allow capacity to be made on a node.
func (c *clearing) allowed(ns string, under []asks, n *cluster.Node) bool {
	for _, x := range under {
		if d := x.Over.Of(n); x.More != nil && c.under[lawful{ns, x.Name, d}]+x.n > x.More[d] {
			return false
		}
	}
	return true
}

// put counts capacity that is made on a node toward the limits.
func (c *clearing) put(ns string, under []asks, n *cluster.Node) {
	for _, x := range under {
		if x.More != nil {
			c.under[lawful{ns, x.Name, x.Over.Of(n)}] += x.n
		}
	}
}

// own returns the job if it has collected something, and else nothing.
func (c *clearing) own(who asker) string {
	if c.collects[who.job] {
		return who.job
	}
	return ""
}

// like returns the same text for bundles for which capacity is made alike.
func (c *clearing) like(who asker, bundles []types.Bundle) string {
	var b strings.Builder
	b.WriteString(c.own(who) + ";")
	for _, x := range bundles {
		asks := c.asked(who, x)
		b.WriteString(x.Node + ":" + taskset.Signature(asks.needs))
		for _, u := range asks.under {
			b.WriteString(u.Name + " ")
		}
		b.WriteString(";")
	}
	return b.String()
}
