package search

import (
	"github.com/escher-sched/escher/controlplane/cluster"
	"github.com/escher-sched/escher/scheduler/draft"
	"github.com/escher-sched/escher/scheduler/grants"
	"github.com/escher-sched/escher/types"
)

// wants are the requests of the bundles given to a node, and their sums.
type wants struct {
	types.Allocated
	needs []cluster.Need
}

// Wanted are the requests of bundles, by the node that they are given to.
type Wanted map[string]*wants

// Add adds the requests of a bundle to a node.
func (wanted Wanted) Add(name string, needs []cluster.Need) {
	if wanted[name] == nil {
		wanted[name] = &wants{}
	}
	for _, x := range needs {
		wanted[name].Take(types.Holding{Resource: x.ID, Amount: x.Amount})
	}
	wanted[name].needs = append(wanted[name].needs, needs...)
}

// Target returns the node with the most free capacity that is large enough for needs and the wanted
// requests there. Holdings of g there count as free. skip
// excludes nodes.
func (all *Nodes) Target(d *draft.Draft, g *types.Grant, needs []cluster.Need, wanted Wanted, skip func(*cluster.Node) bool) *cluster.Node {
	var best *cluster.Node
	var most float64
	for _, n := range all.list {
		if !n.Eligible() || skip(n) || !largeEnough(d, n, needs, wanted[n.Name]) {
			continue
		}
		if share := freeShare(d, n, needs, wanted[n.Name], g.On(n.Name)); best == nil || share > most {
			best, most = n, share
		}
	}
	return best
}

func largeEnough(d *draft.Draft, n *cluster.Node, needs []cluster.Need, wanted *wants) bool {
	for _, x := range needs {
		if d.View().Pool(x.ID) != nil {
			continue
		}
		all := grants.Want{ID: x.ID, Needs: []cluster.Need{x}}
		capacity, ok := d.View().Capacity(n, x.ID)
		if wanted != nil {
			capacity = capacity.Minus(wanted.Of(x.ID))
			all.Add(wanted.needs)
		}
		if !ok || capacity < x.Amount || all.Chooses() && !d.EverHas(n, all) {
			return false
		}
	}
	return true
}

// freeShare returns the free share of needs on n: 1 means all of it.
func freeShare(d *draft.Draft, n *cluster.Node, needs []cluster.Need, wanted *wants, held []types.Holding) float64 {
	least := 1.0
	for _, x := range needs {
		free, _ := d.Free(n, x.ID)
		free = free.Add(grants.HeldOf(held, x.ID))
		if wanted != nil {
			free = free.Minus(wanted.Of(x.ID))
		}
		if x.Amount > 0 && free < x.Amount {
			least = min(least, float64(free)/float64(x.Amount))
		}
	}
	return least
}
