package lend

import (
	"fmt"
	"slices"
	"testing"

	"github.com/escher-sched/escher/controlplane"
	"github.com/escher-sched/escher/e2e/viewtest"
	"github.com/escher-sched/escher/esl"
	"github.com/escher-sched/escher/types"
)

// TestSurplus evicts guests, so that a node has enough again, and none without need.
func TestSurplus(t *testing.T) {
	type guest struct {
		priority, cpu, memory int // cpu in cores, memory in MiB
	}
	for name, c := range map[string]struct {
		guests      []guest // the oldest first
		cpu, memory int     // what is short
		want        []string
	}{
		"nothing is short":       {[]guest{{0, 1, 100}}, 0, 0, nil},
		"the youngest":           {[]guest{{0, 1, 100}, {0, 1, 100}, {0, 1, 100}}, 1, 0, []string{"g2"}},
		"as many as it takes":    {[]guest{{0, 1, 100}, {0, 1, 100}, {0, 1, 100}}, 2, 0, []string{"g1", "g2"}},
		"the lowest priority":    {[]guest{{0, 1, 100}, {5, 1, 100}}, 1, 0, []string{"g0"}},
		"not one that is little": {[]guest{{0, 4, 100}, {0, 1, 100}}, 4, 0, []string{"g0"}},
		"of both":                {[]guest{{0, 2, 10}, {0, 1, 900}, {0, 1, 10}}, 2, 500, []string{"g1", "g2"}},
		"all":                    {[]guest{{0, 1, 10}, {0, 1, 10}}, 9, 0, []string{"g0", "g1"}},
	} {
		b := viewtest.NewBench(t, 1)
		s := &esl.State{View: b.View, Namespace: "d", ID: "p", Label: kind}
		both := lents(s)
		for i, g := range c.guests {
			id := fmt.Sprint("g", i)
			b.Put(controlplane.TaskKey("d", id), &types.Task{Job: "j", Priority: g.priority})
			b.Put(controlplane.StatusKey("d", id), &types.Status{Phase: types.Running, Attempt: 1, Node: "n0000"})
			b.Put(controlplane.BindingKey("n0000", "d", id, 1), &types.Binding{Bound: int64(i + 1), Holds: []types.Holding{
				{Resource: both[0].id, Amount: types.Quantity(g.cpu) * esl.One}, {Resource: both[1].id, Amount: types.Quantity(g.memory) * esl.One},
			}})
		}
		var got []string
		for _, e := range surplus(b.View.Nodes["n0000"], both, [2]types.Quantity{types.Quantity(c.cpu) * esl.One, types.Quantity(c.memory) * esl.One}, "p") {
			got = append(got, e.Task)
		}
		slices.Sort(got)
		if !slices.Equal(got, c.want) {
			t.Errorf("%s: %v, want %v", name, got, c.want)
		}
	}
}
