package scheduler

import (
	"github.com/escher-sched/escher/controlplane"
	"github.com/escher-sched/escher/controlplane/cluster"
	"github.com/escher-sched/escher/scheduler/queue"
	"github.com/escher-sched/escher/types"
)

// Draft is a transaction under construction, then in flight. While under construction it is also
// the snapshot after its commit: later decisions of a draft build on earlier ones.
type Draft struct {
	// Change is the change to commit.
	Change *controlplane.Change
	// Binds are the tasks that it binds, with their nodes.
	Binds []Bind
	// Grants are the reservations it grants in full.
	Grants []cluster.ID

	// writes are the decoded effects of its operations.
	writes []cluster.Write

	chain
	core    *Core // nil for a draft of NewDraft
	view    *cluster.View
	limits  controlplane.Limits
	places  map[*cluster.Node]*place
	order   []*place
	pools   map[*cluster.Pool]*drawn
	drawn   []*drawn
	granted map[cluster.ID]*types.Grant
	left    map[string]*leftover
	leaving []string // keys of left, in order
	offered map[types.ResourceID][]*cluster.Node
	// fresh are those of offered that have not woken any entry yet.
	fresh []types.ResourceID
	// gave reports whether the draft returns capacity.
	gave bool
	// reliedOnLast caches the last relied keys, which are those of most tasks.
	reliedOnLast struct {
		ns    string
		space relied
		id    types.ResourceID
		grant relied
	}
	// keys are the relied keys of the last task bound.
	keys []relied
	// cordons reports whether the draft compares that no cordon is new.
	cordons bool
	// collecting is the accumulating grant, if the draft changes it.
	collecting *collecting
	// whole reports whether the grant last collected for holds all that it wants.
	whole bool
	// atOnce is the AtOnce reservation that the draft collects for or hands over.
	atOnce *cluster.Reservation
	// kept are the nodes of a collection: see accumulator.
	kept    []*cluster.Node
	held    []any // locked objects: see Core.locks
	mine    map[any]struct{}
	entries []*queue.Entry
	// expected is the approximate number of tasks that it will have.
	expected int
	// last is the node of the last task placed; nil if unknown.
	last  *cluster.Node
	items int
	// bundles is the number of bundles it grants. It may bind as many more tasks, which draw on
	// them.
	bundles int
	// ahead is the approximate size in bytes of the allocations, which are written last.
	ahead  int
	closed bool
}

// Bind is one task bound to a node.
type Bind struct {
	Task    cluster.ID
	Node    string
	Attempt int
	// Alternative is the index of the chosen alternative.
	Alternative int
}

// place is a node as the draft leaves it.
type place struct {
	node  *cluster.Node
	alloc *types.Allocated
	// extra is capacity that the draft itself adds: provided, or granted.
	extra map[types.ResourceID]types.Quantity
	// ended are the bindings with provided resources that the draft ends.
	ended []*cluster.Binding
	// binds is the number of tasks that the draft binds here.
	binds int
	// written reports whether the allocation is compared and written; until then the place is a
	// trial.
	written bool
	// eligible reports whether the draft has the compares of a bind.
	eligible bool
}

// drawn is a pool as the draft leaves it.
type drawn struct {
	pool    *cluster.Pool
	alloc   *types.Allocated
	written bool
	// after is the draft that alloc is based on; nil means the view.
	after *Draft
	// value is the written value.
	value []byte
}

// NewDraft returns an empty draft of a view, which must not change before Seal. limits are those of
// the store. batch identifies the transaction: see controlplane.NewBatch.
func NewDraft(view *cluster.View, limits controlplane.Limits, batch uint64) *Draft {
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

// Grant returns the grant of a reservation that the draft grants; nil if it grants none.
func (d *Draft) Grant(id cluster.ID) *types.Grant { return d.granted[id] }

// Clear takes every allocation of a node away.
func (d *Draft) Clear(n *cluster.Node) { d.trial(n).alloc = &types.Allocated{} }

// newDraft makes a draft of the core.
func (c *Core) newDraft(limits controlplane.Limits, batch uint64) *Draft {
	d := NewDraft(c.view, limits, batch)
	d.core = c
	d.expected = min(c.queue.ToPlace()+c.bindings.len()+c.tasks.len(), c.batch)
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

// has reports whether this draft claims x.
func (d *Draft) has(x any) bool {
	_, ok := d.mine[x]
	return ok
}

// spare is the space left in a transaction for an accumulating grant and its leadership.
const spare = 4

// room reports whether so many more compares and operations fit. It counts the allocations of the
// places ahead, because they are written last.
func (d *Draft) room(compares, ops int) bool {
	c, o := d.Change.Size()
	c += spare
	o += len(d.order) + len(d.drawn) + len(d.leaving) + spare
	return c+compares <= d.limits.Ops && o+ops <= d.limits.Ops &&
		(d.Change.Bytes()+d.ahead)/3 < d.limits.Bytes/4
}

// roomToBind reports whether one more task fits that is bound to n and relies on keys. Near the
// limit it counts exactly, without compares already present.
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

// put writes a value of a key that was compared with revision mod; mod 0 creates the key.
func (d *Draft) put(key string, m types.Message, mod int64) {
	if d.writes == nil {
		d.makeRoom()
	}
	d.Change.Put(key, m)
	ops := d.Change.Txn().Ops
	d.writes = append(d.writes, cluster.Write{Key: key, Value: m, Encoded: ops[len(ops)-1].Value, Made: mod == 0})
}

// makeRoom allocates space for the expected contents: most transactions are full.
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

// trial returns the node as the draft leaves it, for changes that may be reverted.
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

// at returns the node as the draft leaves it, for changes to commit.
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

// sizeOf is the approximate size of the allocated amounts in bytes.
func sizeOf(a *types.Allocated) int {
	n := 64
	for _, h := range a.Holds {
		n += 32 + len(h.Resource) + 24*len(h.Devices)
	}
	return n
}

// trialPool returns the pool as the draft leaves it, for changes that may be reverted.
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

// from returns the pool as the draft leaves it, for changes to commit.
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

// PoolFree returns the free amount of a pool, as the draft leaves it.
func (d *Draft) PoolFree(p *cluster.Pool) types.Quantity {
	x := d.pools[p]
	if x == nil {
		if left, after := d.leftOf(p); after != nil {
			return p.Capacity().Minus(left.Of(p.ID))
		}
		return p.Free()
	}
	return p.Capacity().Minus(x.alloc.Of(p.ID))
}

// Take counts holds as allocated on n.
func (d *Draft) Take(n *cluster.Node, holds []types.Holding) {
	for _, h := range holds {
		d.account(n, h).Take(h)
		d.noted(n, h.Resource)
	}
}

// giveBack counts holds as free on n.
func (d *Draft) giveBack(n *cluster.Node, holds []types.Holding) {
	d.gave = true
	d.Undo(n, holds)
}

// Undo reverts take.
func (d *Draft) Undo(n *cluster.Node, holds []types.Holding) {
	for _, h := range holds {
		d.account(n, h).Return(h)
		d.noted(n, h.Resource)
	}
}

// noted tells the index how much of rid is free on n.
func (d *Draft) noted(n *cluster.Node, rid types.ResourceID) {
	if d.core == nil {
		return
	}
	d.core.noteOf(d, n, rid)
}

// account returns the account of h, held on n. A deleted pool counts as long as tasks hold any of
// it.
func (d *Draft) account(n *cluster.Node, h types.Holding) *types.Allocated {
	if !h.Cluster {
		return d.trial(n).alloc
	}
	return d.trialPool(d.view.PoolOf(h.Resource)).alloc
}

// keep commits the trial on n, and on the pools of holds.
func (d *Draft) keep(n *cluster.Node, holds []types.Holding) {
	d.at(n)
	for _, h := range holds {
		if h.Cluster {
			d.from(d.view.PoolOf(h.Resource))
		}
	}
}

// offer registers capacity that the draft itself adds to n.
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

// Seal writes the resulting allocations, and returns the transaction to commit. Nothing may be added
// to the draft after it.
func (d *Draft) Seal() controlplane.Txn {
	for _, p := range d.order {
		d.put(d.keysOf(p.node).allocated, p.alloc, p.node.Allocated.Mod)
	}
	for _, x := range d.drawn {
		ns, name, _ := x.pool.ID.Split()
		mod := x.pool.Allocated.Mod
		if x.after != nil {
			mod = -1 // the key exists
		}
		d.put(controlplane.PoolKey(ns, name), x.alloc, mod)
		x.value = d.writes[len(d.writes)-1].Encoded
	}
	d.sealCollecting()
	for _, key := range d.leaving {
		d.put(key, d.left[key].Provided, d.left[key].mod)
	}
	return d.Change.Txn()
}
