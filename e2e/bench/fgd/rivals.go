package fgd

import (
	"fmt"
	"math"

	view "github.com/escher-sched/escher/controlplane/cluster"
	"github.com/escher-sched/escher/esl"
	"github.com/escher-sched/escher/esl/place"
	"github.com/escher-sched/escher/types"
)

// The rivals of FGD, as its authors' simulator defines them
// (hkust-adsl/kubernetes-scheduler-simulator, pkg/simulator/plugin): the node with the largest
// score from 0 to 100 wins, the first by name among equals. Here the least wins, so all scores are
// negated.

// nodePolicy is a way to choose nodes.
type nodePolicy struct {
	name string
	// published is the GPU that its simulator has allocated when as much was requested as exists;
	// fragments is the GPU in fragments then. Both are in percent, means of ten seeds.
	published, fragments float64
	// must is how much it must allocate here; 0 means no bound.
	must float64
	// score makes the function; nil means any node that fits.
	score func(*placing) func([]view.Need, *esl.Room) float64
}

// nodePolicies are all of them, FGD first.
func nodePolicies() []nodePolicy {
	return []nodePolicy{
		{"fgd", 95.23, 4.73, mustAllocate, func(p *placing) func([]view.Need, *esl.Room) float64 {
			return place.Objective{By: place.Fragments}.Score(p.state)
		}},
		{"fgd-best-fit", 92.86, 7.05, 0, bestFit},
		{"fgd-gpu-packing", 91.78, 8.13, 0, func(*placing) func([]view.Need, *esl.Room) float64 { return gpuPacking }},
		{"fgd-gpu-clustering", 91.65, 8.21, 0, func(p *placing) func([]view.Need, *esl.Room) float64 { return p.gpuClustering }},
		{"fgd-dot-product", 90.62, 9.30, 0, dotProduct},
		{"fgd-random", 86.30, 13.49, 0, nil},
	}
}

// rivalWeights are the weights: processors and GPU only.
func rivalWeights() map[string]float64 {
	return map[string]float64{string(types.CPU): 0.5, string(types.GPU): 0.5, string(types.Memory): 0, string(types.Disk): 0}
}

// bestFit prefers the node with the least left, relative to the largest node.
func bestFit(p *placing) func([]view.Need, *esl.Room) float64 {
	return coarse(place.Objective{By: place.Leftover, Weights: rivalWeights()}.Score(p.state))
}

// dotProduct prefers the least product of free and requested amounts.
func dotProduct(p *placing) func([]view.Need, *esl.Room) float64 {
	return coarse(place.Objective{By: place.DotProduct, Weights: rivalWeights()}.Score(p.state))
}

// coarse rounds a score from 0 to 1, the least of which is best, to whole percents, as in the
// simulator: near ties go to the first node.
func coarse(score func([]view.Need, *esl.Room) float64) func([]view.Need, *esl.Room) float64 {
	return func(needs []view.Need, r *esl.Room) float64 { return -math.Floor(100 * (1 - score(needs, r))) }
}

// wholeGPU is one entire GPU, in thousandths.
const wholeGPU = 1000

// gpuPacking prefers partly used devices, the fullest first; then whole ones of a used node, the
// fewest first; then those of other nodes, the smallest first.
func gpuPacking(needs []view.Need, r *esl.Room) float64 {
	asked, free := gpuOf(needs), freeDevices(r)
	if asked == 0 {
		return 0
	}
	whole, each, wanted := 0, min(asked, wholeGPU), int(max(1, asked/wholeGPU))
	for _, x := range free {
		if x == wholeGPU {
			whole++
		}
	}
	if whole == len(free) {
		return -float64(max(33-whole, whole))
	}
	broken, left := 0, 0
	for _, x := range free { // the smallest that suffices comes first
		if wanted > 0 && x >= each {
			wanted--
			left += int(x) * 100 / wholeGPU
			if x == wholeGPU {
				broken++
			}
		}
	}
	if broken > 0 {
		return -float64(max(50-broken, 33))
	}
	return -float64(max(100-left/10, 50))
}

// gpuClustering prefers nodes whose tasks have as many devices as this one, then those where some
// do, then empty ones, then others; in each group the nodes with the least free GPU.
func (p *placing) gpuClustering(needs []view.Need, r *esl.Room) float64 {
	kind, there := gpuKind(gpuOf(needs)), p.kinds[r.Node.Name]
	if kind == "" {
		return 0
	}
	base := 0
	switch {
	case there[kind] && len(there) == 1:
		base = 75
	case there[kind]:
		base = 50
	case len(there) == 0:
		base = 25
	}
	left := 0
	for _, x := range freeDevices(r) {
		left += int(x)
	}
	return -float64(25*(largestNode-left)/largestNode + base)
}

// largestNode is the GPU of the largest node, in thousandths.
const largestNode = 8 * wholeGPU

// gpuKind is the number of requested devices; "" if none.
func gpuKind(asked types.Quantity) string {
	switch {
	case asked == 0:
		return ""
	case asked < wholeGPU:
		return "share"
	}
	return fmt.Sprint(asked / wholeGPU)
}

// gpuOf is the requested GPU, in thousandths of a device.
func gpuOf(needs []view.Need) types.Quantity {
	for i := range needs {
		if needs[i].ID == types.GPU {
			return needs[i].Amount
		}
	}
	return 0
}
