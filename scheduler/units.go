package scheduler

import (
	"slices"

	"github.com/escher-sched/escher/controlplane/cluster"
	"github.com/escher-sched/escher/types"
)

// Units let a custom scheduler decide about several tasks as a whole. The tasks of a unit wait as
// one, at the position of the first. One transaction binds all tasks placed together. This package
// knows neither which tasks form a unit nor how many suffice: without Units, there are none.
type Units interface {
	// Unit returns the unit of a task, within its namespace; empty means that the task is decided
	// alone. It must always return the same for a task.
	Unit(v *cluster.View, t *cluster.Task) string
	// Place puts waiting tasks of a unit, given in queue order, on nodes, and reports whether to
	// bind them there. If not, none is bound, and the unit is tried again when more of a requested
	// resource is free.
	Place(p *Placing, tasks []*cluster.Task) bool
}

// Placing collects the placements of the tasks of a unit, on top of the cluster and the transaction
// so far.
type Placing struct {
	core    *Core
	draft   *Draft
	entries map[cluster.ID]*Entry
	spots   []unitSpot
	skipped bool // nodes or pools in flight might have fit
}

// unitSpot is a task with its placement.
type unitSpot struct {
	task        *cluster.Task
	node        *cluster.Node
	alternative int
	needs       []cluster.Need
	holds       []types.Holding
}

// View returns the cluster without the transaction. Do not change it.
func (p *Placing) View() *cluster.View { return p.core.view }

// Put puts a task where it would be placed alone, once, and reports whether it fits anywhere.
func (p *Placing) Put(t *cluster.Task) bool {
	if p.entries[t.ID] == nil {
		return false
	}
	anew := shape{seen: -1}
	for i, needs := range p.vectors(t) {
		if AllowedAt(t.Info.V, i) > p.core.now.UnixNano() {
			continue
		}
		n, _, skipped := p.core.find(p.draft, &anew, needs)
		p.skipped = p.skipped || skipped
		if n == nil {
			continue
		}
		holds := p.draft.Hold(n, needs)
		p.draft.Take(n, holds)
		p.spots = append(p.spots, unitSpot{t, n, i, needs, holds})
		return true
	}
	return false
}

// vectors returns the needs of each alternative of t, usually those of the previous task.
func (p *Placing) vectors(t *cluster.Task) [][]cluster.Need {
	if n := len(p.spots); n > 0 && len(t.Info.V.Alternatives) == 0 {
		last := p.spots[n-1]
		if x := last.task.Info.V; len(x.Alternatives) == 0 && slices.Equal(x.Requests, t.Info.V.Requests) && sameDevices(x.Devices, t.Info.V.Devices) {
			return [][]cluster.Need{last.needs}
		}
	}
	return Vectors(p.core.view, t)
}

// shapeOf writes the shape of a task, and reports whether it is that of a unit. A task with
// Accumulate belongs to no unit.
func (c *Core) shapeOf(t *cluster.Task) (unit bool) {
	if c.cfg.Units != nil && !t.Info.V.Accumulate {
		if id := c.cfg.Units.Unit(c.view, t); id != "" {
			c.text = append(append(append(append(c.text[:0], '%'), t.ID.Namespace...), 0), id...)
			return true
		}
	}
	c.text = appendTaskShape(c.text[:0], t.ID.Namespace, t.Info.V)
	return false
}

// joinUnit makes a unit ready that gained a queued task.
func (c *Core) joinUnit(k entryKey) {
	s := c.queue.entry(k).shape
	s.unit = true
	c.queue.makeReady(s)
}

// placeUnit places a unit.
func (c *Core) placeUnit(d *Draft, s *shape) (outcome, []types.ResourceID) {
	entries := slices.SortedFunc(slices.Values(s.entries), func(a, b *Entry) int {
		if a.before(b) {
			return -1
		}
		return 1
	})
	p := &Placing{core: c, draft: d, entries: make(map[cluster.ID]*Entry, len(entries))}
	tasks := make([]*cluster.Task, len(entries))
	for i, e := range entries {
		tasks[i], p.entries[e.id] = c.view.Task(e.id), e
	}
	ok := c.cfg.Units.Place(p, tasks) && len(p.spots) > 0
	if ok && p.bind() {
		return placed, nil
	}
	p.takeBack()
	switch {
	case ok && !d.empty():
		return full, nil
	case !ok && p.skipped:
		return stalled, nil
	}
	return noFit, c.lacksOf(s, tasks)
}

// bind binds the placed tasks if the draft has space for all.
func (p *Placing) bind() bool {
	d, keys := p.draft, make([][]relied, len(p.spots))
	nodes, others := make(map[*cluster.Node]bool), make(map[string]bool)
	pools := make(map[types.ResourceID]bool)
	for i, x := range p.spots {
		keys[i] = d.reliedOn(x.task.ID.Namespace, x.node, x.needs)
		nodes[x.node] = true
		for _, r := range keys[i] {
			others[r.key] = true
		}
		for _, h := range x.holds {
			if h.Cluster {
				pools[h.Resource] = true
			}
		}
	}
	n := len(p.spots)
	if !d.room(2*n+nodeCompares*len(nodes)+len(others)+len(pools), 2*n+len(nodes)+len(pools)) {
		return false
	}
	for i, x := range p.spots {
		d.attach(x.task, x.node, x.alternative, keys[i], x.holds, p.core.now)
		e := p.entries[x.task.ID]
		p.core.queue.take(e)
		d.entries = append(d.entries, e)
	}
	d.items -= n - 1 // if too large, it is so as a whole
	return true
}

// takeBack reverts the placements.
func (p *Placing) takeBack() {
	for _, x := range p.spots {
		p.draft.Undo(x.node, x.holds)
	}
	p.spots = nil
}

// lacksOf returns what a unit waits for: everything that one of its tasks requests.
func (c *Core) lacksOf(s *shape, tasks []*cluster.Task) []types.ResourceID {
	s.resolved = s.resolved[:0]
	var lacks []types.ResourceID
	for i, t := range tasks {
		if i > 0 && slices.Equal(t.Info.V.Requests, tasks[i-1].Info.V.Requests) {
			continue
		}
		for j, needs := range Vectors(c.view, t) {
			if at := AllowedAt(t.Info.V, j); at > c.now.UnixNano() && (s.until == 0 || at < s.until) {
				c.queue.at(s, at)
			}
			s.resolved, lacks = append(s.resolved, needs), append(lacks, idsOf(needs)...)
		}
	}
	return lacks
}
