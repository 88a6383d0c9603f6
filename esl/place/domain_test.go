package place

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/escher-sched/escher/controlplane"
	"github.com/escher-sched/escher/controlplane/cluster"
	"github.com/escher-sched/escher/esl"
	"github.com/escher-sched/escher/types"
)

// field is a cluster of keys, on which the test commits plans and binds tasks by hand.
type field struct {
	*testing.T
	view *cluster.View
	rev  int64
	mods map[string]int64
	used map[string]int // of the policy's resource, by node
	// others is the cpu that other tasks use, by node.
	others map[string]types.Quantity
}

func newField(t *testing.T) *field {
	return &field{T: t, view: cluster.New(), mods: make(map[string]int64), used: make(map[string]int), others: make(map[string]types.Quantity)}
}

func (f *field) put(key string, m types.Message) {
	f.Helper()
	f.rev++
	create := f.rev
	f.mods[key] = f.rev
	if _, _, err := f.view.Apply(controlplane.Event{KV: controlplane.KV{Key: key, Value: types.Encode(1, m), ModRevision: f.rev, CreateRevision: create}}); err != nil {
		f.Fatal(err)
	}
	f.view.Reached(f.rev)
}

func (f *field) node(name, rack string, cpu types.Quantity) {
	f.put(controlplane.NodeKey(name), &types.Node{Capacity: types.NewRequests(map[string]types.Quantity{"cpu": cpu}), Labels: []types.Label{{Name: "rack", Value: rack}}})
	f.put(controlplane.AliveKey(name), &types.Alive{})
}

func (f *field) task(id string, requests map[string]types.Quantity) {
	f.put(controlplane.TaskKey("d", id), &types.Task{Name: "t", Job: "j", Requests: types.NewRequests(requests)})
}

// bind binds a task to a node, if the policy's resource and cpu are free there.
func (f *field) bind(id, node, own string) bool {
	n := f.view.Nodes[node]
	rid := types.Resolve("d", own)
	free, _ := f.view.Free(n, rid)
	cpu, _ := f.view.Free(n, types.CPU)
	if free < esl.One || cpu < 1000 {
		return false
	}
	f.used[node]++
	f.allocate(node, own)
	f.put(controlplane.StatusKey("d", id), &types.Status{Phase: types.Running, Node: node, Attempt: 1})
	return true
}

// allocate stores what is in use on a node.
func (f *field) allocate(node, own string) {
	n := types.Quantity(f.used[node])
	var a types.Allocated
	a.Take(types.Holding{Resource: types.CPU, Amount: n*1000 + f.others[node]})
	a.Take(types.Holding{Resource: types.Resolve("d", own), Amount: n * esl.One})
	f.put(controlplane.AllocatedKey(node), &a)
}

// disturb makes other tasks take, or give back, cpu of some node.
func (f *field) disturb(rnd *rand.Rand, nodes int, own string) {
	node := someNode(rnd, nodes)
	f.others[node] = types.Quantity(rnd.IntN(4)) * 1000
	f.allocate(node, own)
}

// someNode returns a node, more often one of the first rack.
func someNode(rnd *rand.Rand, nodes int) string {
	if rnd.IntN(10) < 6 {
		return fmt.Sprintf("n%d", 3*rnd.IntN(2))
	}
	return fmt.Sprintf("n%d", rnd.IntN(nodes))
}

// do commits a plan, unless one of its conditions has changed.
func (f *field) do(plan esl.Plan) bool {
	for key, mod := range plan.If {
		if f.mods[key] != mod {
			return false
		}
	}
	for _, s := range plan.Set {
		r := types.Resource{Capacity: s.Capacity, Lifetime: s.Options.Lifetime, Owner: s.Options.Owner}
		switch {
		case s.Where.Cluster:
			f.put(controlplane.ResourceKey("d", s.Name, types.ClusterWide), &r)
		case len(s.Where.Nodes) == 0:
			f.put(controlplane.ResourceKey("d", s.Name, types.EveryNode), &r)
		}
		for _, name := range s.Where.Nodes {
			own := r
			own.NodeSession = f.view.Nodes[name].Session()
			f.put(controlplane.ResourceKey("d", s.Name, name), &own)
		}
	}
	return true
}

func (f *field) state(label string) *esl.State {
	return &esl.State{View: f.view, Now: time.Unix(1e9, 0), Namespace: "d", ID: "j", Job: "j", Label: label}
}

// TestSpreadExact runs two planners at random moments, with late commits, and binds tasks to any
// node that takes one: no rack ever has over one task more than another.
func TestSpreadExact(t *testing.T) {
	for seed := range uint64(240) {
		policy := Spread{Over: []esl.Domain{esl.Rack, esl.Node}[seed%2]}
		rnd := rand.New(rand.NewPCG(seed, 1))
		f := newField(t)
		const tasks = 12
		for i := range 6 {
			f.node(fmt.Sprintf("n%d", i), fmt.Sprintf("r%d", i%3), types.Quantity(2+rnd.IntN(3))*1000)
		}
		own := "j.spread"
		f.put(controlplane.ResourceKey("d", own, types.EveryNode), &types.Resource{})
		for i := range tasks {
			f.task(fmt.Sprintf("t%02d", i), map[string]types.Quantity{"cpu": 1000, own: esl.One})
		}
		count := make(map[string]int)
		bound := 0
		var late []esl.Plan
		for range 400 {
			switch rnd.IntN(5) {
			case 4:
				f.disturb(rnd, 6, own)
			case 0:
				if plan := policy.Next(f.state("spread")); len(late) < 2 && !plan.Nothing() {
					late = append(late, plan)
				}
			case 1:
				if len(late) > 0 {
					i := rnd.IntN(len(late))
					f.do(late[i])
					late = append(late[:i], late[i+1:]...)
				}
			default:
				node := someNode(rnd, 6)
				if bound == tasks || !f.bind(fmt.Sprintf("t%02d", bound), node, own) {
					continue
				}
				bound++
				count[policy.Over.Of(f.view.Nodes[node])]++
				low, high := bound, 0
				for _, n := range f.view.Nodes {
					d := policy.Over.Of(n)
					low, high = min(low, count[d]), max(high, count[d])
				}
				if high > low+1 {
					t.Fatalf("seed %d, over %s: %v", seed, policy.Over, count)
				}
			}
		}
		if bound == 0 {
			t.Errorf("seed %d: %d of %d are bound", seed, bound, tasks)
		}
	}
}

// TestOneNodeExact is the same for co-location, and for balance on one node: no task is ever bound
// to another node than the others.
func TestOneNodeExact(t *testing.T) {
	for seed := range uint64(400) {
		policy := []esl.Controller{Colocate{}, Balance{Nodes: 1}}[seed%2]
		rnd := rand.New(rand.NewPCG(seed, 2))
		f := newField(t)
		const nodes = 4
		for i := range nodes {
			f.node(fmt.Sprintf("n%d", i), "r", 4000)
		}
		own := "j." + policy.Kind()
		f.put(controlplane.ResourceKey("d", own, types.EveryNode), &types.Resource{})
		for i := range 3 {
			f.task(fmt.Sprintf("t%d", i), map[string]types.Quantity{"cpu": 1000, own: esl.One})
		}
		at, bound := "", 0
		var late []esl.Plan
		for range 200 {
			switch rnd.IntN(5) {
			case 0:
				if plan := policy.Next(f.state(policy.Kind())); len(late) < 2 && !plan.Nothing() {
					late = append(late, plan)
				}
			case 1:
				if len(late) > 0 {
					i := rnd.IntN(len(late))
					f.do(late[i])
					late = append(late[:i], late[i+1:]...)
				}
			case 2: // others come and go
				f.disturb(rnd, nodes, own)
			default:
				node := fmt.Sprintf("n%d", rnd.IntN(nodes))
				if bound == 3 || !f.bind(fmt.Sprintf("t%d", bound), node, own) {
					continue
				}
				if bound++; at != "" && at != node {
					t.Fatalf("%s, seed %d: on %s, and on %s", policy.Kind(), seed, at, node)
				}
				at = node
			}
		}
		if bound == 0 {
			t.Errorf("%s, seed %d: none is bound", policy.Kind(), seed)
		}
	}
}
