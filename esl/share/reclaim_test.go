package share

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/escher-sched/escher/controlplane"
	"github.com/escher-sched/escher/controlplane/cluster"
	"github.com/escher-sched/escher/controlplane/manifest"
	"github.com/escher-sched/escher/e2e/viewtest"
	"github.com/escher-sched/escher/esl"
	"github.com/escher-sched/escher/types"
)

// shared is a cluster of nodes of four cores, n1 and so on, that users share. Each of running is
// "id user node quarters-of-a-core seconds", and " ends" for a task that is leaving; the user "-" has
// none of the policy. Each of waiting is "id user quarters-of-a-core", "id user 8+8" for a gang.
func shared(t *testing.T, nodes int, running, waiting []string) *esl.State {
	t.Helper()
	const now = 1000
	b := viewtest.NewBench(t, 0)
	used, drawn := make(map[string]*types.Allocated), make(map[types.ResourceID]types.Quantity)
	users := make(map[string]bool)
	requests := func(user string, quarters int) types.Requests {
		q := types.NewRequests(map[string]types.Quantity{"cpu": types.Quantity(quarters) * 250})
		if user == "-" {
			return q
		}
		if !users[user] {
			users[user] = true
			p, err := esl.Stored(esl.Use{Name: "s", As: user})
			if err != nil {
				t.Fatal(err)
			}
			b.Put(controlplane.PoliciesKey("d", user), &types.Policies{Job: user, Policies: []types.Policy{p}})
			b.Put(controlplane.JobKey("d", user), &types.Job{Name: user})
		}
		q, _ = covered(esl.Use{Name: "s", As: user}, q, []string{"cpu"})
		return q
	}
	for _, text := range running {
		var id, user, node, ends string
		var quarters, seconds int
		if n, _ := fmt.Sscan(text, &id, &user, &node, &quarters, &seconds, &ends); n < 5 {
			t.Fatalf("%q", text)
		}
		q := types.Quantity(quarters) * 250
		task := &types.Task{Requests: requests(user, quarters)}
		if user != "-" {
			task.Job = user
			drawn[types.Resolve("d", sharePool("s", user, "cpu"))] += q
		}
		if ends != "" {
			task.Evict = 1
		}
		bound := int64(now-seconds) * int64(time.Second)
		h := types.Holding{Resource: types.CPU, Amount: q}
		b.Put(controlplane.TaskKey("d", id), task)
		b.Put(controlplane.StatusKey("d", id), &types.Status{Phase: types.Running, Attempt: 1, Node: node, Bound: bound})
		b.Put(controlplane.BindingKey(node, "d", id, 1), &types.Binding{Holds: []types.Holding{h}, Bound: bound})
		if used[node] == nil {
			used[node] = &types.Allocated{}
		}
		used[node].Take(h)
	}
	for i, text := range waiting {
		var id, user, asks string
		if _, err := fmt.Sscan(text, &id, &user, &asks); err != nil {
			t.Fatal(err)
		}
		var bundles []types.Bundle
		for each := range strings.SplitSeq(asks, "+") {
			var quarters int
			if _, err := fmt.Sscan(each, &quarters); err != nil {
				t.Fatal(err)
			}
			bundles = append(bundles, types.Bundle{Requests: requests(user, quarters)})
		}
		if len(bundles) == 1 {
			b.Put(controlplane.TaskKey("d", id), &types.Task{Job: user, Requests: bundles[0].Requests, Submitted: int64(1 + i)})
		} else {
			b.Put(controlplane.TaskKey("d", id), &types.Task{Job: user, Requests: types.NewRequests(map[string]types.Quantity{"none": 1}), Submitted: int64(1 + i)})
			b.Put(controlplane.ReservationKey("d", id), &types.Reservation{Job: user, Bundles: bundles, Submitted: int64(1 + i)})
		}
	}
	putShared(b, nodes, users, used, drawn)
	return &esl.State{View: b.View, Now: time.Unix(now, 0), Namespace: "d", ID: "s", Label: "fair-share", Kinds: testKinds()}
}

// putShared puts the pools of users, and the nodes, with what is in use of both.
func putShared(b *viewtest.Bench, nodes int, users map[string]bool, used map[string]*types.Allocated, drawn map[types.ResourceID]types.Quantity) {
	for user := range users {
		pool := types.Resolve("d", sharePool("s", user, "cpu"))
		b.Put(controlplane.ResourceKey("d", sharePool("s", user, "cpu"), types.ClusterWide), &types.Resource{Capacity: types.Quantity(nodes) * 4000})
		if drawn[pool] > 0 {
			b.Put(controlplane.PoolKey("d", sharePool("s", user, "cpu")), &types.Allocated{Holds: []types.Holding{{Resource: pool, Amount: drawn[pool], Cluster: true}}})
		}
	}
	for i := range nodes {
		name := fmt.Sprintf("n%d", i+1)
		b.Put(controlplane.NodeKey(name), &types.Node{Capacity: types.NewRequests(map[string]types.Quantity{"cpu": 4000})})
		b.Put(controlplane.AliveKey(name), &types.Alive{TTLSeconds: 15})
		if used[name] != nil {
			b.Put(controlplane.AllocatedKey(name), used[name])
		}
	}
	b.View.Reached(b.Revision)
}

// TestReclaimNoMoreThanNeeded checks which tasks are evicted for others that have waited long enough:
// none without which those fit, and none if they fit when the leaving tasks have ended.
func TestReclaimNoMoreThanNeeded(t *testing.T) {
	for name, test := range map[string]struct {
		nodes            int
		running, waiting []string
		evicted          string
	}{
		"the youngest":               {1, []string{"a1 a n1 4 40", "a2 a n1 4 30", "a3 a n1 4 20", "a4 a n1 4 35"}, []string{"b1 b 4"}, "a3"},
		"as many as it takes":        {1, []string{"a1 a n1 8 40", "a2 a n1 4 30", "a3 a n1 4 20"}, []string{"b1 b 8"}, "a2 a3"},
		"a small one that is not it": {1, []string{"a1 a n1 8 40", "a2 a n1 7 30", "a3 a n1 1 20"}, []string{"b1 b 7"}, "a2"},
		"none in part":               {1, []string{"a1 a n1 15 40", "a3 a n1 1 20"}, []string{"b1 b 7"}, ""},
		"what is free counts":        {1, []string{"a1 a n1 4 40", "a2 a n1 4 30", "a3 a n1 4 20"}, []string{"b1 b 4", "b2 b 4"}, "a3"},
		"what is free is enough":     {2, []string{"a1 a n1 12 40", "a2 a n2 12 30"}, []string{"b1 b 4"}, ""},
		"what ends is enough":        {1, []string{"a1 a n1 4 40", "a2 a n1 4 30", "a3 a n1 4 20", "a4 a n1 4 35 ends"}, []string{"b1 b 4"}, ""},
		"what ends counts":           {1, []string{"a1 a n1 4 40", "a2 a n1 4 30", "a3 a n1 4 20", "a4 a n1 4 35 ends"}, []string{"b1 b 4", "b2 b 4"}, "a3"},
		"what others end":            {1, []string{"a1 a n1 4 40", "a2 a n1 4 30", "a3 a n1 4 20", "x - n1 4 50 ends"}, []string{"b1 b 4"}, ""},
		"on one node": {
			2, []string{"a1 a n1 4 50", "a2 a n1 4 20", "a3 a n1 8 90", "a4 a n2 4 30", "a5 a n2 4 25", "a6 a n2 8 90"}, []string{"b1 b 8"}, "a4 a5",
		},
		"on one node, of equals": {
			2, []string{"a1 a n1 4 50", "a2 a n1 4 20", "a3 a n1 4 60", "a7 a n1 4 70", "a4 a n2 4 30", "a5 a n2 4 25", "a6 a n2 4 90", "a8 a n2 4 95"}, []string{"b1 b 8"}, "a4 a5",
		},
		"on a node where one ends": {
			2, []string{"a1 a n1 4 50", "a2 a n1 4 20", "a3 a n1 4 60", "a7 a n1 4 70 ends", "a4 a n2 4 30", "a5 a n2 4 25", "a6 a n2 4 90", "a8 a n2 4 95"}, []string{"b1 b 8"}, "a2",
		},
		"for a gang": {
			2, []string{"a1 a n1 4 50", "a2 a n1 4 20", "a3 a n1 8 60", "a4 a n2 4 30", "a5 a n2 4 25", "a6 a n2 8 90"}, []string{"g b 8+4"}, "a2 a4 a5",
		},
		"not those below their share": {
			2, []string{"a1 a n1 4 50", "a2 a n1 4 50", "c1 c n1 8 20", "a3 a n2 8 60", "a4 a n2 8 70"}, []string{"b1 b 8"}, "a3",
		},
		"none below it by what ends": {
			1, []string{"a1 a n1 4 40", "a2 a n1 4 30", "a3 a n1 4 20 ends", "a4 a n1 4 35 ends"}, []string{"b1 b 4", "c1 c 4", "b2 b 4"}, "",
		},
	} {
		t.Run(name, func(t *testing.T) {
			s := shared(t, test.nodes, test.running, test.waiting)
			p := FairShare{Anyone: 1, Over: []string{"cpu"}, Reclaim: manifest.Duration(10 * time.Second)}
			c := p.census(s)
			c.tree.shareOut(c.capacity)
			c.seeking = c.waitingTasks()
			var got []string
			for _, e := range c.reclaim(c.targets()).Evict {
				got = append(got, e.Task)
			}
			slices.Sort(got)
			if strings.Join(got, " ") != test.evicted {
				t.Errorf("evicted are %q, want %q", got, test.evicted)
			}
		})
	}
}

// TestEnough checks which attempts leave a node for a reservation: no more than needed, and none if
// all are not enough.
func TestEnough(t *testing.T) {
	for _, test := range []struct {
		running []string
		lacking types.Quantity // quarters of a core
		want    string
	}{
		{[]string{"t1 a n1 1 10", "t2 a n1 2 20", "t3 a n1 3 30"}, 2, "[t2]"},
		{[]string{"t1 a n1 1 10", "t2 a n1 1 20", "t3 a n1 2 30"}, 3, "[t1 t3]"},
		{[]string{"t1 a n1 1 10", "t2 a n1 2 20"}, 4, "[]"},
		{[]string{"t1 a n1 1 10", "t2 a n1 2 20"}, 0, "[]"},
	} {
		all := shared(t, 1, test.running, nil).View.Nodes["n1"].Bindings
		slices.SortFunc(all, func(a, b *cluster.Binding) int { return strings.Compare(a.Task.ID.ID, b.Task.ID.ID) })
		lacking := make(map[types.ResourceID]types.Quantity)
		if test.lacking > 0 {
			lacking[types.CPU] = test.lacking * 250
		}
		got := []string{}
		for _, b := range enough(all, lacking) {
			got = append(got, b.Task.ID.ID)
		}
		slices.Sort(got)
		if fmt.Sprint(got) != test.want {
			t.Errorf("%v of %v for %d, want %s", got, test.running, test.lacking, test.want)
		}
	}
}
