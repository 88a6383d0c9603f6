package place

import (
	"cmp"
	"math"
	"slices"
	"time"

	"github.com/escher-sched/escher/controlplane"
	"github.com/escher-sched/escher/controlplane/cluster"
	"github.com/escher-sched/escher/controlplane/why"
	"github.com/escher-sched/escher/esl"
	"github.com/escher-sched/escher/esl/taskset"
	"github.com/escher-sched/escher/types"
)

// Pack puts tasks on as few nodes as it can: bin packing. It opens nodes one after the other, the
// next one only when a waiting task fits on none that has tasks. A node not needed for waiting
// tasks takes no new ones, so that it becomes empty.
//
// It belongs to one job, or is shared: the tasks of all jobs that use it are packed together.
type Pack struct{}

// Kind returns pack.
func (Pack) Kind() string { return "pack" }

// Describe says what the policy does, and its flags.
func (Pack) Describe() esl.Description {
	return esl.Description{Does: "tasks use as few nodes as possible", OneByOne: true, Flags: []esl.Flag{{Name: "pack", Usage: "use as few nodes as possible"}}}
}

// Apply makes each task request one of a resource that Next creates on the open nodes.
func (p Pack) Apply(g *esl.Group) error {
	g.Make(g.Own(""), 0, controlplane.OnEvery())
	return p.ask(g, g.Own(""))
}

// ask makes each task request one of the resource.
func (Pack) ask(g *esl.Group, name string) error {
	g.OnFew()
	g.Steers()
	g.AskAll(name, esl.One)
	return nil
}

// Declare returns the resource that tasks of all jobs request.
func (p Pack) Declare(id string) ([]controlplane.Resource, error) {
	return []controlplane.Resource{{Name: esl.OwnName(id, p.Kind(), ""), Where: controlplane.OnEvery(), Options: controlplane.SetOptions{Declare: true}}}, nil
}

// Next opens the nodes for waiting tasks, and closes the others. If no task waits, the fullest node
// where another task fits stays open.
func (p Pack) Next(s *esl.State) esl.Plan {
	name := s.Own("")
	c := taskset.Of(s, name)
	c.Seek(s, name, "", nil)
	id := types.Resolve(s.Namespace, name)
	plan := esl.Plan{Reason: "nodes to be filled", RequeueAfter: c.Next, Idle: "the nodes to be filled are open"}
	want := p.targets(s, id, c)
	open(s, &plan, name, types.Inf, false, func(n *cluster.Node) bool { return want[n.Name] })
	return plan
}

// Opens allows capacity to be made on any node.
func (Pack) Opens(s *esl.State) esl.Limit { return esl.Limit{Name: s.Own("")} }

// targets returns the nodes to open.
func (p Pack) targets(s *esl.State, id types.ResourceID, c taskset.Set) map[string]bool {
	want := make(map[string]bool)
	if len(c.Waiting)+len(c.Held) == 0 {
		return want
	}
	for node := range taskset.ReservedFor(s, s.Own("")) {
		want[node] = true
	}
	for _, node := range collectedFor(s, c, s.Own("")) {
		want[node] = true // a part of the gang holds capacity there
	}
	order, _ := c.Rank()
	rooms := s.LeftRooms(order)
	if len(c.Waiting) == 0 {
		rooms = slices.DeleteFunc(rooms, func(r *esl.Room) bool { return r.Node.Used(id) == 0 })
	}
	p.order(s, id, c, rooms)
	if len(c.Waiting) == 0 {
		for _, r := range rooms {
			if slices.ContainsFunc(c.Shapes, func(x *taskset.Shape) bool { return x.Fits(r) }) {
				want[r.Node.Name] = true
				break
			}
		}
		return want
	}
	// Large tasks come first, and small ones fit into the rest.
	c.Shapes = slices.Clone(c.Shapes)
	slices.SortStableFunc(c.Shapes, func(a, b *taskset.Shape) int { return compareSize(b.All[0], a.All[0]) })
	c.Put(rooms, math.MaxInt, func(r *esl.Room, _, _ int) { want[r.Node.Name] = true })
	return want
}

// collectedFor returns the nodes where capacity is reserved for waiting tasks.
func collectedFor(s *esl.State, c taskset.Set, own string) (nodes []string) {
	last := ""
	for _, t := range c.Waiting {
		id := taskset.DrawnFrom(t, own+"@")
		if r := s.Reservation(id); id != last && taskset.Locked(r) && r.Current() {
			for _, at := range r.Grant.V.Nodes {
				if n := s.View.Nodes[at.Node]; n != nil && n.Eligible() {
					nodes = append(nodes, at.Node)
				}
			}
		}
		last = id
	}
	return nodes
}

// order sorts nodes by which is filled first: those with the most of the tasks; then open ones;
// then those with the least free capacity for the tasks.
func (p Pack) order(s *esl.State, id types.ResourceID, c taskset.Set, rooms []*esl.Room) {
	free := make(map[*esl.Room]types.Quantity, len(rooms)) // for how many tasks it is enough
	for _, r := range rooms {
		for _, x := range c.Shapes {
			for _, need := range x.All[0] {
				if q, ok := r.Free(need.ID); ok && q != types.Inf {
					free[r] += q / max(need.Amount, 1)
				}
			}
		}
	}
	slices.SortStableFunc(rooms, func(a, b *esl.Room) int {
		return cmp.Or(
			cmp.Compare(b.Node.Used(id), a.Node.Used(id)),
			cmp.Compare(taskset.Capacity(s, b.Node, id), taskset.Capacity(s, a.Node, id)),
			cmp.Compare(free[a], free[b]),
		)
	})
}

// compareSize compares requests resource by resource: GPUs, CPU, memory, disk.
func compareSize(a, b []cluster.Need) int {
	for _, id := range []types.ResourceID{types.GPU, types.CPU, types.Memory, types.Disk} {
		if c := cmp.Compare(amountOf(a, id), amountOf(b, id)); c != 0 {
			return c
		}
	}
	return 0
}

func amountOf(needs []cluster.Need, id types.ResourceID) types.Quantity {
	for _, x := range needs {
		if x.ID == id {
			return x.Amount
		}
	}
	return 0
}

// ClusterScoped is set: free capacity changes with other jobs.
func (Pack) ClusterScoped() {}

// Pace bounds how often Next is called: one call handles all waiting tasks.
func (Pack) Pace() time.Duration { return widePace }

// Why says why no open node takes a task.
func (p Pack) Why(s *esl.State, task string) why.Reason {
	t, ok := taskset.Waits(s, task)
	if !ok {
		return why.Reason{}
	}
	name := s.Own("")
	if taskset.DrawnFrom(t, name+"@") != "" || !taskset.Ready(s, t.Info.V, func(x string) bool { return x == name }) {
		return why.Reason{} // it waits with a gang, or for something else
	}
	ways := taskset.AlternativesOf(s, t, name)
	for _, r := range s.Rooms() {
		if ways.Fits(r) {
			return why.Say(why.Place, "pack: a node with room for it is about to be opened")
		}
	}
	return why.Say(why.Place, "pack: no node has room for it: neither those with tasks of its job (%d) nor others", len(packedNodes(s, name)))
}

// packedNodes returns the nodes that have some of a resource in use.
func packedNodes(s *esl.State, name string) []*cluster.Node {
	id := types.Resolve(s.Namespace, name)
	return slices.DeleteFunc(s.Nodes(), func(n *cluster.Node) bool { return n.Used(id) == 0 })
}

// Use makes each task request one of the shared resource.
func (p Pack) Use(g *esl.Group, u esl.Use) error {
	if err := u.Only(p.Kind()); err != nil {
		return err
	}
	return p.ask(g, esl.OwnName(u.Name, p.Kind(), ""))
}

// OpensFor allows capacity to be made on any node.
func (p Pack) OpensFor(_ *esl.State, u esl.Use) esl.Limit {
	return esl.Limit{Name: esl.OwnName(u.Name, p.Kind(), "")}
}
