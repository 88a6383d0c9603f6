package scheduler

import (
	"math/rand/v2"

	"github.com/escher-sched/escher/controlplane/cluster"
	"github.com/escher-sched/escher/types"
)

// fits reports whether a node can take needs as the draft leaves it. If not, short
// is the first resource there is not enough of.
func (d *Draft) fits(n *cluster.Node, needs []cluster.Need) (short types.ResourceID, ok bool) {
	for _, x := range needs {
		if d.view.Pool(x.ID) != nil {
			continue
		}
		free, known := d.free(n, x.ID)
		if !known || free < x.Amount {
			return x.ID, false
		}
		if !d.devicesFit(n, x) {
			return x.ID, false
		}
	}
	return "", true
}

// poolShort returns the first cluster-wide resource of needs that there is not
// enough of.
func (d *Draft) poolShort(needs []cluster.Need) (types.ResourceID, bool) {
	for _, x := range needs {
		if p := d.view.Pool(x.ID); p != nil && d.poolFree(p) < x.Amount {
			return x.ID, true
		}
	}
	return "", false
}

// hold turns needs, which fit, into what a binding or grant on n holds.
func (d *Draft) hold(n *cluster.Node, needs []cluster.Need) []types.Holding {
	holds := make([]types.Holding, 0, len(needs))
	for _, x := range needs {
		switch {
		case x.ID.IsPlacement():
		case d.view.Pool(x.ID) != nil:
			holds = append(holds, types.Holding{Resource: x.ID, Amount: x.Amount, Cluster: true})
		default:
			holds = append(holds, types.Holding{Resource: x.ID, Amount: x.Amount, Devices: d.pickDevices(n, x)})
		}
	}
	return holds
}

// Choosing among nodes that fit: enough of them are found, from a place that
// differs from search to search, and the least loaded is taken: that spreads load
// at a cost that does not grow with the cluster (the power of a few choices,
// Mitzenmacher 1996). In a small cluster all are looked at.
const (
	lookAtAll   = 64
	enoughFound = 4
)

// search looks for nodes for one shape.
type search struct {
	draft  *Draft
	needs  []cluster.Need
	locked func(*cluster.Node) bool
	rng    *rand.Rand

	best    *cluster.Node
	load    float64
	ties    int
	found   int
	skipped bool // a node in flight might have done
	short   map[types.ResourceID]int
	seen    int
}

// over looks at nodes from the given start, around, and returns where it ended.
func (s *search) over(nodes []*cluster.Node, start int) int {
	enough := enoughFound
	if len(nodes) <= lookAtAll {
		enough = len(nodes)
	}
	for i := range nodes {
		at := (start + i) % len(nodes)
		s.look(nodes[at])
		if s.found >= enough {
			return at + 1
		}
	}
	return start
}

// look takes one node into account.
func (s *search) look(n *cluster.Node) {
	if !n.Eligible() {
		return
	}
	if s.locked(n) {
		s.skipped = true
		return
	}
	s.seen++
	if short, ok := s.draft.fits(n, s.needs); !ok {
		s.short[short]++
		return
	}
	s.found++
	load := s.draft.load(n, s.needs)
	switch {
	case s.best == nil || load < s.load:
		s.best, s.load, s.ties = n, load, 1
	case load == s.load:
		if s.ties++; s.rng.IntN(s.ties) == 0 {
			s.best = n
		}
	}
}

// load is how full the node would be: the largest share in use of a physical
// resource that is asked for, and a little for every task that is there.
func (d *Draft) load(n *cluster.Node, needs []cluster.Need) float64 {
	var most float64
	for _, x := range needs {
		if _, fixed := x.ID.FixedPort(); fixed || !x.ID.Physical() || x.ID.IsPlacement() {
			continue // that a port is taken by who asks for it says nothing of a node
		}
		capacity, _ := d.view.Capacity(n, x.ID)
		free, _ := d.free(n, x.ID)
		if capacity > 0 && capacity != types.Inf {
			most = max(most, float64(capacity-free+x.Amount)/float64(capacity))
		}
	}
	tasks := len(n.Bindings)
	if p := d.places[n]; p != nil {
		tasks += p.binds
	}
	return most + float64(tasks)/(1<<20)
}
