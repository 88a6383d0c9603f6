package place

import (
	"cmp"
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

// domain is a node, rack or zone, and its state. It counts if one of its nodes accepts tasks, and
// would fit some of them if it were empty.
type domain struct {
	name string
	// nodes are all of its nodes, rooms the rooms of the nodes that accept tasks.
	nodes []*cluster.Node
	rooms []*esl.Room
	// used is how many of a resource are in use there, without the ones collected for waiting tasks.
	used int
	// made is the capacity being reserved there, by node.
	made map[string]taskset.Reserved
}

// domainsOf returns the domains that count for a task set, sorted by name.
func domainsOf(s *esl.State, in esl.Domain, id types.ResourceID, c taskset.Set) []*domain {
	if in == esl.Node {
		return nodeDomains(s, id, c)
	}
	byName := make(map[string]*domain)
	large := make(map[string]bool)
	made := taskset.ReservedFor(s, id.In(s.Namespace))
	for _, n := range s.View.Nodes {
		name := in.Of(n)
		if name == "" {
			continue
		}
		p := byName[name]
		if p == nil {
			p = &domain{name: name, made: made}
			byName[name] = p
		}
		p.nodes = append(p.nodes, n)
		p.used += int((n.Used(id) - made[n.Name].Held) / esl.One)
		if !n.Eligible() {
			continue
		}
		r := esl.NewRoom(s.View, n)
		p.rooms = append(p.rooms, r)
		large[name] = large[name] || slices.ContainsFunc(c.Shapes, func(x *taskset.Shape) bool { return x.EverFits(r) })
	}
	var out []*domain
	for _, name := range slices.Sorted(maps.Keys(byName)) {
		if p := byName[name]; large[name] {
			esl.SortNodes(p.nodes)
			slices.SortFunc(p.rooms, func(a, b *esl.Room) int { return cmp.Compare(a.Node.Name, b.Node.Name) })
			out = append(out, p)
		}
	}
	return out
}

// nodeDomains returns the nodes that count for a task set as domains, sorted by name.
func nodeDomains(s *esl.State, id types.ResourceID, c taskset.Set) []*domain {
	nodes := s.Nodes()
	parts, rooms, roomsOf := make([]domain, len(nodes)), make([]esl.Room, len(nodes)), make([]*esl.Room, len(nodes))
	out := make([]*domain, 0, len(nodes))
	made := taskset.ReservedFor(s, id.In(s.Namespace))
	for i, n := range nodes {
		rooms[i] = *esl.NewRoom(s.View, n)
		roomsOf[i] = &rooms[i]
		if slices.ContainsFunc(c.Shapes, func(x *taskset.Shape) bool { return x.EverFits(&rooms[i]) }) {
			used := int((n.Used(id) - made[n.Name].Held) / esl.One)
			parts[i] = domain{name: n.Name, nodes: nodes[i : i+1 : i+1], rooms: roomsOf[i : i+1 : i+1], used: used, made: made}
			out = append(out, &parts[i])
		}
	}
	return out
}

// least returns the lowest used of the domains.
func least(parts []*domain) int {
	if len(parts) == 0 {
		return 0
	}
	return slices.MinFunc(parts, func(a, b *domain) int { return cmp.Compare(a.used, b.used) }).used
}

// limitDomain returns the nodes of a domain whose capacity of a resource changes, by new capacity,
// so that never more than most of it is in use there.
//
// Free capacity is where waiting tasks fit, or where capacity is being made for them. Moving it to
// another node takes two plans: after the first, no task can use it on the old node; the second
// knows which tasks began there before that.
func limitDomain(s *esl.State, p *domain, id types.ResourceID, most int, c taskset.Set) map[types.Quantity][]string {
	lower, raise := make(map[types.Quantity][]string), make(map[types.Quantity][]string)
	slots := p.slots(s, id, most-p.used, c)
	could := 0 // how many could be in use during the plan and after it
	for _, n := range p.nodes {
		used, has := n.Used(id)-p.made[n.Name].Held, taskset.Capacity(s, n, id)
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

// closeDomains adds to a plan that no more tasks fit while none waits: their placement would follow
// outdated limits.
func closeDomains(s *esl.State, plan *esl.Plan, name string) {
	id := types.Resolve(s.Namespace, name)
	limits := make(map[types.Quantity][]string)
	for _, n := range openNodes(s, id) {
		if used := n.Used(id); taskset.Capacity(s, n, id) > used {
			limits[used] = append(limits[used], n.Name)
		}
	}
	setLimits(s, plan, name, limits)
	takeTurn(s, plan)
}

// slots returns how many waiting tasks each node of a domain gets, free in total: first where
// capacity is being made, then where there are slots already.
func (p *domain) slots(s *esl.State, id types.ResourceID, free int, c taskset.Set) map[string]int {
	out := make(map[string]int)
	for _, r := range p.rooms {
		n := min(free, int(p.made[r.Node.Name].Asked/esl.One))
		out[r.Node.Name] += n
		free -= n
	}
	has := func(r *esl.Room) int { return taskset.BoolInt(taskset.Capacity(s, r.Node, id) > r.Node.Used(id)) }
	rooms := p.clones()
	slices.SortStableFunc(rooms, func(a, b *esl.Room) int {
		return cmp.Or(cmp.Compare(has(b), has(a)), cmp.Compare(a.Node.Used(id), b.Node.Used(id)))
	})
	c.Put(rooms, free, func(r *esl.Room, n, _ int) { out[r.Node.Name] += n })
	return out
}

// clones returns copies of the rooms, for trials.
func (p *domain) clones() []*esl.Room {
	out := make([]*esl.Room, len(p.rooms))
	for i, r := range p.rooms {
		out[i] = r.Clone()
	}
	return out
}

// setLimits adds to a plan the capacity of a resource on nodes: see limitDomain.
func setLimits(s *esl.State, plan *esl.Plan, name string, limits map[types.Quantity][]string) {
	for _, q := range slices.Sorted(maps.Keys(limits)) {
		slices.Sort(limits[q])
		plan.Set = append(plan.Set, controlplane.Resource{Name: name, Capacity: q, Where: controlplane.OnNode(limits[q]...), Options: lifetimeOf(s)})
	}
}

// onEvery adds to a plan the capacity of a resource on every node, on the condition that it is
// unchanged.
func onEvery(s *esl.State, plan *esl.Plan, name string, capacity types.Quantity) {
	id := types.Resolve(s.Namespace, name)
	key := controlplane.ResourceKey(s.Namespace, name, types.EveryNode)
	mod := s.View.UnreadMod(key)
	if c := s.View.Everywhere[id]; c != nil {
		mod = c.Mod
	}
	plan.Set = append(plan.Set, controlplane.Resource{Name: name, Capacity: capacity, Where: controlplane.OnEvery(), Options: lifetimeOf(s)})
	plan.If = unchanged(s, plan.If, key, mod)
}

// onEveryNode returns how much of a resource every node has, except nodes with a key of their own.
func onEveryNode(s *esl.State, name string) types.Quantity {
	if c := s.View.Everywhere[types.Resolve(s.Namespace, name)]; c != nil {
		return c.V.Capacity
	}
	return 0
}

// counts names the first six domains, and how many are used in each.
func counts(parts []*domain) string {
	texts := make([]string, len(parts))
	for i, p := range parts {
		texts[i] = fmt.Sprintf("%s %d", p.name, p.used)
	}
	return words.List(texts, 6)
}

// lawOf returns the limit that allows most[i] in parts[i].
func lawOf(name string, over esl.Domain, parts []*domain, most []int) esl.Limit {
	l := esl.Limit{Name: name, Over: over, More: make(map[string]int, len(parts))}
	for i, p := range parts {
		l.More[p.name] = most[i] - p.used
	}
	return l
}
