package place

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/escher-sched/escher/controlplane"
	"github.com/escher-sched/escher/controlplane/cluster"
	"github.com/escher-sched/escher/esl"
	"github.com/escher-sched/escher/types"
)

// room is a field with capacity reserved for a task of the job, on one node at a time.
type room struct {
	*field
	own  string // the resource of the policy
	at   string // where capacity is being reserved
	held bool   // one of the resource is collected for it
}

const roomID = "j.preempt.0"

// make starts a reservation on a node that the policy allows, if any.
func (r *room) make(rnd *rand.Rand, l esl.Limit) {
	var may []string
	for name, n := range r.view.Nodes {
		if l.Name == "" || l.More[l.Over.Of(n)] > 0 {
			may = append(may, name)
		}
	}
	if slices.Sort(may); len(may) == 0 {
		return
	}
	r.at = may[rnd.IntN(len(may))]
	r.put(controlplane.ReservationKey("d", roomID), &types.Reservation{
		Job: "j", Collect: &types.Collect{On: []string{r.at}, HandOver: true},
		Bundles: []types.Bundle{{Node: r.at, Requests: types.NewRequests(map[string]types.Quantity{"cpu": 1000, r.own: esl.One})}},
	})
}

// collect takes one of the resource for the reservation, if it is free there.
func (r *room) collect() {
	rid := types.Resolve("d", r.own)
	if free, _ := r.view.Free(r.view.Nodes[r.at], rid); free < esl.One {
		return
	}
	r.held = true
	r.used[r.at]++
	r.allocate(r.at, r.own)
	at := r.view.Reservations[cluster.ID{Namespace: "d", ID: roomID}]
	r.put(controlplane.GrantKey("d", roomID), &types.Grant{
		Phase: types.Collecting, Reservation: at.Info.Create,
		Nodes: []types.GrantNode{{Node: r.at, Holds: []types.Holding{{Resource: rid, Amount: esl.One}}}},
	})
}

// over hands the reservation over to a task, if that much of the resource may be in use there, or
// else gives it up.
func (r *room) over(task string) (bound bool) {
	free, _ := r.view.Free(r.view.Nodes[r.at], types.Resolve("d", r.own))
	bound = r.held && free >= 0
	for _, key := range []string{controlplane.ReservationKey("d", roomID), controlplane.GrantKey("d", roomID)} {
		r.rev++
		if _, _, err := r.view.Apply(controlplane.Event{KV: controlplane.KV{Key: key, ModRevision: r.rev}, Delete: true}); err != nil {
			r.Fatal(err)
		}
	}
	r.view.Reached(r.rev)
	switch {
	case bound:
		r.put(controlplane.StatusKey("d", task), &types.Status{Phase: types.Running, Node: r.at, Attempt: 1})
	case r.held:
		r.used[r.at]--
		r.allocate(r.at, r.own)
	}
	r.at, r.held = "", false
	return bound
}

// TestSpreadExactBesideRoom is TestSpreadExact while capacity is reserved where the policy allows
// it, handed over to tasks, or given up: no rack or node ever has over one task more than another.
func TestSpreadExactBesideRoom(t *testing.T) {
	handed := make(map[esl.Domain]int)
	for seed := range uint64(240) {
		policy := Spread{Over: []esl.Domain{esl.Rack, esl.Node}[seed%2]}
		rnd := rand.New(rand.NewPCG(seed, 3))
		f := &room{field: newField(t), own: "j.spread"}
		const tasks, nodes = 12, 6
		for i := range nodes {
			f.node(fmt.Sprintf("n%d", i), fmt.Sprintf("r%d", i%3), types.Quantity(2+rnd.IntN(3))*1000)
		}
		f.put(controlplane.ResourceKey("d", f.own, types.EveryNode), &types.Resource{})
		for i := range tasks {
			f.task(fmt.Sprintf("t%02d", i), map[string]types.Quantity{"cpu": 1000, f.own: esl.One})
		}
		count, bound := make(map[string]int), 0
		var late []esl.Plan
		for range 600 {
			node, is, next := someNode(rnd, nodes), false, fmt.Sprintf("t%02d", min(bound, tasks-1))
			switch n := rnd.IntN(8); {
			case n == 0:
				f.disturb(rnd, nodes, f.own)
			case n < 3:
				if plan := policy.Next(f.state("spread")); len(late) < 2 && !plan.Nothing() {
					late = append(late, plan)
				}
			case n < 5:
				if len(late) > 0 {
					i := rnd.IntN(len(late))
					f.do(late[i])
					late = slices.Delete(late, i, i+1)
				}
			case bound == tasks:
			case n == 5 && f.at == "":
				f.make(rnd, policy.Opens(f.state("spread")))
			case n == 5 && !f.held:
				f.collect()
			case n == 5:
				node = f.at
				if is = f.over(next); is {
					handed[policy.Over]++
				}
			default:
				is = f.bind(next, node, f.own)
			}
			if !is {
				continue
			}
			bound++
			for _, n := range f.view.Nodes {
				count[policy.Over.Of(n)] += 0
			}
			count[policy.Over.Of(f.view.Nodes[node])]++
			if of := slices.Collect(maps.Values(count)); slices.Max(of) > slices.Min(of)+1 {
				t.Fatalf("seed %d, over %s: %v", seed, policy.Over, count)
			}
		}
	}
	if handed[esl.Rack] < 50 || handed[esl.Node] < 50 {
		t.Errorf("room was handed over only %v times", handed)
	}
}

// TestSpreadOpensWhereRoomIsMadeForAGang: a node that is full of other tasks gets the policy's
// resource while capacity is reserved there, or the reservation could never be complete.
func TestSpreadOpensWhereRoomIsMadeForAGang(t *testing.T) {
	for _, over := range []esl.Domain{esl.Node, esl.Rack} {
		f := newField(t)
		f.node("n0", "r0", 1000)
		f.node("n1", "r1", 1000)
		const own = "j.spread"
		for _, node := range []string{"n0", "n1"} {
			f.others[node] = 1000
			f.allocate(node, own)
			f.put(controlplane.ReservationKey("d", "j.preempt."+node), &types.Reservation{
				Job: "j", Collect: &types.Collect{On: []string{node}, HandOver: true},
				Bundles: []types.Bundle{{Node: node, Requests: types.NewRequests(map[string]types.Quantity{"cpu": 1000, own: esl.One})}},
			})
		}
		f.put(controlplane.ResourceKey("d", own, types.EveryNode), &types.Resource{})
		for _, id := range []string{"a", "b"} {
			f.task(id, map[string]types.Quantity{"cpu": 1000, own + "@j.lock": esl.One})
		}
		f.do(Spread{Over: over}.Next(f.state("spread")))
		for _, node := range []string{"n0", "n1"} {
			if free, _ := f.view.Free(f.view.Nodes[node], types.Resolve("d", own)); free != esl.One {
				t.Errorf("over %s: free on %s is %d", over, node, free)
			}
		}
	}
}
