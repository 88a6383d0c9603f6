package ahead

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/escher-sched/escher/controlplane"
	"github.com/escher-sched/escher/e2e/viewtest"
	"github.com/escher-sched/escher/esl"
	"github.com/escher-sched/escher/types"
)

// TestSoonest chooses among three nodes of 64 cores: first one where a bundle fits now, then one where it
// fits at the time, then the one with the fewest tasks that end later.
func TestSoonest(t *testing.T) {
	type runs struct {
		on, cores int
		limit     time.Duration // 0 means none
	}
	cores := func(n int) types.Requests {
		return types.NewRequests(map[string]types.Quantity{"cpu": types.Quantity(n) * esl.One})
	}
	for name, c := range map[string]struct {
		tasks   []runs
		bundles []int
		node    string // of the first bundle
		want    []string
	}{
		"free":                    {[]runs{{0, 64, time.Minute}}, []int{64}, "", []string{"n0001"}},
		"in time":                 {[]runs{{0, 64, 0}, {1, 64, 3 * time.Hour}, {2, 64, time.Minute}}, []int{64}, "", []string{"n0002"}},
		"fewest that end later":   {[]runs{{0, 32, 0}, {0, 32, 0}, {1, 64, 0}, {2, 32, 0}, {2, 32, 0}}, []int{64}, "", []string{"n0001"}},
		"each bundle takes room":  {nil, []int{40, 40, 40}, "", []string{"n0000", "n0001", "n0002"}},
		"two on one node":         {nil, []int{32, 32, 32}, "", []string{"n0000", "n0000", "n0001"}},
		"by name":                 {nil, []int{64}, "n0002", []string{"n0002"}},
		"too large":               {nil, []int{65}, "", nil},
		"more than there are":     {nil, []int{64, 64, 64, 1}, "", nil},
		"what is named is no use": {nil, []int{65}, "n0001", nil},
	} {
		b := viewtest.NewBench(t, 3)
		used := make(map[int]types.Quantity)
		for i, x := range c.tasks {
			holds := []types.Holding{{Resource: types.CPU, Amount: types.Quantity(x.cores) * esl.One}}
			b.Put(controlplane.BindingKey(fmt.Sprintf("n%04d", x.on), "d", fmt.Sprint("t", i), 1), &types.Binding{Holds: holds, MaxRun: x.limit})
			used[x.on] += holds[0].Amount
			b.Put(controlplane.AllocatedKey(fmt.Sprintf("n%04d", x.on)), &types.Allocated{Holds: []types.Holding{{Resource: types.CPU, Amount: used[x.on]}}})
		}
		var bundles []types.Bundle
		for _, n := range c.bundles {
			bundles = append(bundles, types.Bundle{Requests: cores(n)})
		}
		bundles[0].Node = c.node
		s := &esl.State{View: b.View, Now: time.Unix(0, 0), Namespace: "d", ID: "ahead"}
		if got := soonest(s, bundles, time.Unix(3600, 0)); !slices.Equal(got, c.want) {
			t.Errorf("%s: on %v, want %v", name, got, c.want)
		}
	}
}
