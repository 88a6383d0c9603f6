package esl

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/escher-sched/escher/controlplane"
	"github.com/escher-sched/escher/controlplane/cluster"
	"github.com/escher-sched/escher/types"
)

// of returns the name of the domain that a node is in; "" if it is in none.
func (d Domain) of(n *cluster.Node) string {
	switch {
	case d == Node || d == "":
		return n.Name
	case n.Info.V == nil:
		return ""
	}
	return n.Info.V.Label(string(d))
}

// or returns the domain, or another one if it is not given.
func (d Domain) or(other Domain) Domain { return cmp.Or(d, other) }

// part is a node, rack or zone with what counts there. It counts if one of its nodes takes
// tasks, and would do for some of them if nothing else were there: is large enough, and has
// what else they ask for.
type part struct {
	name string
	// nodes are all of them, rooms what is free on those that take tasks.
	nodes []*cluster.Node
	rooms []*Room
	// used is how much of a resource is in use there, in whole ones, but for what was
	// collected of it for those who wait.
	used int
	// made is the room that is being made there, by node.
	made map[string]made
}

// parts returns the domains that count for a crowd, by name.
func (s *State) parts(in Domain, id types.ResourceID, c crowd) []*part {
	if in == Node {
		return s.eachNode(id, c)
	}
	byName := make(map[string]*part)
	large := make(map[string]bool)
	made := s.madeRoom(id.In(s.Namespace))
	for _, n := range s.View.Nodes {
		name := in.of(n)
		if name == "" {
			continue
		}
		p := byName[name]
		if p == nil {
			p = &part{name: name, made: made}
			byName[name] = p
		}
		p.nodes = append(p.nodes, n)
		p.used += int((n.Used(id) - made[n.Name].held) / One)
		if !n.Eligible() {
			continue
		}
		r := newRoom(s.View, n)
		p.rooms = append(p.rooms, r)
		large[name] = large[name] || slices.ContainsFunc(c.shapes, func(x *shape) bool { return x.large(r) })
	}
	var out []*part
	for _, name := range slices.Sorted(maps.Keys(byName)) {
		if p := byName[name]; large[name] {
			sortNodes(p.nodes)
			slices.SortFunc(p.rooms, func(a, b *Room) int { return cmp.Compare(a.Node.Name, b.Node.Name) })
			out = append(out, p)
		}
	}
	return out
}

// eachNode returns the nodes that count for a crowd as domains, by name.
func (s *State) eachNode(id types.ResourceID, c crowd) []*part {
	nodes := s.Nodes()
	parts, rooms, roomsOf := make([]part, len(nodes)), make([]Room, len(nodes)), make([]*Room, len(nodes))
	out := make([]*part, 0, len(nodes))
	made := s.madeRoom(id.In(s.Namespace))
	for i, n := range nodes {
		rooms[i] = Room{Node: n, view: s.View}
		roomsOf[i] = &rooms[i]
		if slices.ContainsFunc(c.shapes, func(x *shape) bool { return x.large(&rooms[i]) }) {
			parts[i] = part{name: n.Name, nodes: nodes[i : i+1 : i+1], rooms: roomsOf[i : i+1 : i+1], used: int((n.Used(id) - made[n.Name].held) / One)}
			out = append(out, &parts[i])
		}
	}
	return out
}

// least is how many are used where the fewest are.
func least(parts []*part) int {
	if len(parts) == 0 {
		return 0
	}
	return slices.MinFunc(parts, func(a, b *part) int { return cmp.Compare(a.used, b.used) }).used
}

// limit returns what the nodes of a part are to have of a resource, so that no more than
// most of it can ever be in use there: by capacity, the nodes that change.
//
// What may still come is where what waits has room, or room is being made for it. To move it from one node to another
// takes two plans: after the first nobody can take it any more, and the second knows who
// has before that.
func (s *State) limit(p *part, id types.ResourceID, most int, c crowd) map[types.Quantity][]string {
	lower, raise := make(map[types.Quantity][]string), make(map[types.Quantity][]string)
	slots := p.slots(s, id, most-p.used, c)
	could := 0 // how many could be in use while the plan is done, and after it
	for _, n := range p.nodes {
		used, has := n.Used(id)-p.made[n.Name].held, s.capacity(n, id)
		want := has
		switch free := types.Quantity(slots[n.Name]) * One; {
		case free > 0:
			want = used + free
		case has > used:
			want = used
		}
		could += int(max(has, want, used) / One)
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

// shut adds that nothing new comes while nothing waits: what could come then would go by
// what has been.
func (s *State) shut(plan *Plan, name string) {
	id := types.Resolve(s.Namespace, name)
	limits := make(map[types.Quantity][]string)
	for _, n := range s.open(id) {
		if used := n.Used(id); s.capacity(n, id) > used {
			limits[used] = append(limits[used], n.Name)
		}
	}
	s.setLimits(plan, name, limits)
	s.turn(plan)
}

// slots says on which nodes of a part so many of what waits have room: first where it is
// being made, then where there are slots already.
func (p *part) slots(s *State, id types.ResourceID, free int, c crowd) map[string]int {
	out := make(map[string]int)
	for _, r := range p.rooms {
		n := min(free, int(p.made[r.Node.Name].asked/One))
		out[r.Node.Name] += n
		free -= n
	}
	has := func(r *Room) int { return boolInt(s.capacity(r.Node, id) > r.Node.Used(id)) }
	rooms := p.clones()
	slices.SortStableFunc(rooms, func(a, b *Room) int {
		return cmp.Or(cmp.Compare(has(b), has(a)), cmp.Compare(a.Node.Used(id), b.Node.Used(id)))
	})
	c.put(rooms, free, func(r *Room, n, _ int) { out[r.Node.Name] += n })
	return out
}

// clones returns copies of the rooms, to try something on.
func (p *part) clones() []*Room {
	out := make([]*Room, len(p.rooms))
	for i, r := range p.rooms {
		out[i] = r.Clone()
	}
	return out
}

func boolInt(b bool) int {
	if b {
		return 1
	}
	return 0
}

// setLimits adds what limit returned to a plan.
func (s *State) setLimits(plan *Plan, name string, limits map[types.Quantity][]string) {
	for _, q := range slices.Sorted(maps.Keys(limits)) {
		slices.Sort(limits[q])
		plan.Set = append(plan.Set, Set{Name: name, Capacity: q, Where: controlplane.OnNode(limits[q]...), Options: s.lifetime()})
	}
}

// onEvery adds that a resource is so much on every node, on the condition that it is as
// it was.
func (s *State) onEvery(plan *Plan, name string, capacity types.Quantity) {
	id := types.Resolve(s.Namespace, name)
	key := controlplane.ResourceKey(s.Namespace, name, types.EveryNode)
	mod := s.View.UnreadMod(key)
	if c := s.View.Everywhere[id]; c != nil {
		mod = c.Mod
	}
	plan.Set = append(plan.Set, Set{Name: name, Capacity: capacity, Where: controlplane.OnEvery(), Options: s.lifetime()})
	plan.If = s.unchanged(plan.If, key, mod)
}

// everyNode returns how much of a resource every node has, but those with a key of their own.
func (s *State) everyNode(name string) types.Quantity {
	if c := s.View.Everywhere[types.Resolve(s.Namespace, name)]; c != nil {
		return c.V.Capacity
	}
	return 0
}

// counts says in words how many are used where; of many domains the fewest and the most.
func counts(parts []*part) string {
	const most = 6
	texts := make([]string, 0, most)
	for i, p := range parts {
		if i == most {
			texts = append(texts, fmt.Sprintf("and %d more", len(parts)-most))
			break
		}
		texts = append(texts, fmt.Sprintf("%s %d", p.name, p.used))
	}
	return strings.Join(texts, ", ")
}

// Choices are what it may be.
func (Domain) Choices() []string { return []string{string(Node), string(Rack), string(Zone)} }
