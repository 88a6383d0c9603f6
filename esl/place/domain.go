package place

import (
	"cmp"
	"math"
	"slices"
	"strings"

	"github.com/escher-sched/escher/controlplane/cluster"
	"github.com/escher-sched/escher/esl"
	"github.com/escher-sched/escher/esl/taskset"
	"github.com/escher-sched/escher/types"
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
	type member struct {
		*cluster.Node
		of string
	}
	all := make([]member, 0, len(s.View.Nodes))
	for _, n := range s.View.Nodes {
		if of := in.Of(n); of != "" {
			all = append(all, member{n, of})
		}
	}
	slices.SortFunc(all, func(a, b member) int {
		return cmp.Or(strings.Compare(a.of, b.of), strings.Compare(a.Name, b.Name))
	})
	nodes, rooms, parts := make([]*cluster.Node, len(all)), make([]*esl.Room, 0, len(all)), make([]domain, len(all))
	made := taskset.ReservedFor(s, id.In(s.Namespace))
	order, _ := c.Rank()
	var out []*domain
	for i := 0; i < len(all); {
		p := &parts[i]
		p.name, p.made = all[i].of, made
		first, from, large := i, len(rooms), false
		for ; i < len(all) && all[i].of == p.name; i++ {
			n := all[i].Node
			nodes[i] = n
			p.used += int((n.Used(id) - made[n.Name].Held) / esl.One)
			if !n.Eligible() {
				continue
			}
			r := s.Left(n, order)
			rooms = append(rooms, r)
			large = large || slices.ContainsFunc(c.Shapes, func(x *taskset.Shape) bool { return x.EverFits(r) })
		}
		p.nodes, p.rooms = nodes[first:i:i], rooms[from:len(rooms):len(rooms)]
		if large {
			out = append(out, p)
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

// slots returns how many waiting tasks each node of a domain gets, free in total: first where
// capacity is being made, then where there are slots already.
func (l *limits) slots(p *domain, free int) map[string]int {
	out := make(map[string]int)
	for _, r := range p.rooms {
		n := min(free, int(p.made[r.Node.Name].Asked/esl.One))
		out[r.Node.Name] += n
		free -= n
	}
	has := func(r *esl.Room) int { return taskset.BoolInt(taskset.Capacity(l.s, r.Node, l.id) > r.Node.Used(l.id)) }
	rooms := p.clones()
	slices.SortStableFunc(rooms, func(a, b *esl.Room) int {
		return cmp.Or(cmp.Compare(has(b), has(a)), cmp.Compare(a.Node.Used(l.id), b.Node.Used(l.id)))
	})
	l.tasks.Put(rooms, free, func(r *esl.Room, n, _ int) { out[r.Node.Name] += n })
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
