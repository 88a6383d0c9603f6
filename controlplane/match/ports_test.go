package match

import (
	"fmt"
	"slices"
	"strconv"
	"testing"

	"pgregory.net/rapid"

	"github.com/escher-sched/escher/controlplane/cluster"
	"github.com/escher-sched/escher/types"
)

// TestPortsOfANode: whatever tasks come, go and move the range, a port has one holder. An allocated
// port is the lowest free one of the range, and a fitting request gets its ports.
func TestPortsOfANode(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		v := cluster.New()
		n := &cluster.Node{Name: "n1", Info: cluster.Cell[types.Node]{V: &types.Node{PortFirst: 10, PortLast: 14}}}
		v.Nodes["n1"] = n
		r := On(v, n)
		var held [][]types.Holding
		for range rapid.IntRange(1, 40).Draw(t, "steps") {
			switch rapid.IntRange(0, 9).Draw(t, "what") {
			case 0:
				first := rapid.IntRange(8, 12).Draw(t, "first")
				n.Info.V = &types.Node{PortFirst: first, PortLast: first + rapid.IntRange(0, 5).Draw(t, "more")}
			case 1, 2, 3:
				if len(held) > 0 {
					i := rapid.IntRange(0, len(held)-1).Draw(t, "ends")
					r.Return(held[i])
					held = slices.Delete(held, i, i+1)
				}
			default:
				need := cluster.Need{ID: types.Port, Amount: Whole * types.Quantity(rapid.IntRange(1, 3).Draw(t, "many"))}
				if rapid.Bool().Draw(t, "by number") {
					need = cluster.Need{ID: types.FixedPort(rapid.IntRange(8, 16).Draw(t, "number")), Amount: Whole}
				}
				if r.Fits([]cluster.Need{need}) {
					holds := r.Pick([]cluster.Need{need})
					checkGiven(t, n, holds[0], held)
					r.Hold(holds)
					held = append(held, holds)
				}
			}
		}
	})
}

// numbers returns the ports of a holding.
func numbers(h types.Holding) (out []int) {
	if number, fixed := h.Resource.FixedPort(); fixed {
		return []int{number}
	}
	for _, dev := range h.Devices {
		number, err := strconv.Atoi(dev.ID)
		if err != nil || dev.Share != Whole {
			panic(fmt.Sprint(dev))
		}
		out = append(out, number)
	}
	return out
}

func checkGiven(t *rapid.T, n *cluster.Node, h types.Holding, held [][]types.Holding) {
	t.Helper()
	taken := make(map[int]bool)
	for _, holds := range held {
		for _, number := range numbers(holds[0]) {
			taken[number] = true
		}
	}
	given := numbers(h)
	if types.Quantity(len(given))*Whole != h.Amount {
		t.Fatalf("%s of it are ports %v", h.Amount.Format(types.Port), given)
	}
	for _, number := range given {
		if taken[number] || n.HasInRange(number) != (h.Resource == types.Port) {
			t.Fatalf("port %d is given as %s; %v are held", number, h.Resource, taken)
		}
		taken[number] = true
	}
	for number := n.Info.V.PortFirst; h.Resource == types.Port && number < given[len(given)-1]; number++ {
		if !taken[number] {
			t.Fatalf("ports %v are given, and %d is free", given, number)
		}
	}
}
