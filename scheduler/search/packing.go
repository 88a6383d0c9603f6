package search

import (
	"github.com/escher-sched/escher/controlplane/cluster"
	"github.com/escher-sched/escher/controlplane/grants"
	"github.com/escher-sched/escher/controlplane/match"
	"github.com/escher-sched/escher/scheduler/draft"
	"github.com/escher-sched/escher/scheduler/queue"
)

// looksBack is the number of further nodes that the search for a reservation tries when the first
// fits leave no capacity for another bundle. With fewer, even a small cluster would be searched
// completely only by chance. With more, a large one pays for every reservation that does not fit.
const looksBack = 2000

// Packing is the search for nodes for all bundles of a reservation. Each bundle goes where a task
// would go. If the rest does not fit then, it goes elsewhere while looks remain.
type Packing struct {
	all     *Nodes
	draft   *draft.Draft
	Spots   []grants.BundlePlacement
	looks   int
	Skipped bool // nodes or pools in flight might have fit
}

// NewPacking returns a search for the given spots, which the draft is to take.
func NewPacking(all *Nodes, d *draft.Draft, spots []grants.BundlePlacement) *Packing {
	return &Packing{all: all, draft: d, Spots: spots, looks: looksBack + len(spots)}
}

// Place places all bundles in the draft, or none of them.
func (p *Packing) Place() bool { return p.place(0) }

// Undo takes the placed bundles from the draft.
func (p *Packing) Undo() {
	for _, x := range p.Spots {
		p.draft.Undo(x.Node, x.Holds)
	}
}

// place places the bundles from the i-th on, or none of them.
func (p *Packing) place(i int) bool {
	if i == len(p.Spots) {
		return true
	}
	x := &p.Spots[i]
	s := queue.NewShape()
	first, _, skipped := p.all.Find(p.draft, s, x.Needs)
	p.Skipped = p.Skipped || skipped
	if first == nil {
		p.looks -= len(p.all.list)
		return false
	}
	if p.put(i, first) {
		return true
	}
	others, _ := p.all.candidates(p.draft, s, x.Needs)
	var some [8]match.Filter
	filters := p.all.index.Filters(x.Needs, some[:0])
	for _, n := range others {
		if !p.all.passes(filters, n) {
			continue
		}
		if p.looks--; p.looks < 0 {
			return false
		}
		if n == first || !n.Eligible() || p.all.Closed(n) {
			continue
		}
		if _, ok := p.draft.Fits(n, x.Needs); ok && p.put(i, n) {
			return true
		}
	}
	return false
}

// put places the i-th bundle on n, then the following ones, or none of them.
func (p *Packing) put(i int, n *cluster.Node) bool {
	x := &p.Spots[i]
	x.Node, x.Holds = n, p.draft.Hold(n, x.Needs)
	p.draft.Take(n, x.Holds)
	if p.place(i + 1) {
		return true
	}
	p.draft.Undo(n, x.Holds)
	return false
}
