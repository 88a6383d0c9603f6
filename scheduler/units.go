package scheduler

import (
	"slices"

	"github.com/escher-sched/escher/controlplane/cluster"
	"github.com/escher-sched/escher/types"
)

// Units have somebody's own scheduler decide on several tasks as a whole. The tasks of a
// unit wait as one, in the place of the first of them, and what is placed of it at a time
// is bound in one transaction. Which tasks are a unit, and what is enough of it, is not
// this package's: without Units, it knows none.
type Units interface {
	// Unit returns what a task is part of, within its namespace; empty: it is decided
	// on by itself. It is the same for a task whenever that is looked at.
	Unit(v *cluster.View, t *cluster.Task) string
	// Place puts tasks on nodes, of those of a unit that wait, the first one first, and
	// reports whether they are to be bound there. If not, nothing is, and they are tried
	// again when there is more of what one of them asks for.
	Place(p *Placing, tasks []*cluster.Task) bool
}

// Placing is where the tasks of a unit are put, beside what is there and in the same
// transaction already.
type Placing struct {
	core    *Core
	draft   *Draft
	entries map[cluster.ID]*entry
	spots   []unitSpot
	skipped bool // nodes or pools in flight might have done
}

// unitSpot is a task that was put somewhere.
type unitSpot struct {
	task        *cluster.Task
	node        *cluster.Node
	alternative int
	needs       []cluster.Need
	holds       []types.Holding
}

// View returns the cluster without what is in the transaction; it is not to be changed.
func (p *Placing) View() *cluster.View { return p.core.view }

// Put puts a task where it would be placed by itself, once, and reports whether it fits
// anywhere.
func (p *Placing) Put(t *cluster.Task) bool {
	if p.entries[t.ID] == nil {
		return false
	}
	anew := shape{seen: -1}
	for i, needs := range p.vectors(t) {
		if allowedAt(t.Info.V, i) > p.core.now.UnixNano() {
			continue
		}
		n, _, skipped := p.core.find(p.draft, &anew, needs)
		p.skipped = p.skipped || skipped
		if n == nil {
			continue
		}
		holds := p.draft.hold(n, needs)
		p.draft.take(n, holds)
		p.spots = append(p.spots, unitSpot{t, n, i, needs, holds})
		return true
	}
	return false
}

// vectors returns what t asks for by each alternative; those of most tasks are those of
// the task before.
func (p *Placing) vectors(t *cluster.Task) [][]cluster.Need {
	if n := len(p.spots); n > 0 && len(t.Info.V.Alternatives) == 0 {
		last := p.spots[n-1]
		if x := last.task.Info.V; len(x.Alternatives) == 0 && slices.Equal(x.Requests, t.Info.V.Requests) && sameDevices(x.Devices, t.Info.V.Devices) {
			return [][]cluster.Need{last.needs}
		}
	}
	return Vectors(p.core.view, t)
}

// shapeOf writes the shape of a task, and reports whether it is that of a unit. What may
// collect for itself is none.
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

// joinUnit has a unit tried again that a queued task is one more of.
func (c *Core) joinUnit(k entryKey) {
	s := c.queue.entry(k).shape
	s.unit = true
	c.queue.makeReady(s)
}

// placeUnit has a unit placed.
func (c *Core) placeUnit(d *Draft, s *shape) (outcome, []types.ResourceID) {
	entries := slices.SortedFunc(slices.Values(s.entries), func(a, b *entry) int {
		if a.before(b) {
			return -1
		}
		return 1
	})
	p := &Placing{core: c, draft: d, entries: make(map[cluster.ID]*entry, len(entries))}
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

// bind binds what was put somewhere, if there is room for it.
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
	d.items -= n - 1 // it is too large, if it is, as a whole
	return true
}

// takeBack undoes what was put somewhere.
func (p *Placing) takeBack() {
	for _, x := range p.spots {
		p.draft.undo(x.node, x.holds)
	}
	p.spots = nil
}

// lacksOf returns what a unit is to wait for: anything that one of its tasks asks for.
func (c *Core) lacksOf(s *shape, tasks []*cluster.Task) []types.ResourceID {
	s.resolved = s.resolved[:0]
	var lacks []types.ResourceID
	for i, t := range tasks {
		if i > 0 && slices.Equal(t.Info.V.Requests, tasks[i-1].Info.V.Requests) {
			continue
		}
		for j, needs := range Vectors(c.view, t) {
			if at := allowedAt(t.Info.V, j); at > c.now.UnixNano() && (s.until == 0 || at < s.until) {
				c.queue.at(s, at)
			}
			s.resolved, lacks = append(s.resolved, needs), append(lacks, idsOf(needs)...)
		}
	}
	return lacks
}
