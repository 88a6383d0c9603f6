package place

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/escher-sched/escher/controlplane"
	"github.com/escher-sched/escher/controlplane/cluster"
	"github.com/escher-sched/escher/esl"
	"github.com/escher-sched/escher/esl/taskset"
	"github.com/escher-sched/escher/types"
)

// Pack puts tasks on as few nodes as it can: bin packing. Nodes are opened one after the
// other, a further one only when what waits fits on none that has tasks already; and a
// node that is not needed for what waits takes nothing new, so that it becomes empty.
//
// It may be of one job, or shared: jobs then name it by Packed, and their tasks are
// packed together.
type Pack struct{}

// Kind is pack.
func (Pack) Kind() string { return "pack" }

// Apply has each task ask for one of a resource that Next makes on the nodes that are open.
func (p Pack) Apply(g *esl.Group) error {
	if err := checkExcludes(g, p.Kind(), "spread", "balance", ElasticBalance{}.Kind()); err != nil {
		return err
	}
	g.Steers()
	g.Make(g.Own(""), 0, controlplane.OnEvery())
	g.AskAll(g.Own(""), esl.One)
	return nil
}

// Declare makes the resource that tasks of all jobs ask for.
func (p Pack) Declare(id string) ([]esl.Set, error) {
	return []esl.Set{{Name: esl.OwnName(id, p.Kind(), ""), Where: controlplane.OnEvery(), Options: controlplane.SetOptions{Declare: true}}}, nil
}

// Next opens the nodes that what waits is to go to, and closes the others. If nothing
// waits, the fullest that has room for another task stays open.
func (p Pack) Next(s *esl.State) esl.Plan {
	name := s.Own("")
	c := taskset.Of(s, name)
	id := types.Resolve(s.Namespace, name)
	plan := esl.Plan{Reason: "nodes to be filled", RequeueAfter: c.Next}
	want := p.targets(s, id, c)
	var on, off []string
	for _, n := range openNodes(s, id) {
		if !want[n.Name] {
			off = append(off, n.Name)
		}
		delete(want, n.Name)
	}
	for n := range want {
		on = append(on, n)
	}
	slices.Sort(on)
	setOn(s, &plan, name, types.Inf, on, off)
	return plan
}

// Opens says that room may be made on any node.
func (Pack) Opens(s *esl.State) esl.Limit { return esl.Limit{Name: s.Own("")} }

// targets returns the nodes that are to be open.
func (p Pack) targets(s *esl.State, id types.ResourceID, c taskset.Set) map[string]bool {
	want := make(map[string]bool)
	if len(c.Waiting)+len(c.Held) == 0 {
		return want
	}
	for node := range taskset.ReservedFor(s, s.Own("")) {
		want[node] = true
	}
	for _, node := range collectedFor(s, c, s.Own("")) {
		want[node] = true // where it has some of it, which it could have nowhere else
	}
	rooms := s.Rooms()
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
	// The large first: the small fit into what these leave.
	c.Shapes = slices.Clone(c.Shapes)
	slices.SortStableFunc(c.Shapes, func(a, b *taskset.Shape) int { return compareSize(b.All[0], a.All[0]) })
	c.Put(rooms, math.MaxInt, func(r *esl.Room, _, _ int) { want[r.Node.Name] = true })
	return want
}

// collectedFor returns the nodes where something is collected for what waits.
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

// order orders nodes by which is filled first: where most of the tasks are; then those
// that are open; then where the least is free of what they ask for.
func (p Pack) order(s *esl.State, id types.ResourceID, c taskset.Set, rooms []*esl.Room) {
	free := make(map[*esl.Room]types.Quantity, len(rooms)) // for how many it would be enough
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

// compareSize orders by how much is asked for, resource by resource: devices before cpu
// before memory.
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

// ClusterScoped tells that what is free changes with what others do.
func (Pack) ClusterScoped() {}

// Pace is how often it looks at most: what waits is seen to as a whole.
func (Pack) Pace() time.Duration { return widePace }

// Why says which nodes are open.
func (p Pack) Why(s *esl.State, task string) string {
	t, ok := taskset.Waits(s, task)
	if !ok {
		return ""
	}
	name := s.Own("")
	if taskset.DrawnFrom(t, name+"@") != "" || !taskset.Ready(s, t.Info.V, func(x string) bool { return x == name }) {
		return "" // it waits with others, or for something else
	}
	ways := taskset.AlternativesOf(s, t, name)
	for _, r := range s.Rooms() {
		if ways.Fits(r) {
			return "pack: a node with room for it is about to be opened"
		}
	}
	return fmt.Sprintf("pack: %d nodes have tasks of it, and neither these nor any other has room for this one", len(packedNodes(s, name)))
}

// packedNodes returns the nodes that have some of a resource in use.
func packedNodes(s *esl.State, name string) []*cluster.Node {
	id := types.Resolve(s.Namespace, name)
	return slices.DeleteFunc(s.Nodes(), func(n *cluster.Node) bool { return n.Used(id) == 0 })
}

// Packed has the tasks of a job packed together with those of others that name the same
// Pack.
type Packed struct {
	// In is the id that it was declared under.
	In string `json:"in" desc:"the name of the pack" is:"name"`
}

// Kind is packed.
func (Packed) Kind() string { return "packed" }

// Shared is the id of the Pack.
func (p Packed) Shared() string { return p.In }

// Apply has each task ask for one of the resource of all.
func (p Packed) Apply(g *esl.Group) error {
	if err := shares[Pack](g, p.In); err != nil {
		return err
	}
	g.Steers()
	g.AskAll(esl.OwnName(p.In, Pack{}.Kind(), ""), esl.One)
	return nil
}

// Opens says that room may be made on any node.
func (p Packed) Opens(*esl.State) esl.Limit {
	return esl.Limit{Name: esl.OwnName(p.In, Pack{}.Kind(), "")}
}

// Why says what the shared policy does.
func (p Packed) Why(s *esl.State, task string) string {
	return Pack{}.Why(s.OfShared(p.In, Pack{}.Kind()), task)
}
