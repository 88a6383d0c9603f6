package match

import (
	"math"

	"github.com/escher-sched/escher/controlplane/cluster"
	"github.com/escher-sched/escher/types"
)

// Index says how much of each physical resource is free on each node, one column for each
// resource, so that a search skips full nodes without looking at them. Nodes have places,
// counted from 0. The caller sets an entry whenever a node, or a decision about it, changes.
//
// An entry never says less than there is. It may say more: what a search finds is checked.
// The zero value is an index without nodes.
type Index struct {
	columns []*column
	// tasks is the number of tasks of each node, locked whether it is locked.
	tasks  []int32
	locked []bool
}

// blockSize is the number of consecutive nodes for which the largest entry is kept.
const blockSize = 64

// maxColumns limits the resources that are indexed: the first ones.
const maxColumns = 16

// absent is the entry of a node that does not have a resource: less than anyone asks for.
const absent types.Quantity = math.MinInt64

// list is one number for each node.
type list struct {
	free []types.Quantity
	// most is at least the largest of each block.
	most []types.Quantity
}

func (l *list) set(place int, q types.Quantity) {
	for len(l.free) <= place {
		if len(l.free)%blockSize == 0 {
			l.most = append(l.most, absent)
		}
		l.free = append(l.free, absent)
	}
	l.free[place] = q
	if b := place / blockSize; q > l.most[b] {
		l.most[b] = q
	}
}

// shrink removes the last one.
func (l *list) shrink() {
	l.free = l.free[:len(l.free)-1]
	l.most = l.most[:(len(l.free)+blockSize-1)/blockSize]
}

// tighten finds the largest of a block again.
func (l *list) tighten(b int) {
	most := absent
	for _, q := range l.free[b*blockSize : min(len(l.free), (b+1)*blockSize)] {
		most = max(most, q)
	}
	l.most[b] = most
}

// column is the free amounts of one resource.
type column struct {
	id     types.ResourceID
	amount list
	// wholes is how much whole devices add up to, parts the most that one device has left, on a
	// node with devices. On others both are the amount.
	wholes, parts list
	// capacity is how much there is, free or not.
	capacity []types.Quantity
	// devices reports whether some node has the resource made of devices.
	devices bool
}

// entry is one node in a column.
type entry struct{ free, wholes, parts, capacity types.Quantity }

// noEntry is that of a node that does not have the resource, or takes nothing.
func noEntry() entry { return entry{absent, absent, absent, 0} }

func (c *column) set(place int, e entry) {
	c.amount.set(place, e.free)
	c.wholes.set(place, e.wholes)
	c.parts.set(place, e.parts)
	if place == len(c.capacity) {
		c.capacity = append(c.capacity, 0)
	}
	c.capacity[place] = e.capacity
}

// Grow adds a node, which has nothing yet.
func (x *Index) Grow() {
	x.tasks, x.locked = append(x.tasks, 0), append(x.locked, false)
	for _, c := range x.columns {
		c.set(len(x.tasks)-1, noEntry())
	}
}

// Remove removes the node at a place, and moves the last node there.
func (x *Index) Remove(place int) {
	last := len(x.tasks) - 1
	for _, c := range x.columns {
		c.set(place, entry{c.amount.free[last], c.wholes.free[last], c.parts.free[last], c.capacity[last]})
		for _, l := range []*list{&c.amount, &c.wholes, &c.parts} {
			l.shrink()
		}
		c.capacity = c.capacity[:last]
	}
	x.tasks[place], x.locked[place] = x.tasks[last], x.locked[last]
	x.tasks, x.locked = x.tasks[:last], x.locked[:last]
}

// column returns the column of a resource, nil if there is none.
func (x *Index) column(id types.ResourceID) *column {
	for _, c := range x.columns {
		if c.id == id {
			return c
		}
	}
	return nil
}

// Has reports whether the index has a column of a resource.
func (x *Index) Has(id types.ResourceID) bool { return x.column(id) != nil }

// AddColumns adds columns for the resources that a node registers.
func (x *Index) AddColumns(n *types.Node) {
	for _, r := range n.Capacity {
		id := types.ResourceID(r.Name)
		if len(x.columns) == maxColumns || x.column(id) != nil {
			continue
		}
		c := &column{id: id}
		for place := range x.tasks {
			c.set(place, noEntry()) // no other node has registered it
		}
		x.columns = append(x.columns, c)
	}
}

// SetTasks sets the number of tasks of a node.
func (x *Index) SetTasks(place, tasks int) { x.tasks[place] = int32(tasks) }

// SetLocked sets whether a node is locked.
func (x *Index) SetLocked(place int, locked bool) { x.locked[place] = locked }

// Locked reports whether a node is locked.
func (x *Index) Locked(place int) bool { return x.locked[place] }

// SetAll sets the entries, and the number of tasks, of a node.
func (x *Index) SetAll(place int, r *Room) {
	for _, c := range x.columns {
		c.setRoom(place, r)
	}
	x.SetTasks(place, r.Tasks())
}

// Set sets the entry of a node for one resource, if that has a column.
func (x *Index) Set(place int, id types.ResourceID, r *Room) {
	if c := x.column(id); c != nil {
		c.setRoom(place, r)
	}
}

func (c *column) setRoom(place int, r *Room) {
	free, ok := r.Free(c.id)
	if !ok || !r.Node.Eligible() {
		c.set(place, noEntry())
		return
	}
	e := entry{free: free, capacity: r.Capacity(c.id)}
	var devices bool
	e.wholes, e.parts, devices = r.FreeDevices(c.id, free)
	c.devices = c.devices || devices
	c.set(place, e)
}

// Check returns how the entries of a node differ from a room; nil if they do not. It is for tests:
// an entry that says more than there is is allowed while a decision is in flight.
func (x *Index) Check(place int, r *Room) error {
	if got := int(x.tasks[place]); got != r.Tasks() {
		return types.Errorf(types.Internal, "index: %d tasks, want %d", got, r.Tasks())
	}
	for _, c := range x.columns {
		want, ok := r.Free(c.id)
		if !ok || !r.Node.Eligible() {
			want = absent
		}
		if got := c.amount.free[place]; got != want {
			return types.Errorf(types.Internal, "index: %d of %s, want %d", got, c.id, want)
		}
		for _, l := range []*list{&c.amount, &c.wholes, &c.parts} {
			if l.most[place/blockSize] < l.free[place] {
				return types.Errorf(types.Internal, "index: %s has more than the most of its block", c.id)
			}
		}
	}
	return nil
}

// Filter is what the index requires of a node for one need.
type Filter struct {
	*list
	least types.Quantity
}

// Filters appends to out what the index requires of a node for needs.
func (x *Index) Filters(needs []cluster.Need, out []Filter) []Filter {
	for _, need := range needs {
		c := x.column(need.ID)
		switch {
		case c == nil:
		case need.Amount >= Whole && need.Amount%Whole == 0:
			out = append(out, Filter{&c.wholes, need.Amount})
		case need.Amount < Whole:
			out = append(out, Filter{&c.parts, need.Amount})
		default:
			out = append(out, Filter{&c.amount, need.Amount})
		}
	}
	return out
}

// Passes reports whether the node at a place may have enough of everything.
func Passes(filters []Filter, place int) bool {
	for i := range filters {
		if filters[i].free[place] < filters[i].least {
			return false
		}
	}
	return true
}

// Next returns the first place from which on, before end, a node may have enough of everything;
// end if there is none.
func Next(filters []Filter, from, end int) int {
	if len(filters) == 0 {
		return from
	}
	for place := from; place < end; {
		b := place / blockSize
		stop := min(end, (b+1)*blockSize)
		if !blockPasses(filters, b) {
			place = stop
			continue
		}
		begin := place
		for ; place < stop; place++ {
			if Passes(filters, place) {
				return place
			}
		}
		if stop-begin == blockSize {
			for i := range filters {
				filters[i].tighten(b)
			}
		}
	}
	return end
}

// blockPasses reports whether some node of a block may have enough of each.
func blockPasses(filters []Filter, b int) bool {
	for i := range filters {
		if filters[i].most[b] < filters[i].least {
			return false
		}
	}
	return true
}

// Ask is a need whose relevant facts are all in the index.
type Ask struct {
	column  *column
	amount  types.Quantity
	devices bool
}

// Asks appends needs to out. ok reports whether the index has all relevant facts: all needs are
// physical, and neither models nor the distance of devices matter.
func (x *Index) Asks(needs []cluster.Need, out []Ask) (asks []Ask, ok bool) {
	for _, need := range needs {
		c := x.column(need.ID)
		if c == nil || c.devices && need.Amount > Whole || need.Devices != nil {
			return nil, false
		}
		out = append(out, Ask{c, need.Amount, need.ID.OfDevices()})
	}
	return out, len(needs) > 0
}

// Score is Room.Score of the node at a place.
func (x *Index) Score(asks []Ask, place int) Score {
	var most float64
	for _, a := range asks {
		most = max(most, share(a.column.capacity[place], a.column.amount.free[place], a.amount))
	}
	return Score{Load: most + float64(x.tasks[place])*taskLoad}
}

// Left is Room.Left of the node at a place.
func (x *Index) Left(asks []Ask, place int) Score {
	var left, most float64
	for _, a := range asks {
		free := a.column.amount.free[place]
		if a.devices {
			left += float64(free-a.amount) / float64(Whole)
			continue
		}
		most = max(most, share(a.column.capacity[place], free, a.amount))
	}
	return Score{Left: left, Load: most + float64(x.tasks[place])*taskLoad}
}
