// Package search finds nodes for tasks and for the bundles of reservations. It keeps the registered
// nodes with an index of their free capacity, their labels, and which of them are in flight. It knows
// no order of tasks, and decides nothing about capacity: a draft does.
package search

import (
	"math/rand/v2"
	"slices"

	"github.com/escher-sched/escher/controlplane"
	"github.com/escher-sched/escher/controlplane/cluster"
	"github.com/escher-sched/escher/controlplane/match"
	"github.com/escher-sched/escher/scheduler/draft"
	"github.com/escher-sched/escher/scheduler/queue"
	"github.com/escher-sched/escher/types"
)

// Nodes are the registered nodes of a view.
type Nodes struct {
	cfg  Config
	view *cluster.View
	// list are the registered nodes, in order of arrival. states are indexed by Node.Serial.
	list   []*cluster.Node
	states []*state
	// index is indexed by the position of a node in list. labelled are the nodes that a placement
	// other than by name allows.
	index    match.Index
	labelled map[types.ResourceID][]*cluster.Node
	blank    *draft.Draft // an empty draft: the state of the view
	cordons  int          // number of cordoned nodes
	// changed is the log of nodes that gained capacity; base is the position of its first entry.
	changed []*cluster.Node
	base    int
	window  window
	// kept counts, by node, the collections in flight, and the reservations being granted there in
	// several transactions. Until those are answered, newly free capacity there is unknown and must
	// not go to other work.
	kept map[*cluster.Node]int
	// avoided are nodes that Find returns only if no other fits.
	avoided []*cluster.Node
}

// Config configures Nodes.
type Config struct {
	Choice Choice
	Rng    *rand.Rand
	// Part returns the positions of the nodes that a search tries first.
	Part func() (from, to int)
	// ToPlace returns the number of entries that are ready to be placed.
	ToPlace func() int
	// PoolInFlight reports whether needs draw on pools in flight that the draft cannot draw on.
	PoolInFlight func(*draft.Draft, []cluster.Need) bool
}

// state is what is stored about a node besides the view.
type state struct {
	pos int // in Nodes.list, -1 if not registered
	// placements are the placements that its labels make.
	placements []types.ResourceID
	cordoned   bool
	locked     bool // in flight
	// keys are cached, because many transactions compare them.
	keys   draft.NodeKeys
	itself [1]*cluster.Node
}

// New returns the nodes of a view, none of which is registered yet.
func New(view *cluster.View, cfg Config) *Nodes {
	return &Nodes{
		cfg: cfg, view: view, blank: draft.New(view, controlplane.Limits{}, 0),
		labelled: make(map[types.ResourceID][]*cluster.Node),
		kept:     make(map[*cluster.Node]int),
	}
}

func (all *Nodes) state(n *cluster.Node) *state {
	for len(all.states) <= n.Serial {
		all.states = append(all.states, nil)
	}
	s := all.states[n.Serial]
	if s == nil {
		s = &state{pos: -1, keys: draft.KeysOf(n), itself: [1]*cluster.Node{n}}
		all.states[n.Serial] = s
	}
	return s
}

// All returns the registered nodes.
func (all *Nodes) All() []*cluster.Node { return all.list }

// Blank returns an empty draft: the state of the view.
func (all *Nodes) Blank() *draft.Draft { return all.blank }

// Keys returns the keys of a node.
func (all *Nodes) Keys(n *cluster.Node) draft.NodeKeys { return all.state(n).keys }

// Cordons returns the number of cordoned nodes.
func (all *Nodes) Cordons() int { return all.cordons }

// Pos returns the position of a node among the registered ones; -1 if it is not registered.
func (all *Nodes) Pos(n *cluster.Node) int { return all.state(n).pos }

// Locked reports whether a node is in flight.
func (all *Nodes) Locked(n *cluster.Node) bool { return all.state(n).locked }

// SetLocked records whether a node is in flight.
func (all *Nodes) SetLocked(n *cluster.Node, locked bool) {
	s := all.state(n)
	if s.locked = locked; s.pos >= 0 {
		all.index.SetLocked(s.pos, locked)
	}
}

// Kept returns the number of nodes that Keep closed.
func (all *Nodes) Kept() int { return len(all.kept) }

// Avoid makes Find return the given nodes only if no other fits; nil means none.
func (all *Nodes) Avoid(nodes []*cluster.Node) { all.avoided = nodes }

// NoteTasks updates the index with the number of tasks of a node.
func (all *Nodes) NoteTasks(n *cluster.Node) {
	if pos := all.state(n).pos; pos >= 0 {
		all.index.SetTasks(pos, len(n.Bindings))
	}
}

// End is the position at which the log of nodes that gained capacity ends. It differs after every
// change.
func (all *Nodes) End() int { return all.base + len(all.changed) }

// CountCordon maintains the number of cordoned nodes.
func (all *Nodes) CountCordon(n *cluster.Node) {
	s := all.state(n)
	if was := s.cordoned; was != !n.Cordon.Absent() {
		s.cordoned = !was
		if was {
			all.cordons--
		} else {
			all.cordons++
		}
	}
}

// Relabel updates the index and the labels to the registration of a node.
func (all *Nodes) Relabel(n *cluster.Node) {
	s := all.state(n)
	for _, id := range s.placements {
		all.labelled[id] = slices.DeleteFunc(all.labelled[id], func(x *cluster.Node) bool { return x == n })
		if len(all.labelled[id]) == 0 {
			delete(all.labelled, id)
		}
	}
	s.placements = s.placements[:0]
	if n.Info.V == nil {
		return
	}
	all.index.AddColumns(n.Info.V)
	for _, l := range n.Info.V.Labels {
		id := types.ResourceID(l.Name + "/" + l.Value)
		if id.IsPlacement() && !slices.Contains(s.placements, id) {
			s.placements = append(s.placements, id)
			all.labelled[id] = append(all.labelled[id], n)
		}
	}
}

// Register maintains the list of nodes, and reports whether it changed.
func (all *Nodes) Register(n *cluster.Node) bool {
	s := all.state(n)
	switch present := n.Info.V != nil; {
	case present && s.pos < 0:
		s.pos = len(all.list)
		all.list = append(all.list, n)
		all.index.Grow()
		all.index.SetLocked(s.pos, s.locked)
		return true
	case !present && s.pos >= 0:
		last := all.list[len(all.list)-1]
		all.index.Remove(s.pos)
		all.list[s.pos] = last
		all.state(last).pos = s.pos
		all.list = all.list[:len(all.list)-1]
		s.pos = -1
		return true
	}
	return false
}

// MayFit reports whether the index has enough on n for an alternative of a shape. It returns true
// if the needs are unknown.
func (all *Nodes) MayFit(s *queue.Shape, n *cluster.Node) bool {
	var some [8]match.Filter
	for _, needs := range s.Resolved {
		if all.passes(all.index.Filters(needs, some[:0]), n) {
			return true
		}
	}
	return len(s.Resolved) == 0
}

// Log records that a node may have gained capacity. The log is bounded: a shape behind its start
// visits all nodes.
func (all *Nodes) Log(n *cluster.Node) {
	if len(all.changed) > 4*len(all.list)+1024 {
		drop := len(all.changed) / 2
		all.base += drop
		all.changed = slices.Delete(all.changed, 0, drop)
	}
	all.changed = append(all.changed, n)
}

// ForgetLog makes every waiting shape visit all nodes again.
func (all *Nodes) ForgetLog() {
	all.base += len(all.changed) + 1
	clear(all.changed)
	all.changed = all.changed[:0]
}

// Keep closes nodes to other placements.
func (all *Nodes) Keep(nodes []*cluster.Node) {
	for _, n := range nodes {
		all.kept[n]++
	}
}

// Unkeep opens them again.
func (all *Nodes) Unkeep(nodes []*cluster.Node) {
	for _, n := range nodes {
		if all.kept[n]--; all.kept[n] == 0 {
			delete(all.kept, n)
		}
	}
}

// Closed reports whether placements on n must wait for an answer.
func (all *Nodes) Closed(n *cluster.Node) bool {
	return len(all.kept) > 0 && all.kept[n] > 0 || all.state(n).locked
}

// OnlyAt returns the one node that may have some of rid; nil if there are several or none.
func (all *Nodes) OnlyAt(rid types.ResourceID) *cluster.Node {
	if at, limited := all.limited(rid); limited && len(at) == 1 {
		return at[0]
	}
	return nil
}

// Note updates the index with the free amounts of a node, as the draft leaves it or, if that is
// nil, as stored.
func (all *Nodes) Note(d *draft.Draft, n *cluster.Node) {
	if d == nil {
		d = all.blank
	}
	if place := all.state(n).pos; place >= 0 {
		r := d.RoomOn(n)
		all.index.SetAll(place, &r)
	}
}

// NoteOf is note for one resource.
func (all *Nodes) NoteOf(d *draft.Draft, n *cluster.Node, rid types.ResourceID) {
	if place := all.state(n).pos; place >= 0 && all.index.Has(rid) {
		r := d.RoomOn(n)
		all.index.Set(place, rid, &r)
	}
}

// Index returns the index of the registered nodes, by their positions.
func (all *Nodes) Index() *match.Index { return &all.index }
