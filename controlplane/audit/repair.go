package audit

import (
	"context"
	"errors"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/escher-sched/escher/controlplane"
	"github.com/escher-sched/escher/controlplane/writers"
	"github.com/escher-sched/escher/types"
	"github.com/escher-sched/escher/types/action"
)

// A Repair ends the quarantine of a key, or corrects an amount in use: see PlanRepair.
type Repair struct {
	Key string
	// Value is the unreadable or wrong value, and Revision its last change; 0 if the key is missing.
	Value    []byte
	Revision int64
	// Why says what is wrong with the value.
	Why string
	// Writers are the roles that write such keys, by writers.Table.
	Writers []writers.Writer
	// Does describes the effect of Perform.
	Does string

	change *controlplane.Change
}

// RepairReason is the reason of a task that fails because one of its keys was repaired.
const RepairReason = "one of its keys was unreadable and has been repaired"

// PlanRepair reads the cluster at one revision and plans the repair of a key. It computes the value
// from other keys if they determine it; otherwise it removes the key. A task with an unreadable
// binding or status fails, because it is unknown what ran. It also corrects a readable amount in use
// that is not the sum of what is held. NotFound: there is no such key. Precondition: its value is
// readable.
func PlanRepair(ctx context.Context, store controlplane.Store, key string, now time.Time) (*Repair, error) {
	c, errRead := newLeaseChecker(), errors.New("read")
	var there controlplane.KV
	mods := make(map[string]int64)
	err := controlplane.ListWatch(ctx, store, controlplane.ListWatchOptions{Prefix: controlplane.Root}, func(u controlplane.Update) error {
		for _, e := range u.Events {
			mods[e.Key] = e.ModRevision
			if e.Key == key {
				there = e.KV
				there.Value = slices.Clone(e.Value)
			}
		}
		c.Load(u.Events, u.Revision)
		return errRead
	})
	if !errors.Is(err, errRead) {
		return nil, err
	}
	k, known := controlplane.Parse(key)
	why, broken := c.s.unread[key]
	if !broken && known && k.Kind == controlplane.Allocated {
		why, broken = c.s.differs(c.s.accountOf(k))
	}
	switch {
	case there.ModRevision == 0 && !broken:
		return nil, types.Errorf(types.NotFound, "repair %s: there is no such key: %s", key, action.ListUnreadable.Of())
	case !broken:
		return nil, types.Errorf(types.Precondition, "repair %s: its value is readable: %s", key, action.ListUnreadable.Of())
	}
	r := &Repair{Key: key, Value: there.Value, Revision: there.ModRevision, Why: why, change: controlplane.NewChange(controlplane.NewBatch())}
	for _, a := range writers.Table() {
		if known && a.Kind == k.Kind {
			r.Writers = a.Put
		}
	}
	r.change.IfUnchanged(key, there.ModRevision)
	// Readers treat the key as absent.
	c.Apply(controlplane.Batch{Revision: c.s.revision + 1, Events: []controlplane.Event{{KV: controlplane.KV{Key: key, ModRevision: c.s.revision + 1}, Delete: true}}})
	p := repairing{s: c.s, mods: mods, r: r, now: now}
	p.plan(k, known)
	return r, nil
}

// Perform repairs the key. Conflict: a key that the plan relied on has changed.
func (r *Repair) Perform(ctx context.Context, store controlplane.Store) error {
	res, err := controlplane.Commit(ctx, store, r.change.Txn())
	if err == nil && !res.Committed {
		err = types.Errorf(types.Conflict, "it changed meanwhile: plan the repair again")
	}
	if err != nil {
		return types.Errorf(types.ClassOf(err), "repair %s: %w", r.Key, err)
	}
	return nil
}

// repairing plans the repair of a key.
type repairing struct {
	s *state
	// mods holds the revisions of all keys.
	mods map[string]int64
	r    *Repair
	now  time.Time
}

func (p *repairing) plan(k controlplane.Key, known bool) {
	t := p.s.tasks[id{k.Namespace, k.ID}]
	switch {
	case known && k.Kind == controlplane.Allocated:
		p.account(p.s.accountOf(k), p.r.Key)
		p.r.Does = "writes the amounts that bindings and grants hold there"
	case known && k.Kind == controlplane.Bindings && t != nil && t.status.V != nil && t.status.V.Phase.Held() && t.status.V.Attempt == k.Attempt && t.status.V.Node == k.Node:
		p.binding(k, t)
	case known && k.Kind == controlplane.Statuses && t != nil && t.info.V != nil:
		p.status(t)
	default:
		p.r.change.Delete(p.r.Key)
		p.r.Does = "removes the key"
	}
}

// account writes the held amounts of an account.
func (p *repairing) account(a *account, key string) {
	held := p.s.held(a)
	var sum types.Allocated
	for _, rid := range slices.Sorted(maps.Keys(held)) {
		h := types.Holding{Resource: rid, Amount: held[rid].amount}
		for _, device := range slices.Sorted(maps.Keys(held[rid].devices)) {
			h.Devices = append(h.Devices, types.DeviceShare{ID: device, Share: held[rid].devices[device]})
		}
		sum.Take(h)
	}
	p.r.change.IfUnchanged(key, p.mods[key])
	p.r.change.Put(key, &sum)
}

// binding ends an attempt with unknown holdings: the task fails, its agent ends the process, and
// the accounts of the node and the pools are computed again.
func (p *repairing) binding(k controlplane.Key, t *task) {
	p.r.change.Delete(p.r.Key)
	if report := controlplane.ReportKey(k.Node, k.Namespace, k.ID, k.Attempt); p.mods[report] != 0 {
		p.r.change.IfUnchanged(report, p.mods[report])
		p.r.change.Delete(report)
	}
	p.fail(t)
	p.account(&p.s.node(k.Node).account, controlplane.AllocatedKey(k.Node))
	for _, pool := range p.s.pools {
		if _, differs := p.s.differs(&pool.account); differs {
			p.account(&pool.account, pool.key())
		}
	}
	p.r.Does = "removes the binding, ends task " + t.id.String() + " as failed, and recomputes the amounts in use on node " + k.Node
}

// status marks a bound task as bound, and any other as failed.
func (p *repairing) status(t *task) {
	for _, b := range t.bindings {
		if b.info.V != nil && b.number == t.last {
			p.r.change.Put(p.r.Key, &types.Status{Phase: types.Bound, Node: b.node.name, Attempt: b.number, Bound: b.info.V.Bound, Image: b.info.V.Image})
			p.r.Does = "writes that it is bound to node " + b.node.name
			return
		}
	}
	p.fail(t)
	p.r.Does = "ends task " + t.id.String() + " as failed, because it is unknown what ran"
}

// fail marks a task as failed.
func (p *repairing) fail(t *task) {
	key := controlplane.StatusKey(t.id.ns, t.id.id)
	next := types.Status{Phase: types.Failed, Attempt: t.last, ExitCode: -1, Ended: p.now.UnixNano(), Reason: RepairReason}
	if was := t.status.V; was != nil {
		next.Node, next.Attempt, next.Bound, next.Started, next.Image = was.Node, was.Attempt, was.Bound, was.Started, was.Image
		next.Restarts, next.Failures = was.Restarts, was.Failures+1
	}
	p.r.change.IfUnchanged(key, p.mods[key])
	p.r.change.Put(key, &next)
}

// Writer returns the writers in words: "the agent", "the application or the server".
func (r *Repair) Writer() string {
	if len(r.Writers) == 0 {
		return "a program other than Escher"
	}
	texts := make([]string, len(r.Writers))
	for i, w := range r.Writers {
		texts[i] = string(w)
	}
	return "the " + strings.Join(texts, " or the ")
}
