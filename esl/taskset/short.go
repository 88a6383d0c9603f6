package taskset

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/escher-sched/escher/controlplane/cluster"
	"github.com/escher-sched/escher/controlplane/match"
	"github.com/escher-sched/escher/esl"
	"github.com/escher-sched/escher/types"
)

// ShortInNodes names, for the end of a clause, each resource of which the registered nodes would have
// too little for all of the needs if they were empty: how much the needs request, and how much there
// is. It returns "" if none is short by itself.
func ShortInNodes(all map[string]*types.Node, over esl.Domain, needs [][]cluster.Need) string {
	domains, _ := emptyDomains(all, over)
	sums := Sums(needs)
	var short []string
	for _, id := range slices.Sorted(maps.Keys(sums)) {
		if !isCounted(id) {
			continue
		}
		one, fits := only(needs, func(x types.ResourceID) bool { return x == id }), false
		var most, largest, piece types.Quantity
		for _, x := range slices.Concat(one...) {
			piece = max(piece, x.Amount)
		}
		for _, in := range domains {
			sum := types.Quantity(0)
			for _, n := range in {
				has := n.Info.V.Capacity.Get(string(id))
				sum, largest = sum.Add(has), max(largest, has)
			}
			most = max(most, sum)
			fits = fits || mostFitting(in, one, match.Empty(cluster.New())) == len(needs)
		}
		if !fits {
			where := "the cluster"
			if over != "" {
				where = "the largest " + string(over)
			}
			short = append(short, fmt.Sprintf("; the tasks request %s %s, up to %s on one node: %s has %s, the largest node %s",
				sums[id].Format(id), id, piece.Format(id), where, most.Format(id), largest.Format(id)))
		}
	}
	return strings.Join(short, "")
}
