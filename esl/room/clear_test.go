package room

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/escher-sched/escher/controlplane"
	"github.com/escher-sched/escher/controlplane/cluster"
	"github.com/escher-sched/escher/esl"
	"github.com/escher-sched/escher/types"
)

// occupied is a cluster of three nodes, n1 to n3, of four cores, with tasks: each is "id node cores
// priority began", and " job" for one of a job with a reservation.
func occupied(t *testing.T, tasks ...string) *esl.State {
	t.Helper()
	v := cluster.New()
	revision := int64(0)
	put := func(key string, m types.Message) {
		revision++
		if _, _, err := v.Apply(controlplane.Event{KV: controlplane.KV{Key: key, ModRevision: revision, CreateRevision: revision, Value: types.Encode(1, m)}}); err != nil {
			t.Fatal(err)
		}
	}
	used := make(map[string]*types.Allocated)
	grants := make(map[string]*types.Grant)
	for i, text := range tasks {
		var id, node, job string
		var cores, priority, began int
		if n, _ := fmt.Sscan(text, &id, &node, &cores, &priority, &began, &job); n < 5 {
			t.Fatalf("tasks[%d]: %q", i, text)
		}
		h := types.Holding{Resource: types.CPU, Amount: types.Quantity(cores) * 1000}
		if used[node] == nil {
			used[node] = &types.Allocated{}
		}
		used[node].Take(h)
		if job != "" {
			if grants[job] == nil {
				grants[job] = &types.Grant{Phase: types.Granted}
			}
			grants[job].Nodes = append(grants[job].Nodes, types.GrantNode{Node: node, Holds: []types.Holding{h}})
			h.Resource = h.Resource.Scope("d", job+".gang")
		}
		put(controlplane.TaskKey("d", id), &types.Task{Job: job, Priority: priority})
		put(controlplane.StatusKey("d", id), &types.Status{Phase: types.Running, Node: node, Attempt: 1, Started: int64(began) * int64(time.Second)})
		put(controlplane.BindingKey(node, "d", id, 1), &types.Binding{Holds: []types.Holding{h}})
	}
	for job, g := range grants {
		slices.SortFunc(g.Nodes, func(a, b types.GrantNode) int { return strings.Compare(a.Node, b.Node) })
		owner := job
		if job == "hand" {
			owner = ""
		}
		put(controlplane.ReservationKey("d", job+".gang"), &types.Reservation{Job: owner})
		g.Reservation = revision
		put(controlplane.GrantKey("d", job+".gang"), g)
	}
	for _, name := range []string{"n1", "n2", "n3"} {
		put(controlplane.NodeKey(name), &types.Node{Capacity: types.NewRequests(map[string]types.Quantity{"cpu": 4000})})
		put(controlplane.AliveKey(name), &types.Alive{TTLSeconds: 15})
		if used[name] != nil {
			put(controlplane.AllocatedKey(name), used[name])
		}
	}
	v.Reached(revision)
	return &esl.State{View: v, Now: time.Unix(1000, 0), Namespace: "d", ID: "high", Job: "high", Label: Preempt{}.Kind(), Kinds: esl.Kinds{}.With(func() esl.Policy { return Preempt{} }, func() esl.Policy { return Stay{} })}
}

// TestChoice checks the victims for bundles of so many cores and priority 5, and the nodes of the
// bundles.
func TestChoice(t *testing.T) {
	for name, c := range map[string]struct {
		tasks   []string
		asks    []int
		evicted string
		on      string
	}{
		"room":             {[]string{"a n1 4 0 1", "b n2 4 0 1"}, []int{4}, "", "n3"},
		"lowest priority":  {[]string{"a n1 4 2 9", "b n2 1 1 1", "c n2 3 1 1", "d n3 4 3 9"}, []int{4}, "b c", "n2"},
		"fewest":           {[]string{"a n1 2 1 9", "b n1 2 1 9", "c n2 4 1 1", "d n3 4 3 9"}, []int{4}, "c", "n2"},
		"least work":       {[]string{"a n1 4 1 7", "b n2 4 1 8", "c n3 4 1 6"}, []int{4}, "b", "n2"},
		"youngest of node": {[]string{"a n1 2 1 8", "b n1 2 1 9", "c n2 4 4 1", "d n3 4 4 1"}, []int{2}, "b", "n1"},
		"none without use": {[]string{"a n1 1 0 1", "b n1 3 1 1", "c n2 4 4 1", "d n3 4 4 1"}, []int{3}, "b", "n1"},
		"only who must go": {[]string{"a n1 1 0 1", "b n1 3 1 9", "c n2 3 1 5", "d n2 1 5 1", "e n3 4 5 1"}, []int{3}, "b", "n1"},
		"not of equals":    {[]string{"a n1 4 5 1", "b n2 4 5 1", "c n3 1 5 1", "d n3 3 1 1"}, []int{4}, "-", ""},
		"too large":        {[]string{"a n1 4 0 1"}, []int{5}, "-", ""},
		"whole or none":    {[]string{"a n1 4 0 1", "b n2 4 5 1", "c n3 4 5 1"}, []int{4, 4}, "-", ""},
		"each":             {[]string{"a n1 4 0 1", "b n2 4 5 1", "c n3 4 1 1"}, []int{4, 4}, "a c", "n1 n3"},
		"gang as a whole":  {[]string{"a n1 4 0 1 g", "b n2 2 0 1 g", "c n2 2 0 1", "d n3 4 3 1"}, []int{4}, "a b", "n1"},
		"single before":    {[]string{"a n1 4 0 1 g", "b n2 4 0 1 g", "d n3 4 0 1"}, []int{4}, "d", "n3"},
		"of a gang once":   {[]string{"s n1 2 0 9", "a n1 2 1 1 g", "b n2 4 1 1 g", "d n3 4 5 1"}, []int{2, 4}, "a b", "n1 n2"},
		"gang with equals": {[]string{"a n1 4 0 1 g", "b n2 4 5 1 g", "d n3 4 5 1"}, []int{4}, "-", ""},
		"held by hand":     {[]string{"a n1 4 0 1 hand", "b n2 4 5 1", "d n3 4 1 1"}, []int{4, 4}, "-", ""},
	} {
		t.Run(name, func(t *testing.T) {
			s := occupied(t, c.tasks...)
			var bundles []types.Bundle
			for _, n := range c.asks {
				bundles = append(bundles, types.Bundle{Requests: types.NewRequests(map[string]types.Quantity{"cpu": types.Quantity(n) * 1000})})
			}
			all := newClearing(s, 9, time.Minute, true) // as for another task, too
			placed, ok := all.clear(asker{"d", "high", 5}, bundles)
			var evicted, on []string
			for _, u := range all.evicted {
				for _, task := range u.tasks {
					evicted = append(evicted, task.ID.ID)
				}
			}
			for _, b := range placed {
				on = append(on, b.Node)
			}
			slices.Sort(evicted)
			got := strings.Join(evicted, " ")
			if !ok {
				got = "-"
			}
			if got != c.evicted || strings.Join(on, " ") != c.on {
				t.Errorf("evicted are %q for %v on %v, not %q on %s", got, c.asks, on, c.evicted, c.on)
			}
		})
	}
}

// TestGivingWay checks which tasks of an elastic job are evicted for requests of so many cores, of
// whatever namespace and priority. Tasks of other jobs, here those that begin with x, stay.
func TestGivingWay(t *testing.T) {
	for name, c := range map[string]struct {
		tasks   []string
		asks    []int
		evicted string
	}{
		"room":                 {[]string{"a n1 4 0 1", "b n2 4 0 1"}, []int{4}, ""},
		"youngest of a node":   {[]string{"a n1 2 0 1", "b n1 2 0 9", "x1 n2 4 0 1", "x2 n3 4 0 1"}, []int{2}, "b"},
		"no more than needed":  {[]string{"a n1 3 0 1", "b n1 1 0 9", "x1 n2 4 0 1", "x2 n3 4 0 1"}, []int{3}, "a"},
		"where fewest suffice": {[]string{"a n1 2 0 9", "b n1 2 0 9", "c n2 4 0 1", "x2 n3 4 0 1"}, []int{4}, "c"},
		"none in vain":         {[]string{"a n1 4 0 1", "x1 n2 4 0 1", "x2 n3 4 0 1"}, []int{4, 4}, "-"},
	} {
		t.Run(name, func(t *testing.T) {
			s := occupied(t, c.tasks...)
			var stay []*cluster.Task
			for task := range s.View.Tasks() {
				if task.ID.ID[0] != 'x' {
					stay = append(stay, task)
				}
			}
			all := make([]asked, len(c.asks))
			for i, n := range c.asks {
				all[i].needs = s.View.Needs("other", types.NewRequests(map[string]types.Quantity{"cpu": types.Quantity(n) * 1000}))
			}
			way := yielding(s, stay)
			_, ok := way.settle(asker{}, all)
			var evicted []string
			for _, e := range evictAll(way.evicted, "").Evict {
				evicted = append(evicted, e.Task)
			}
			got := strings.Join(evicted, " ")
			if !ok {
				got = "-"
			}
			if got != c.evicted {
				t.Errorf("evicted are %q for %v, not %q", got, c.asks, c.evicted)
			}
		})
	}
}
