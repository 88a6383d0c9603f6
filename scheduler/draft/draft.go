// Package draft makes the transactions of schedulers. A Draft gathers decisions about a view: binds,
// ends, grants, releases. It adds the compares that make each decision correct, whatever other
// schedulers run, and it is the snapshot after its commit. It knows no queue and no order.
package draft

import (
	"iter"

	"github.com/escher-sched/escher/controlplane"
	"github.com/escher-sched/escher/controlplane/cluster"
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

	hooks   *Hooks
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
	// held are the objects that it decides about, in order; mine is their set.
	held []any
	mine map[any]struct{}
	// expected is the approximate number of tasks that it will have.
	expected int
	items    int
	// bundles is the number of bundles it grants. It may bind as many more tasks, which draw on
	// them.
	bundles int
	// ahead is the approximate size in bytes of the allocations, which are written last.
	ahead int
}

// Hooks connect a draft to the scheduler that makes it. A draft works without any of them.
type Hooks struct {
	// Keys returns the keys of a node, which many drafts compare.
	Keys func(*cluster.Node) NodeKeys
	// Behind returns the draft in flight behind which this one may draw on a pool; nil if none.
	Behind func(*cluster.Pool) *Draft
	// Noted is called when a decision of the draft changes how much of a resource is free on a
	// node.
	Noted func(*Draft, *cluster.Node, types.ResourceID)
	// Cordons returns the number of cordoned nodes.
	Cordons func() int
}

// NodeKeys are the keys of a node that every bind compares.
type NodeKeys struct{ node, alive, allocated string }

func KeysOf(n *cluster.Node) NodeKeys {
	return NodeKeys{controlplane.NodeKey(n.Name), controlplane.AliveKey(n.Name), controlplane.AllocatedKey(n.Name)}
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

// New returns an empty draft of a view, which must not change before Seal. limits are those of
// the store. batch identifies the transaction: see controlplane.NewBatch.
func New(view *cluster.View, limits controlplane.Limits, batch uint64) *Draft {
	return NewFor(&Hooks{}, view, limits, batch, 0)
}

// NewFor is New for a scheduler with hooks, and with the approximate number of tasks that the
// draft will have.
func NewFor(hooks *Hooks, view *cluster.View, limits controlplane.Limits, batch uint64, expected int) *Draft {
	return &Draft{
		hooks:    hooks,
		expected: expected,
		Change:   controlplane.NewChange(batch),
		view:     view,
		limits:   limits,
		places:   make(map[*cluster.Node]*place, 64),
		pools:    make(map[*cluster.Pool]*drawn),
		granted:  make(map[cluster.ID]*types.Grant),
		left:     make(map[string]*leftover),
		offered:  make(map[types.ResourceID][]*cluster.Node),
		mine:     make(map[any]struct{}),
	}
}

// Granted returns the grant of a reservation that the draft grants; nil if it grants none.
func (d *Draft) Granted(id cluster.ID) *types.Grant { return d.granted[id] }

// Clear takes every allocation of a node away.
func (d *Draft) Clear(n *cluster.Node) { d.trial(n).alloc = &types.Allocated{} }

// KeysOf returns the keys of a node.
func (d *Draft) keysOf(n *cluster.Node) NodeKeys {
	if d.hooks.Keys == nil {
		return KeysOf(n)
	}
	return d.hooks.Keys(n)
}

// Nodes yields the nodes whose allocations the draft writes, in order.
func (d *Draft) Nodes() iter.Seq[*cluster.Node] {
	return func(yield func(*cluster.Node) bool) {
		for _, p := range d.order {
			if !yield(p.node) {
				return
			}
		}
	}
}

// NumNodes returns the number of nodes whose allocations the draft writes.
func (d *Draft) NumNodes() int { return len(d.order) }

// BindsOn returns the number of tasks that the draft binds to a node.
func (d *Draft) BindsOn(n *cluster.Node) int { return d.trial(n).binds }

// AllocatedOn returns the allocated amounts of a node, as the draft leaves it.
func (d *Draft) AllocatedOn(n *cluster.Node) *types.Allocated { return d.trial(n).alloc }

// Draws yields the pools whose allocations the draft writes, in order, and whether it does so behind
// another draft in flight.
func (d *Draft) Draws() iter.Seq2[*cluster.Pool, bool] {
	return func(yield func(*cluster.Pool, bool) bool) {
		for _, x := range d.drawn {
			if !yield(x.pool, x.after != nil) {
				return
			}
		}
	}
}

// DrawsAny reports whether the draft writes the allocations of any pool.
func (d *Draft) DrawsAny() bool { return len(d.drawn) > 0 }

// Considers reports whether a decision of the draft looked at a pool for a change.
func (d *Draft) Considers(p *cluster.Pool) bool { return d.pools[p] != nil }

// OfferedOn returns the nodes on which the draft itself adds capacity of a resource.
func (d *Draft) OfferedOn(rid types.ResourceID) []*cluster.Node { return d.offered[rid] }

// NewlyOffered returns the resources of which the draft added capacity since the last call. The
// result is valid until the next decision.
func (d *Draft) NewlyOffered() []types.ResourceID {
	fresh := d.fresh
	d.fresh = d.fresh[:0]
	return fresh
}

// View returns the view that the draft builds on.
func (d *Draft) View() *cluster.View { return d.view }

// Writes returns the decoded effects of the operations.
func (d *Draft) Writes() []cluster.Write { return d.writes }

// Returns reports whether the draft returns capacity.
func (d *Draft) Returns() bool { return d.gave }

// Len returns the number of decisions in the draft.
func (d *Draft) Len() int { return d.items }

// Bundles returns the number of bundles that the draft grants. It may bind as many more tasks, which
// draw on them.
func (d *Draft) Bundles() int { return d.bundles }

// Decided returns the objects that the draft decides about, in order.
func (d *Draft) Decided() []any { return d.held }

// Decide counts a decision about x.
func (d *Draft) Decide(x any) {
	d.claim(x)
	d.items++
}

// claim marks x as decided about.
func (d *Draft) claim(x any) {
	if _, ok := d.mine[x]; !ok {
		d.mine[x] = struct{}{}
		d.held = append(d.held, x)
	}
}

// Has reports whether this draft decides about x.
func (d *Draft) Has(x any) bool {
	_, ok := d.mine[x]
	return ok
}

// Spare is the space left in a transaction for a collecting grant and its leadership.
const Spare = 4

// Room reports whether so many more compares and operations fit. It counts the allocations of the
// places ahead, because they are written last.
func (d *Draft) Room(compares, ops int) bool {
	c, o := d.Change.Size()
	c += Spare
	o += len(d.order) + len(d.drawn) + len(d.leaving) + Spare
	return c+compares <= d.limits.Ops && o+ops <= d.limits.Ops &&
		(d.Change.Bytes()+d.ahead)/3 < d.limits.Bytes/4
}

// roomToBind reports whether one more task fits that is bound to n and relies on keys. Near the
// limit it counts exactly, without compares already present.
func (d *Draft) roomToBind(n *cluster.Node, keys []relied, needs []cluster.Need) bool {
	if d.Room(2+nodeCompares+len(keys)+len(needs), 3+len(needs)) {
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
	return d.Room(compares, ops)
}

// Limit replaces the limits of an empty draft.
func (d *Draft) Limit(l controlplane.Limits) { d.limits = l }

// Empty reports whether there is nothing to commit.
func (d *Draft) Empty() bool { return d.items == 0 }

// Put writes a value of a key that was compared with revision mod; mod 0 creates the key.
func (d *Draft) Put(key string, m types.Message, mod int64) {
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

// Remove deletes a key.
func (d *Draft) Remove(key string) {
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

// GiveBack counts holds as free on n.
func (d *Draft) GiveBack(n *cluster.Node, holds []types.Holding) {
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
	if d.hooks.Noted != nil {
		d.hooks.Noted(d, n, rid)
	}
}

// account returns the account of h, held on n. A deleted pool counts as long as tasks hold any of
// it.
func (d *Draft) account(n *cluster.Node, h types.Holding) *types.Allocated {
	if !h.Cluster {
		return d.trial(n).alloc
	}
	return d.trialPool(d.view.PoolOf(h.Resource)).alloc
}

// Keep commits the trial on n, and on the pools of holds.
func (d *Draft) Keep(n *cluster.Node, holds []types.Holding) {
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
		d.Put(d.keysOf(p.node).allocated, p.alloc, p.node.Allocated.Mod)
	}
	for _, x := range d.drawn {
		ns, name, _ := x.pool.ID.Split()
		mod := x.pool.Allocated.Mod
		if x.after != nil {
			mod = -1 // the key exists
		}
		d.Put(controlplane.PoolKey(ns, name), x.alloc, mod)
		x.value = d.writes[len(d.writes)-1].Encoded
	}
	for _, key := range d.leaving {
		d.Put(key, d.left[key].Provided, d.left[key].mod)
	}
	return d.Change.Txn()
}

// leftOf returns the allocated amounts of a pool: as left by the draft behind which d can draw on
// it, otherwise as in the view.
func (d *Draft) leftOf(p *cluster.Pool) (alloc *types.Allocated, after *Draft) {
	if d.hooks.Behind != nil {
		if h := d.hooks.Behind(p); h != nil {
			return h.pools[p].alloc, h
		}
	}
	return p.Allocated.V, nil
}

// assume compares a pool with the value that the previous draft puts.
func (d *Draft) assume(x *drawn) {
	ns, name, _ := x.pool.ID.Split()
	d.Change.If(controlplane.Compare{
		Key: controlplane.PoolKey(ns, name), Target: controlplane.Value, Content: string(x.after.pools[x.pool].value),
	})
}
