package esl

import (
	"fmt"
	"testing"

	"github.com/escher-sched/escher/controlplane"
	"github.com/escher-sched/escher/controlplane/cluster"
	"github.com/escher-sched/escher/types"
)

// member is a task of a job as a view has it: its phase, which attempt it is at, and
// whether it leaves.
type member struct {
	phase   types.Phase
	attempt int
	leaves  string // evict, stop
}

// membersOf makes a view of members, called 0 and on.
func membersOf(t *testing.T, members []member) []*cluster.Task {
	t.Helper()
	v := cluster.New()
	put := func(key string, m types.Message, rev int64) {
		if _, _, err := v.Apply(controlplane.Event{KV: controlplane.KV{Key: key, Value: types.Encode(1, m), ModRevision: rev, CreateRevision: rev}}); err != nil {
			t.Fatal(err)
		}
	}
	for i, m := range members {
		task := &types.Task{Job: "j"}
		switch m.leaves {
		case "evict":
			task.Evict = m.attempt
		case "stop":
			task.Stop = &types.Stop{Reason: "enough"}
		}
		id := fmt.Sprintf("%04d", i)
		put(controlplane.TaskKey("d", id), task, int64(2*i+1))
		if m.attempt > 0 {
			put(controlplane.StatusKey("d", id), &types.Status{Phase: m.phase, Attempt: m.attempt, Reason: "exit code 1"}, int64(2*i+2))
		}
	}
	return v.Members(cluster.ID{Namespace: "d", ID: "j"})
}

func TestKeepWhole(t *testing.T) {
	waits := member{types.Pending, 0, ""}
	runs := func(attempt int) member { return member{types.Running, attempt, ""} }
	again := func(attempt int) member { return member{types.Pending, attempt - 1, ""} }
	leaves := func(attempt int) member { return member{types.Running, attempt, "evict"} }
	for name, c := range map[string]struct {
		members []member
		alone   bool
		evicted string
		stopped string
	}{
		"none is bound":                      {members: []member{waits, waits}},
		"all run":                            {members: []member{runs(1), runs(1)}},
		"all run again":                      {members: []member{runs(3), runs(3)}},
		"some are bound yet":                 {members: []member{runs(1), waits}},
		"one is to run again":                {members: []member{again(2), runs(1), runs(1)}, evicted: "12"},
		"one was evicted":                    {members: []member{leaves(1), runs(1), runs(1)}, evicted: "12"},
		"the others leave already":           {members: []member{again(2), leaves(1), leaves(1)}},
		"one leaves, one is to":              {members: []member{again(2), leaves(1), runs(1)}, evicted: "2"},
		"all were evicted":                   {members: []member{leaves(1), again(2), leaves(1)}},
		"one runs again":                     {members: []member{runs(2), again(2), again(2)}},
		"one is behind":                      {members: []member{runs(3), runs(2), again(3)}, evicted: "1"},
		"one waits that will be behind":      {members: []member{runs(3), again(2), runs(3)}},
		"one has failed":                     {members: []member{{types.Failed, 1, ""}, runs(1), waits}, stopped: "12"},
		"one was cancelled":                  {members: []member{runs(1), {types.Cancelled, 1, ""}}, stopped: "0"},
		"one is being stopped":               {members: []member{runs(1), {types.Running, 1, "stop"}}, stopped: "0"},
		"all are being stopped":              {members: []member{{types.Running, 1, "stop"}, {types.Bound, 1, "stop"}}},
		"one has succeeded":                  {members: []member{{types.Succeeded, 1, ""}, runs(1)}},
		"one has, and one is to run again":   {members: []member{{types.Succeeded, 1, ""}, runs(1), again(2)}, stopped: "12"},
		"one has, and one was evicted":       {members: []member{{types.Succeeded, 2, ""}, leaves(2)}, stopped: "1"},
		"all have ended":                     {members: []member{{types.Succeeded, 1, ""}, {types.Failed, 1, ""}}},
		"alone: one is to run again":         {members: []member{again(2), runs(1), runs(1)}, alone: true},
		"alone: one has failed":              {members: []member{{types.Failed, 4, ""}, runs(1)}, alone: true, stopped: "1"},
		"alone: one has succeeded before it": {members: []member{{types.Succeeded, 1, ""}, again(2)}, alone: true},
	} {
		t.Run(name, func(t *testing.T) {
			plan := keepWhole(membersOf(t, c.members), c.alone)
			evicted, stopped := "", ""
			for _, e := range plan.Evict {
				evicted += e.Task[3:]
				if e.Attempt != c.members[e.Task[3]-'0'].attempt {
					t.Errorf("attempt %d of %s is evicted", e.Attempt, e.Task)
				}
			}
			for _, s := range plan.Stop {
				stopped += s.Task[3:]
				if s.Reason == "" {
					t.Errorf("%s is stopped for no reason", s.Task)
				}
			}
			if evicted != c.evicted || stopped != c.stopped {
				t.Errorf("evicted %q, want %q; stopped %q, want %q", evicted, c.evicted, stopped, c.stopped)
			}
		})
	}
}

// Of many a part is ended in one transaction, and then the next, until there is none.
func TestKeepWholeInParts(t *testing.T) {
	members := make([]member, 100)
	for i := range members {
		members[i] = member{types.Running, 1, ""}
	}
	members[99].phase = types.Failed
	for _, want := range []int{40, 40, 19, 0} {
		plan := keepWhole(membersOf(t, members), false)
		if len(plan.Stop) != want {
			t.Fatalf("%d are stopped, want %d", len(plan.Stop), want)
		}
		for _, s := range plan.Stop {
			var i int
			if _, err := fmt.Sscanf(s.Task, "%d", &i); err != nil {
				t.Fatal(err)
			}
			members[i].leaves = "stop"
		}
	}
}

func needsFor(amounts ...types.Quantity) [][]cluster.Need {
	out := make([][]cluster.Need, len(amounts))
	for i, a := range amounts {
		out[i] = []cluster.Need{{ID: types.CPU, Amount: a}}
	}
	return out
}

func TestFitting(t *testing.T) {
	nodes := map[string]*types.Node{}
	for i := range 3 {
		nodes[fmt.Sprint(i)] = &types.Node{
			Capacity: types.Requests{{Name: "cpu", Amount: 4}}, Labels: []types.Label{{Name: "rack", Value: fmt.Sprint("r", i/2)}},
		}
	}
	for name, c := range map[string]struct {
		needs      [][]cluster.Need
		fit, most  int
		mostInRack int
	}{
		"all":             {needsFor(4, 4, 4), 3, 3, 2},
		"one too many":    {needsFor(4, 4, 4, 4), 3, 3, 2},
		"too large":       {needsFor(5), 0, 0, 0},
		"several a node":  {needsFor(2, 2, 2, 2, 2, 2, 2), 6, 6, 4},
		"kinds":           {needsFor(3, 3, 1, 1, 4), 5, 5, 5},
		"small before":    {needsFor(1, 1, 1, 4, 4), 5, 5, 5},
		"not all kinds":   {needsFor(4, 4, 4, 1), 3, 4, 3},
		"none is wanted":  {nil, 0, 0, 0},
		"too large among": {needsFor(1, 9, 1), 2, 2, 2},
	} {
		t.Run(name, func(t *testing.T) {
			if got := fitting([]string{"0", "1", "2"}, c.needs, spaceOfNodes(nodes)); got != c.fit {
				t.Errorf("%d fit, want %d", got, c.fit)
			}
			if got, known := mostInNodes(nodes, "", c.needs); got != c.most || !known {
				t.Errorf("%d fit at most, want %d", got, c.most)
			}
			if got, _ := mostInNodes(nodes, Rack, c.needs); got != c.mostInRack {
				t.Errorf("%d fit a rack at most, want %d", got, c.mostInRack)
			}
		})
	}
	nodes["x"] = nil
	if _, known := mostInNodes(nodes, "", needsFor(1)); known {
		t.Error("it is known what a node has of which nothing can be read")
	}
	if _, known := mostInNodes(nil, "", needsFor(1)); known {
		t.Error("it is known of a cluster without nodes")
	}
}
