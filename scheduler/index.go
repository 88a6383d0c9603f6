package scheduler

import (
	"math"

	"github.com/escher-sched/escher/controlplane/cluster"
	"github.com/escher-sched/escher/types"
)

// The index says, column by column, how much of each physical resource is free on each
// node, so that a search passes over those that are too full without looking at them.
// It says what a node has left as the draft being made, or the one in flight, leaves it,
// and as the view has it otherwise; of one that takes nothing, nothing is free.
//
// It never says less than there is. That it may say more does no harm: what is found is
// looked at.

// blockSize is of how many nodes, one after the other, the most that one has is kept.
const blockSize = 64

// maxColumns bounds the resources that are indexed: the first that come.
const maxColumns = 16

// absent is how much there is of a resource that a node does not have: less than
// anybody asks for.
const absent types.Quantity = math.MinInt64

// lane is one number for each node, by its place in Core.nodes.
type lane struct {
	free []types.Quantity
	// most is at least the largest of each block.
	most []types.Quantity
}

func (l *lane) set(pos int, q types.Quantity) {
	for len(l.free) <= pos {
		if len(l.free)%blockSize == 0 {
			l.most = append(l.most, absent)
		}
		l.free = append(l.free, absent)
	}
	l.free[pos] = q
	if b := pos / blockSize; q > l.most[b] {
		l.most[b] = q
	}
}

// shrink takes the last one away.
func (l *lane) shrink() {
	l.free = l.free[:len(l.free)-1]
	l.most = l.most[:(len(l.free)+blockSize-1)/blockSize]
}

// tighten finds the largest of a block again.
func (l *lane) tighten(b int) {
	most := absent
	for _, q := range l.free[b*blockSize : min(len(l.free), (b+1)*blockSize)] {
		most = max(most, q)
	}
	l.most[b] = most
}

// column is what is free of one resource.
type column struct {
	rid    types.ResourceID
	amount lane
	// wholes is how much whole devices make up, parts the most that one device has
	// left, where a node has devices; else both are the amount.
	wholes, parts lane
	// capacity is how much there is of it, free or not.
	capacity []types.Quantity
	// devices tells that on some node it is made of devices.
	devices bool
}

// index has the columns.
type index struct {
	columns []*column
	// tasks is how many each node has, locked whether it is in flight.
	tasks  []int32
	locked []bool
}

// grow makes room for one node more.
func (x *index) grow() {
	x.tasks, x.locked = append(x.tasks, 0), append(x.locked, false)
	for _, c := range x.columns {
		c.set(len(x.tasks)-1, noAmounts())
	}
}

// column returns the column of a resource, nil if there is none.
func (x *index) column(rid types.ResourceID) *column {
	for _, c := range x.columns {
		if c.rid == rid {
			return c
		}
	}
	return nil
}

// add makes columns for what a node has. A new one begins with as much as anybody may
// ask for: no other node has been asked how much it has.
func (x *index) add(n *cluster.Node) {
	for _, r := range n.Info.V.Capacity {
		rid := types.ResourceID(r.Name)
		if len(x.columns) == maxColumns || x.column(rid) != nil {
			continue
		}
		c := &column{rid: rid}
		for pos := range x.tasks {
			c.set(pos, noAmounts())
		}
		x.columns = append(x.columns, c)
	}
}

// amounts are the numbers of one node in a column.
type amounts struct{ free, wholes, parts, capacity types.Quantity }

// noAmounts are those of a node that does not have it, or takes nothing.
func noAmounts() amounts { return amounts{absent, absent, absent, 0} }

func (c *column) set(pos int, a amounts) {
	c.amount.set(pos, a.free)
	c.wholes.set(pos, a.wholes)
	c.parts.set(pos, a.parts)
	if pos == len(c.capacity) {
		c.capacity = append(c.capacity, 0)
	}
	c.capacity[pos] = a.capacity
}

// move takes the node at pos away, and puts the last one there.
func (x *index) move(pos int) {
	last := len(x.tasks) - 1
	for _, c := range x.columns {
		c.set(pos, amounts{c.amount.free[last], c.wholes.free[last], c.parts.free[last], c.capacity[last]})
		for _, l := range []*lane{&c.amount, &c.wholes, &c.parts} {
			l.shrink()
		}
		c.capacity = c.capacity[:last]
	}
	x.tasks[pos], x.locked[pos] = x.tasks[last], x.locked[last]
	x.tasks, x.locked = x.tasks[:last], x.locked[:last]
}

// filter is how much a lane must have.
type filter struct {
	*lane
	least types.Quantity
}

// filters returns what the index can tell about needs.
func (x *index) filters(needs []cluster.Need, out []filter) []filter {
	for _, need := range needs {
		c := x.column(need.ID)
		switch {
		case c == nil:
		case need.Amount >= whole && need.Amount%whole == 0:
			out = append(out, filter{&c.wholes, need.Amount})
		case need.Amount < whole:
			out = append(out, filter{&c.parts, need.Amount})
		default:
			out = append(out, filter{&c.amount, need.Amount})
		}
	}
	return out
}

// passes reports whether the node at pos has enough of everything.
func passes(filters []filter, pos int) bool {
	for i := range filters {
		if filters[i].free[pos] < filters[i].least {
			return false
		}
	}
	return true
}

// next returns the first place from which on, before end, a node has enough of
// everything; end if there is none.
func next(filters []filter, from, end int) int {
	if len(filters) == 0 {
		return from
	}
	for pos := from; pos < end; {
		b := pos / blockSize
		stop := min(end, (b+1)*blockSize)
		if !blockPasses(filters, b) {
			pos = stop
			continue
		}
		begin := pos
		for ; pos < stop; pos++ {
			if passes(filters, pos) {
				return pos
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
func blockPasses(filters []filter, b int) bool {
	for i := range filters {
		if filters[i].most[b] < filters[i].least {
			return false
		}
	}
	return true
}

// note enters what a node has free into the index, as the draft leaves it or, if that is
// nil, as the view has it.
func (c *Core) note(d *Draft, n *cluster.Node) {
	if d == nil {
		d = c.blank
	}
	for _, col := range c.index.columns {
		c.noteIn(col, d, n)
	}
	if pos := c.state(n).pos; pos >= 0 {
		c.index.tasks[pos] = int32(d.tasksOn(n))
	}
}

// noteIn is note, of one column.
func (c *Core) noteIn(col *column, d *Draft, n *cluster.Node) {
	pos := c.state(n).pos
	if pos < 0 {
		return
	}
	free, ok := d.free(n, col.rid)
	if !ok || !n.Eligible() {
		col.set(pos, noAmounts())
		return
	}
	a := amounts{free: free}
	a.capacity, _ = c.view.Capacity(n, col.rid)
	var devices bool
	a.wholes, a.parts, devices = d.freeDevices(n, col.rid, free)
	col.devices = col.devices || devices
	col.set(pos, a)
}

// freeDevices returns how much of rid, of which so much is free on n, there is in whole
// devices, and the most that one device has left; both are free if it is not made of
// devices there.
func (d *Draft) freeDevices(n *cluster.Node, rid types.ResourceID, free types.Quantity) (wholes, parts types.Quantity, devices bool) {
	if n.Devices.V == nil || rid == types.CPU || rid == types.Memory {
		return free, free, false
	}
	if !d.eachDevice(n, rid, func(room types.Quantity, untouched bool) bool {
		if untouched {
			wholes += whole
		}
		parts = max(parts, room)
		return true
	}) {
		return free, free, false
	}
	return min(free, wholes), min(free, parts), true
}
