package scheduler

import (
	"github.com/escher-sched/escher/controlplane"
	"github.com/escher-sched/escher/controlplane/cluster"
	"github.com/escher-sched/escher/types"
)

// Draft is a transaction: under construction, then in flight. While it is made,
// it also is the snapshot as it will be once it is committed: later decisions of
// the same draft build on earlier ones.
type Draft struct {
	// Change is what to commit.
	Change *controlplane.Change
	// Binds are the tasks it binds, and where.
	Binds []Bind
	// Grants are the reservations it grants in full.
	Grants []cluster.ID

	// writes are what its operations do, decoded.
	writes []cluster.Write

	chain
	core    *Core // nil: of none, and only looked at
	view    *cluster.View
	limits  controlplane.Limits
	places  map[*cluster.Node]*place
	order   []*place
	pools   map[*cluster.Pool]*drawn
	drawn   []*drawn
	granted map[cluster.ID]*types.Grant
	left    map[string]*leftover
	leaving []string // the keys of left, in order
	offered map[types.ResourceID][]*cluster.Node
	// fresh are those of offered that nobody was woken for yet.
	fresh []types.ResourceID
	// gave tells that something is given back.
	gave bool
	// reliedOnLast are keys relied on as they were found last: those of most tasks.
	reliedOnLast struct {
		ns    string
		space relied
		id    types.ResourceID
		grant relied
	}
	// keys are those that the last task bound relies on.
	keys []relied
	// cordons tells that it is compared that there is no new one.
	cordons bool
	// collecting is the accumulating grant, if the draft changes it.
	collecting *collecting
	// whole reports whether the grant that was collected for last holds all that it wants.
	whole bool
	// atOnce is the reservation that the draft collects for at once, or hands over.
	atOnce *cluster.Reservation
	// kept are the nodes of a collection: see accumulator.
	kept    []*cluster.Node
	held    []any // what is locked: see Core.locks
	mine    map[any]struct{}
	entries []*entry
	// expected is about how many tasks will be in it.
	expected int
	// last is the node that the last task placed was bound to; nil if none says.
	last  *cluster.Node
	items int
	// bundles are how many it grants: it may bind as many tasks more, which draw on them.
	bundles int
	// ahead is about how many bytes the allocations take that are written last.
	ahead  int
	closed bool
}

// Bind is one task bound to a node.
type Bind struct {
	Task    cluster.ID
	Node    string
	Attempt int
	// Alternative is the index of the alternative taken.
	Alternative int
}

// place is a node as the draft leaves it.
type place struct {
	node  *cluster.Node
	alloc *types.Allocated
	// extra is capacity that the draft itself brings: provided, or granted.
	extra map[types.ResourceID]types.Quantity
	// ended are the bindings that the draft ends, and that provide something.
	ended []*cluster.Binding
	// binds counts the tasks bound here by the draft.
	binds int
	// written tells that the allocation is compared and written; until then the
	// place is a trial.
	written bool
	// eligible tells that the compares of a bind are in.
	eligible bool
}

// drawn is a pool as the draft leaves it.
type drawn struct {
	pool    *cluster.Pool
	alloc   *types.Allocated
	written bool
	// after is the draft that leaves it so; nil if it is as the view has it.
	after *Draft
	// value is what is put.
	value []byte
}

func newDraft(view *cluster.View, limits controlplane.Limits, batch uint64) *Draft {
	return &Draft{
		Change:  controlplane.NewChange(batch),
		view:    view,
		limits:  limits,
		places:  make(map[*cluster.Node]*place, 64),
		pools:   make(map[*cluster.Pool]*drawn),
		granted: make(map[cluster.ID]*types.Grant),
		left:    make(map[string]*leftover),
		offered: make(map[types.ResourceID][]*cluster.Node),
		mine:    make(map[any]struct{}),
	}
}

// newDraft makes a draft of the core.
func (c *Core) newDraft(limits controlplane.Limits, batch uint64) *Draft {
	d := newDraft(c.view, limits, batch)
	d.core = c
	d.expected = min(c.queue.toPlace+c.bindings.len()+c.tasks.len(), c.batch)
	return d
}

// keysOf returns the keys of a node.
func (d *Draft) keysOf(n *cluster.Node) nodeKeys {
	if d.core == nil {
		return keysOf(n)
	}
	return d.core.state(n).keys
}

// claim locks x for this draft.
func (d *Draft) claim(x any) {
	if _, ok := d.mine[x]; !ok {
		d.mine[x] = struct{}{}
		d.held = append(d.held, x)
	}
}

// has reports whether x is claimed by this draft.
func (d *Draft) has(x any) bool {
	_, ok := d.mine[x]
	return ok
}

// spare is what is left in a transaction for what an accumulating grant takes, and
// the leadership that goes with it.
const spare = 4

// room reports whether so many more compares and operations fit. The allocations
// of the places are written last, so they are counted ahead.
func (d *Draft) room(compares, ops int) bool {
	c, o := d.Change.Size()
	c += spare
	o += len(d.order) + len(d.drawn) + len(d.leaving) + spare
	return c+compares <= d.limits.Ops && o+ops <= d.limits.Ops &&
		(d.Change.Bytes()+d.ahead)/3 < d.limits.Bytes/4
}

// roomToBind reports whether one task more fits that is bound to n and relies on keys. At
// the end of a transaction it is counted what is in it already.
func (d *Draft) roomToBind(n *cluster.Node, keys []relied, needs []cluster.Need) bool {
	if d.room(2+nodeCompares+len(keys)+len(needs), 3+len(needs)) {
		return true
	}
	compares, ops := 2, 2
	if p := d.places[n]; p == nil || !p.eligible {
		compares, ops = compares+nodeCompares, ops+1
	}
	for _, r := range keys {
		if !d.Change.Depends(r.key, r.mod) {
			compares++
		}
	}
	for _, x := range needs {
		if p := d.view.Pool(x.ID); p != nil && (d.pools[p] == nil || !d.pools[p].written) {
			compares, ops = compares+1, ops+1
		}
	}
	return d.room(compares, ops)
}

// empty reports whether there is nothing to commit.
func (d *Draft) empty() bool { return d.items == 0 }

// put adds a value of a key that was compared with revision mod; 0: that is made.
func (d *Draft) put(key string, m types.Message, mod int64) {
	if d.writes == nil {
		d.makeRoom()
	}
	d.Change.Put(key, m)
	ops := d.Change.Txn().Ops
	d.writes = append(d.writes, cluster.Write{Key: key, Value: m, Encoded: ops[len(ops)-1].Value, Made: mod == 0})
}

// makeRoom makes room for what is expected: most transactions are full.
func (d *Draft) makeRoom() {
	ops := min(d.limits.Ops, 5*d.expected/2+1)
	d.writes = make([]cluster.Write, 0, ops)
	d.Change.Expect(min(d.limits.Ops, 4*d.expected), ops)
}

// remove deletes a key.
func (d *Draft) remove(key string) {
	d.Change.Delete(key)
	d.writes = append(d.writes, cluster.Write{Key: key})
}

// trial returns the node as the draft leaves it, to be changed and changed back.
func (d *Draft) trial(n *cluster.Node) *place {
	p := d.places[n]
	if p == nil {
		p = &place{node: n}
		if n.Allocated.V != nil {
			p.alloc = n.Allocated.V.Clone()
		} else {
			p.alloc = &types.Allocated{}
		}
		d.places[n] = p
	}
	return p
}

// at returns the node as the draft leaves it, to be changed for good.
func (d *Draft) at(n *cluster.Node) *place {
	p := d.trial(n)
	if !p.written {
		p.written = true
		d.order = append(d.order, p)
		d.ahead += sizeOf(p.alloc)
		d.Change.If(controlplane.Compare{Key: d.keysOf(n).allocated, Revision: n.Allocated.Mod})
	}
	return p
}

// sizeOf is about how many bytes what is in use takes.
func sizeOf(a *types.Allocated) int {
	n := 64
	for _, h := range a.Holds {
		n += 32 + len(h.Resource) + 24*len(h.Devices)
	}
	return n
}

// trialPool returns the pool as the draft leaves it, to be changed and changed back.
func (d *Draft) trialPool(p *cluster.Pool) *drawn {
	x := d.pools[p]
	if x == nil {
		x = &drawn{pool: p, alloc: &types.Allocated{}}
		left, after := d.leftOf(p)
		if left != nil {
			x.alloc = left.Clone()
		}
		x.after = after
		d.pools[p] = x
	}
	return x
}

// from returns the pool as the draft leaves it, to be changed for good.
func (d *Draft) from(p *cluster.Pool) *drawn {
	x := d.trialPool(p)
	if !x.written {
		x.written = true
		d.drawn = append(d.drawn, x)
		d.claim(p)
		if x.after != nil {
			d.assume(x)
			return x
		}
		ns, name, _ := p.ID.Split()
		d.Change.IfUnchanged(controlplane.PoolKey(ns, name), p.Allocated.Mod)
	}
	return x
}

// poolFree returns what is free of a pool, as the draft leaves it.
func (d *Draft) poolFree(p *cluster.Pool) types.Quantity {
	x := d.pools[p]
	if x == nil {
		if left, after := d.leftOf(p); after != nil {
			return p.Capacity().Minus(left.Of(p.ID))
		}
		return p.Free()
	}
	return p.Capacity().Minus(x.alloc.Of(p.ID))
}

// take counts holds as in use on n.
func (d *Draft) take(n *cluster.Node, holds []types.Holding) {
	for _, h := range holds {
		d.account(n, h).Take(h)
		d.noted(n, h.Resource)
	}
}

// giveBack counts holds as no longer in use on n.
func (d *Draft) giveBack(n *cluster.Node, holds []types.Holding) {
	d.gave = true
	d.undo(n, holds)
}

// undo counts holds, taken by this draft, as not taken.
func (d *Draft) undo(n *cluster.Node, holds []types.Holding) {
	for _, h := range holds {
		d.account(n, h).Return(h)
		d.noted(n, h.Resource)
	}
}

// noted tells the index how much there is of rid on n.
func (d *Draft) noted(n *cluster.Node, rid types.ResourceID) {
	if d.core == nil {
		return
	}
	d.core.noteOf(d, n, rid)
}

// account returns where h, held on n, is counted. A pool that is not there any more
// counts for as long as anything of it is held.
func (d *Draft) account(n *cluster.Node, h types.Holding) *types.Allocated {
	if !h.Cluster {
		return d.trial(n).alloc
	}
	return d.trialPool(d.view.PoolOf(h.Resource)).alloc
}

// keep makes the trial on n, and on the pools of holds, be written.
func (d *Draft) keep(n *cluster.Node, holds []types.Holding) {
	d.at(n)
	for _, h := range holds {
		if h.Cluster {
			d.from(d.view.PoolOf(h.Resource))
		}
	}
}

// offer makes capacity known that the draft itself brings to n.
func (d *Draft) offer(n *cluster.Node, rid types.ResourceID, q types.Quantity) {
	p := d.at(n)
	if p.extra == nil {
		p.extra = make(map[types.ResourceID]types.Quantity)
	}
	had, known := p.extra[rid]
	p.extra[rid] = had.Add(q)
	if !known {
		d.offered[rid] = append(d.offered[rid], n)
	}
	if last := len(d.fresh) - 1; last < 0 || d.fresh[last] != rid {
		d.fresh = append(d.fresh, rid)
	}
}

// seal writes what the draft left allocated. Nothing may be added after it.
func (d *Draft) seal() {
	for _, p := range d.order {
		d.put(d.keysOf(p.node).allocated, p.alloc, p.node.Allocated.Mod)
	}
	for _, x := range d.drawn {
		ns, name, _ := x.pool.ID.Split()
		mod := x.pool.Allocated.Mod
		if x.after != nil {
			mod = -1 // of a key that is there
		}
		d.put(controlplane.PoolKey(ns, name), x.alloc, mod)
		x.value = d.writes[len(d.writes)-1].Encoded
	}
	d.sealCollecting()
	for _, key := range d.leaving {
		d.put(key, d.left[key].Provided, d.left[key].mod)
	}
}
