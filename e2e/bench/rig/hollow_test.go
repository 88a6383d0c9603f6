package rig

import (
	"slices"
	"testing"

	"github.com/escher-sched/escher/types"
)

// TestParticularFirst puts tasks that fit on few nodes before those that fit on more.
func TestParticularFirst(t *testing.T) {
	ask := func(cpu, gpu types.Quantity) types.Requests {
		return types.NewRequests(map[string]types.Quantity{"cpu": cpu, "gpu": gpu})
	}
	h := &Hollow{Shapes: []types.Requests{ask(1, 0), ask(2, 0), ask(1, 1), ask(9, 0)}, Tasks: []int{0, 1, 2, 0, 3, 2}}
	for _, n := range []types.Requests{ask(1, 0), ask(2, 0), ask(2, 0), ask(2, 1), ask(9, 1), ask(2, 0)} {
		h.Nodes = append(h.Nodes, &types.Node{Capacity: n})
	}
	h.particularFirst()
	if want := []int{3, 2, 2, 1, 0, 0}; !slices.Equal(h.Tasks, want) {
		t.Errorf("got %v, want %v", h.Tasks, want)
	}
}
