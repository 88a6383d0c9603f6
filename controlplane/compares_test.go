package controlplane

import (
	"testing"

	"github.com/escher-sched/escher/types"
)

// TestBindCompares counts the compares of the largest alternative.
func TestBindCompares(t *testing.T) {
	for _, c := range []struct {
		requests     types.Requests
		alternatives []types.Requests
		want         int
	}{
		{nil, nil, 0}, {types.Requests{{Name: "cpu", Amount: 1}, {Name: "node/n1", Amount: 1}, {Name: "acme.com/x", Amount: 1}}, nil, 0}, {types.Requests{{Name: "cpu@r", Amount: 1}}, nil, 1}, {types.Requests{{Name: "x", Amount: 1}}, nil, 5},
		{types.Requests{{Name: "x", Amount: 1}}, []types.Requests{{{Name: "y", Amount: 1}}, {{Name: "z@r", Amount: 1}}, nil}, 10}, {types.Requests{{Name: "x", Amount: 1}}, []types.Requests{{{Name: "x", Amount: 1}}}, 5},
	} {
		x := types.Task{Requests: c.requests}
		for _, r := range c.alternatives {
			x.Alternatives = append(x.Alternatives, types.Alternative{Requests: r})
		}
		if got := bindCompares(&x) - bindCompares(&types.Task{}); got != c.want {
			t.Errorf("%v, %v: %d more, want %d", c.requests, c.alternatives, got, c.want)
		}
	}
}
