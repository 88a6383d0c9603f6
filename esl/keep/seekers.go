package keep

import (
	"cmp"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/escher-sched/escher/controlplane/cluster"
	"github.com/escher-sched/escher/controlplane/match"
	"github.com/escher-sched/escher/esl"
)

// promiseFor is how long capacity that a policy has opened counts as promised to its tasks. The scheduler
// binds a task within milliseconds, unless the task waits for something that the policy does not know.
const promiseFor = time.Second

// seekers are the policies that depend on some nodes: see esl.Seeking. After the change of a node, those
// with capacity opened there are called, and of the others as many as the node has room for.
type seekers struct {
	groups map[string]*seekGroup
	// claims are the nodes on which policies have opened capacity, and lapsing the claims in the order in
	// which their promises end.
	claims  map[string][]*claim
	lapsing []*claim
	// promised are the promises by node, one of each job, and promising their claims, in the same order.
	promised  map[string][]esl.Promise
	promising map[string][]*claim
	// clock counts changes of nodes. changed holds the nodes that have not been offered since, and
	// offers the search that goes on for each of them.
	clock   uint64
	changed map[string]uint64
	offers  map[string]*offer
}

// seekGroup are the policies to which the same nodes matter, in rank. version counts changes of members.
type seekGroup struct {
	like    string
	members []*managedPolicy
	version int
}

// claim is a node where a policy has opened capacity.
type claim struct {
	by    *managedPolicy
	node  string
	holds func(*match.Room)
	until time.Time
	// gone reports whether the policy has closed it, or its tasks are bound. over reports whether its
	// promise has lapsed.
	gone, over bool
	// at is its place among the claims of the node, and promises that among those with a promise; -1
	// means that it has none.
	at, promises int
}

// offer is the search for policies that want a changed node.
type offer struct {
	clock uint64
	among []*offered
}

// offered is a group in an offer: the members before at have been called since the node changed.
type offered struct {
	*seekGroup
	at, counted int
}

func newSeekers() seekers {
	return seekers{
		groups: make(map[string]*seekGroup), claims: make(map[string][]*claim), promised: make(map[string][]esl.Promise),
		promising: make(map[string][]*claim), changed: make(map[string]uint64), offers: make(map[string]*offer),
	}
}

// nodeChanged offers a node, and returns the policies with capacity opened there.
func (x *seekers) nodeChanged(node string) []*claim {
	if len(x.groups)+len(x.claims) == 0 {
		return nil
	}
	x.clock++
	x.changed[node] = x.clock
	delete(x.offers, node)
	return x.claims[node]
}

// before ranks policies: by order, then age, then id.
func (p *managedPolicy) before(other *managedPolicy) int {
	a, b := p.seeking, other.seeking
	return cmp.Or(cmp.Compare(b.Order, a.Order), cmp.Compare(a.Since, b.Since), strings.Compare(p.of.id.Namespace, other.of.id.Namespace),
		strings.Compare(p.of.id.ID, other.of.id.ID), strings.Compare(p.label, other.label))
}

// set records what a policy seeks; nil means that it seeks nothing, or depends on everything.
func (x *seekers) set(p *managedPolicy, to *esl.Seeking) {
	var like string
	if to != nil && to.Take != nil {
		like = to.Like
		if to.Alike {
			like = "alike " + like
		}
	}
	if g := p.group; g != nil {
		if to != nil && to.Take != nil && g.like == like && p.seeking.Order == to.Order && p.seeking.Since == to.Since {
			p.seeking = to
			return
		}
		x.leave(p)
	}
	if p.seeking = to; to == nil || to.Take == nil {
		return
	}
	g := x.groups[like]
	if g == nil {
		g = &seekGroup{like: like}
		x.groups[like] = g
	}
	p.group = g
	at, _ := slices.BinarySearchFunc(g.members, p, (*managedPolicy).before)
	g.members = slices.Insert(g.members, at, p)
	g.version++
}

// leave removes a policy from its group.
func (x *seekers) leave(p *managedPolicy) {
	g := p.group
	p.group = nil
	if at, ok := slices.BinarySearchFunc(g.members, p, (*managedPolicy).before); ok {
		g.members = slices.Delete(g.members, at, at+1)
		g.version++
	}
	if len(g.members) == 0 {
		delete(x.groups, g.like)
	}
}

// claim records the nodes on which a policy has capacity opened, and offers those that it has left.
func (x *seekers) claim(p *managedPolicy, on []string, holds func(*match.Room), now time.Time) {
	for node, c := range p.claims {
		if !slices.Contains(on, node) {
			x.release(c)
		}
	}
	for _, node := range on {
		c := p.claims[node]
		if c == nil {
			c = &claim{by: p, node: node, until: now.Add(promiseFor), at: len(x.claims[node]), promises: -1}
			if p.claims == nil {
				p.claims = make(map[string]*claim)
			}
			p.claims[node] = c
			x.claims[node] = append(x.claims[node], c)
			x.lapsing = append(x.lapsing, c)
		}
		c.holds = holds
		x.promise(c)
	}
}

// release ends a claim.
func (x *seekers) release(c *claim) {
	c.gone = true
	delete(c.by.claims, c.node)
	drop(x.claims, c.node, c.at, func(moved *claim) { moved.at = c.at })
	x.retract(c)
	if !c.over {
		x.nodeChanged(c.node)
	}
}

// drop forgets a policy.
func (x *seekers) drop(p *managedPolicy) {
	x.set(p, nil)
	for _, c := range p.claims {
		x.release(c)
	}
}

// drop removes an element of a list of a map. The last one takes its place: moved is told.
func drop[T any](of map[string][]T, key string, at int, moved func(T)) {
	list := of[key]
	last := len(list) - 1
	list[at] = list[last]
	moved(list[at])
	clear(list[last:])
	if of[key] = list[:last]; last == 0 {
		delete(of, key)
	}
}

// promise makes a claim a promise, or what it holds now, unless another claim of its job is one there.
func (x *seekers) promise(c *claim) {
	if c.over || c.holds == nil {
		return
	}
	one := esl.Promise{By: c.by.of.id, Holds: c.holds}
	if c.by.seeking != nil {
		one.Order = c.by.seeking.Order
	}
	if c.promises >= 0 {
		x.promised[c.node][c.promises] = one
		return
	}
	for _, p := range c.by.of.policies {
		if other := p.claims[c.node]; other != nil && other.promises >= 0 {
			return
		}
	}
	c.promises = len(x.promised[c.node])
	x.promised[c.node], x.promising[c.node] = append(x.promised[c.node], one), append(x.promising[c.node], c)
}

// retract ends the promise of a claim. Another claim of the job there takes its place.
func (x *seekers) retract(c *claim) {
	at := c.promises
	if at < 0 {
		return
	}
	c.promises = -1
	drop(x.promised, c.node, at, func(esl.Promise) {})
	drop(x.promising, c.node, at, func(moved *claim) {
		if moved != c {
			moved.promises = at
		}
	})
	for _, p := range c.by.of.policies {
		if other := p.claims[c.node]; other != nil && other != c {
			x.promise(other)
		}
	}
}

// lapse ends the promises whose time is over, and offers their nodes.
func (x *seekers) lapse(now time.Time) {
	for len(x.lapsing) > 0 && (x.lapsing[0].gone || !x.lapsing[0].until.After(now)) {
		c := x.lapsing[0]
		x.lapsing[0] = nil
		x.lapsing = x.lapsing[1:]
		if !c.gone {
			c.over = true
			x.retract(c)
			x.nodeChanged(c.node)
		}
	}
}

// next returns when there is something to do: now if a node is to be offered, else when a promise lapses.
func (x *seekers) next() (now bool, at time.Time) {
	for len(x.lapsing) > 0 && x.lapsing[0].gone {
		x.lapsing = x.lapsing[1:]
	}
	if len(x.lapsing) > 0 {
		at = x.lapsing[0].until
	}
	return len(x.changed) > 0, at
}

// nodes returns the nodes to offer, sorted by name.
func (x *seekers) nodes() []string { return slices.Sorted(maps.Keys(x.changed)) }

// wants returns the policy that is called next for a changed node; nil if there is none. room is what is
// left of the node.
func (x *seekers) wants(node string, room *match.Room) *managedPolicy {
	o := x.offers[node]
	if o == nil {
		o = &offer{clock: x.changed[node]}
		for _, g := range x.groups {
			o.among = append(o.among, &offered{seekGroup: g, counted: -1})
		}
		x.offers[node] = o
	}
	var best *offered
	o.among = slices.DeleteFunc(o.among, func(in *offered) bool {
		p := x.first(in, o.clock)
		if p == nil || !takes(p, room) {
			return true // the room only shrinks until the node changes
		}
		if best == nil || p.before(best.members[best.at]) < 0 {
			best = in
		}
		return false
	})
	if best == nil {
		return nil
	}
	p := best.members[best.at]
	if p.seeking.Alike {
		o.among = slices.DeleteFunc(o.among, func(in *offered) bool { return in == best })
	}
	return p
}

// first returns the first member of a group that has not been called since a change.
func (x *seekers) first(in *offered, clock uint64) *managedPolicy {
	if in.counted != in.version {
		in.at, in.counted = 0, in.version
	}
	for ; in.at < len(in.members); in.at++ {
		if p := in.members[in.at]; p.seen < clock {
			return p
		}
	}
	return nil
}

// done ends the offer of a node.
func (x *seekers) done(node string) {
	delete(x.changed, node)
	delete(x.offers, node)
}

// room returns what is left of a node; nil if it takes no tasks.
func (x *seekers) room(v *cluster.View, node string) *match.Room {
	n := v.Nodes[node]
	if n == nil || !n.Eligible() {
		return nil
	}
	r := match.On(v, n)
	for _, p := range x.promised[node] {
		p.Holds(&r)
	}
	return &r
}

// takes reports whether a policy would use what is left of a node.
func takes(p *managedPolicy, left *match.Room) bool {
	trial := left.Clone()
	return p.seeking.Take(&trial)
}
