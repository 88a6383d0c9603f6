package sim

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"sort"
	"time"

	"github.com/escher-sched/escher/controlplane"
	"github.com/escher-sched/escher/scheduler"
	"github.com/escher-sched/escher/scheduler/search"
	"github.com/escher-sched/escher/types"
)

// member is one of the schedulers: a core, its watch with an arbitrary lag, and its transactions in
// flight.
type member struct {
	w     *world
	name  string
	lives uint64 // number of starts
	core  *scheduler.Core
	lease controlplane.LeaseID
	// seen is the revision that its watch has reached; delivered is the last delivered revision of
	// each key.
	seen      int64
	delivered map[string]int64
	flights   []*flight
	// lazy lets its watch lag far behind.
	lazy bool
}

// flight is a transaction in flight.
type flight struct {
	draft *scheduler.Transaction
	txn   controlplane.Txn
	// unanswered reports whether an earlier copy of it may have been committed, or may still be.
	unanswered bool
	// answer is the answer of the store, until the core gets it; slow delays that.
	answer *controlplane.Result
	slow   bool
}

func newMember(w *world, name string) *member {
	m := &member{w: w, name: name}
	m.start()
	return m
}

// start makes a new core and gives it a listing.
func (m *member) start() {
	m.lives++
	rng := rand.New(rand.NewPCG(m.w.cfg.Seed, m.lives<<8|uint64(m.name[1])))
	m.core = scheduler.New(scheduler.Config{
		Name:       m.name,
		Shared:     m.w.cfg.Shared,
		Seed:       rng.Uint64(),
		Limits:     m.w.limits(),
		BatchTasks: 1 + rng.IntN(24),
		InFlight:   1 + rng.IntN(4),
		Gather:     max(1, m.w.cfg.Gather),
		FoldFrom:   1 + 50*int(m.w.cfg.Seed%3),
		LossRate:   20,
		StormHold:  20 * time.Second,
		Placement:  pick([]search.Choice{search.Auto, search.Spread, search.Pack}, uint32(m.w.cfg.Seed/7)),
	})
	m.lazy = rng.IntN(4) == 0
	m.flights, m.delivered = nil, make(map[string]int64)
	if m.w.cfg.Shared {
		m.lease, _ = m.w.store.GrantLease(context.Background(), time.Hour)
		c := m.w.newChange()
		c.PutOn(controlplane.SchedulerKey(m.name), &types.Leader{Holder: m.name}, m.lease)
		m.w.try(c)
	}
	m.reload()
}

// limits are the limits that the schedulers assume.
func (w *world) limits() controlplane.Limits {
	limits := w.store.Limits()
	if w.cfg.Ops > 0 {
		limits.Ops = w.cfg.Ops
	}
	return limits
}

// reload lists everything and applies the difference to the delivered state, like the list-watch
// loop: puts in the order of keys, then deletes.
func (m *member) reload() {
	page := m.w.list(controlplane.Root)
	var events []controlplane.Event
	there := make(map[string]bool, len(page.KVs))
	for _, kv := range page.KVs {
		there[kv.Key] = true
		if m.delivered[kv.Key] != kv.ModRevision {
			events = append(events, controlplane.Event{KV: kv})
		}
	}
	for key := range m.delivered {
		if !there[key] {
			events = append(events, controlplane.Event{Delete: true, KV: controlplane.KV{Key: key, ModRevision: page.Revision}})
		}
	}
	puts := sort.Search(len(events), func(i int) bool { return events[i].Delete })
	slices.SortFunc(events[puts:], func(a, b controlplane.Event) int {
		if a.Key < b.Key {
			return -1
		}
		return 1
	})
	m.apply(controlplane.Batch{Revision: page.Revision, Events: events})
}

func (m *member) apply(b controlplane.Batch) {
	m.seen = b.Revision
	for _, e := range b.Events {
		if m.delivered[e.Key] = e.ModRevision; e.Delete {
			delete(m.delivered, e.Key)
		}
	}
	m.core.Apply(b, m.w.now)
}

// deliver advances the watch by at most n revisions.
func (m *member) deliver(n int) {
	if m.lazy && n != 1 {
		return
	}
	batches, compacted := m.w.since(m.seen)
	if compacted {
		m.reload()
		m.w.seen["reloads"]++
		m.w.say("%s reloads at %d", m.name, m.seen)
		return
	}
	for _, b := range batches[:min(n, len(batches))] {
		m.apply(b)
	}
	m.w.say("%s has seen %d", m.name, m.seen)
}

// since returns the changes after a revision; compacted if they are gone.
func (w *world) since(revision int64) (batches []controlplane.Batch, compacted bool) {
	defer func() {
		if recover() != nil {
			compacted = true
		}
	}()
	return w.store.Events(revision + 1), false
}

// decide gets transactions from the core and puts them in flight.
func (m *member) decide() {
	for _, d := range m.core.Next(m.w.now) {
		txn := d.Change.Txn()
		if drop := m.w.cfg.Unguarded; drop != nil {
			txn.Compares = slices.DeleteFunc(slices.Clone(txn.Compares), drop)
		}
		m.flights = append(m.flights, &flight{draft: d, txn: txn, slow: d.Change.Batch%8 == 1})
		if m.w.trace != nil {
			m.w.say("%s drafts %s", m.name, describe(d))
		}
	}
}

// commit sends one of the unanswered transactions, for the first time or again, and decides its
// fate.
func (m *member) commit(rng *rand.Rand) {
	waiting := slices.DeleteFunc(slices.Clone(m.flights), func(f *flight) bool { return f.answer != nil })
	if len(waiting) == 0 {
		return
	}
	f := waiting[rng.IntN(len(waiting))]
	switch fate := rng.IntN(20); fate {
	case 0: // committed, and the answer is lost
		res := m.w.commit(f.txn)
		f.unanswered = true
		m.w.say("%s commits %x: committed=%t at %d, not answered", m.name, f.draft.Change.Batch>>48, res.Committed, res.Revision)
	case 1: // committed later
		m.w.late = append(m.w.late, f.txn)
		f.unanswered = true
		m.w.say("%s commits %x: to arrive late", m.name, f.draft.Change.Batch>>48)
	case 2: // never
		f.unanswered = true
		m.w.say("%s commits %x: lost", m.name, f.draft.Change.Batch>>48)
	case 3: // twice: the network repeats it
		m.w.late = append(m.w.late, f.txn)
		fallthrough
	default:
		m.send(f)
	}
}

// send commits a transaction and stores the answer.
func (m *member) send(f *flight) {
	res := m.w.commit(f.txn)
	if !res.Committed {
		m.w.seen["refused"]++
	}
	if slices.ContainsFunc(f.txn.Compares, func(c controlplane.Compare) bool { return c.Target == controlplane.Value }) {
		m.w.seen[fmt.Sprintf("behind another: committed=%t", res.Committed)]++
		if res.Committed && slices.ContainsFunc(m.flights[:slices.Index(m.flights, f)], draws) {
			m.w.seen["behind another: before its answer"]++
		}
	}
	f.answer = &res
	m.w.say("%s commits %x: committed=%t at %d", m.name, f.draft.Change.Batch>>48, res.Committed, res.Revision)
}

// draws reports whether a transaction in flight writes the allocated amounts of a pool.
func draws(f *flight) bool {
	return slices.ContainsFunc(f.txn.Ops, func(op controlplane.Op) bool {
		k, _ := controlplane.Parse(op.Key)
		return k.Kind == controlplane.Allocated && k.Where != ""
	})
}

// answer passes one of the answers to the core.
func (m *member) answer(rng *rand.Rand) {
	answered := slices.DeleteFunc(slices.Clone(m.flights), func(f *flight) bool { return f.answer == nil || f.slow && rng.IntN(16) > 0 })
	if len(answered) == 0 {
		return
	}
	m.done(answered[rng.IntN(len(answered))])
}

// done passes the answer of a transaction to the core. A refusal may be due to an earlier copy:
// then the keys written by that are marked with its id.
func (m *member) done(f *flight) {
	m.flights = slices.DeleteFunc(m.flights, func(x *flight) bool { return x == f })
	res := *f.answer
	if !res.Committed && f.unanswered {
		for _, op := range f.txn.Ops {
			if op.Delete {
				continue
			}
			if kv := m.w.get(op.Key); kv.Key != "" && types.Batch(kv.Value) == types.Batch(op.Value) {
				m.w.seen["recognised"]++
				res = controlplane.Result{Committed: true, Revision: kv.ModRevision}
				break
			}
		}
	}
	m.core.Done(f.draft, res, nil, m.w.now)
	m.w.say("%s learns of %x: committed=%t at %d", m.name, f.draft.Change.Batch>>48, res.Committed, res.Revision)
}

// crash ends the scheduler and restarts it. Some transactions in flight still arrive.
func (m *member) crash(rng *rand.Rand) {
	for _, f := range m.flights {
		if f.answer == nil && rng.IntN(2) == 0 {
			m.w.late = append(m.w.late, f.txn)
		}
	}
	m.w.say("%s is started again", m.name)
	if m.lease != 0 {
		m.w.store.ExpireLease(m.lease)
		m.w.check()
	}
	m.start()
}
