package server

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"go.uber.org/zap"

	"github.com/escher-sched/escher/controlplane"
	"github.com/escher-sched/escher/controlplane/supervise"
	"github.com/escher-sched/escher/types"
)

// Drainer has what runs on nodes that are drained leave them, as their cordons say.
//
// All it goes by is in the store, and every write depends on what it was decided on:
// another one may run at the same time, or take over at any moment.
type Drainer struct {
	store controlplane.Store
	guard []controlplane.Compare
	log   *zap.Logger
	beat  func(heard bool)
	count *Metrics

	mu    sync.Mutex // guards what follows
	nodes map[string]*draining
}

// draining is a node that is drained.
type draining struct {
	node   string
	cordon types.Cordon
	mod    int64
	// told are the attempts that were told to leave as this cordon has it, or that have no
	// task to tell, by the key of their binding and its CreateRevision, with the time at
	// which they should have ended.
	told map[attempt]time.Time
	// stuck is how many of them have not ended then.
	stuck int
	// failed are the attempts that could not be told, by the key of their binding, and
	// the node itself by its name.
	failed setbacks
	// empty tells that nothing is there any more: as it is cordoned, nothing comes.
	empty bool
}

// attempt is what is bound to a node.
type attempt struct {
	key     string
	created int64
}

// NewDrainer returns a Drainer to Run, with the guard, the logger and the beat of a
// Collector.
func NewDrainer(store controlplane.Store, guard []controlplane.Compare, opts Options) *Drainer {
	d := &Drainer{store: store, guard: guard, log: opts.Logger, beat: opts.Beat, count: opts.Metrics, nodes: make(map[string]*draining)}
	if d.log == nil {
		d.log = zap.NewNop()
	}
	if d.beat == nil {
		d.beat = func(bool) {}
	}
	return d
}

// drainGap is the time between two looks at a node that is drained.
const drainGap = time.Second

// Run drains until ctx is done, and returns ctx.Err() then. While the store is away it
// waits. Conflict: a compare of the guard does not hold any more.
func (d *Drainer) Run(ctx context.Context) error {
	g, ctx := supervise.WithContext(ctx)
	opts := controlplane.ListWatchOptions{
		Prefix: controlplane.Prefix(controlplane.Cordons), Log: d.log, Heard: func() { d.beat(true) },
	}
	g.Go(func() error { return controlplane.ListWatch(ctx, d.store, opts, d.apply) })
	g.Go(func() error {
		tick := time.NewTicker(drainGap)
		defer tick.Stop()
		for {
			select {
			case <-ctx.Done():
				return ctx.Err()
			case <-tick.C:
			}
			d.beat(false)
			if err := d.look(ctx, time.Now()); err != nil {
				return err
			}
		}
	})
	return g.Wait()
}

// apply takes in changes of cordons.
func (d *Drainer) apply(u controlplane.Update) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, e := range u.Events {
		k, ok := controlplane.Parse(e.Key)
		if !ok {
			continue
		}
		delete(d.nodes, k.Node)
		if e.Delete {
			continue
		}
		n := &draining{node: k.Node, mod: e.ModRevision, told: make(map[attempt]time.Time), failed: make(setbacks)}
		if err := types.Decode(e.Value, &n.cordon); err != nil {
			d.log.Warn("a cordon cannot be read: the node is not drained", zap.String("node", k.Node), zap.Error(err))
			continue
		}
		if n.cordon.Drain != types.DrainNone {
			d.nodes[k.Node] = n
		}
	}
	return nil
}

// Once reads the cordons, and looks once at all nodes that are drained, as Run does each
// second: for who has a clock of his own.
func (d *Drainer) Once(ctx context.Context, now time.Time) error {
	kvs, _, err := controlplane.ListAll(ctx, d.store, controlplane.ListOptions{Prefix: controlplane.Prefix(controlplane.Cordons)})
	if err != nil {
		return err
	}
	events := make([]controlplane.Event, len(kvs))
	for i, kv := range kvs {
		events[i] = controlplane.Event{KV: kv}
	}
	clear(d.nodes)
	if err := d.apply(controlplane.Update{Events: events}); err != nil {
		return err
	}
	return d.look(ctx, now)
}

// due returns the nodes that something is to be done on, by name.
func (d *Drainer) due(now time.Time) []*draining {
	d.mu.Lock()
	defer d.mu.Unlock()
	var out []*draining
	for _, n := range d.nodes {
		if !n.empty && leaveNow(&n.cordon, now) && !n.failed.pending(n.node, now) {
			out = append(out, n)
		}
	}
	slices.SortFunc(out, func(a, b *draining) int { return strings.Compare(a.node, b.node) })
	return out
}

// look looks once at all nodes on which something is to be done. What others are in the
// way of is done at a later look, and so is a node that failed. Conflict: another one leads.
func (d *Drainer) look(ctx context.Context, now time.Time) error {
	for _, n := range d.due(now) {
		err := d.drain(ctx, n, now)
		switch {
		case err == nil:
			delete(n.failed, n.node)
		case types.Is(err, types.Conflict):
			return err
		case n.failed.failed(n.node, err, now):
			d.log.Warn("draining interrupted", zap.String("node", n.node), zap.Error(err))
		}
	}
	return nil
}

// drain has some of what is on a node leave. An attempt that cannot be told is tried again
// later, and the others go on. An error is one of the store, or Conflict.
func (d *Drainer) drain(ctx context.Context, n *draining, now time.Time) error {
	kvs, _, err := controlplane.ListAll(ctx, d.store, controlplane.ListOptions{Prefix: controlplane.Prefix(controlplane.Bindings, n.node)})
	if err != nil {
		return err
	}
	there := make([]boundHere, 0, len(kvs))
	was := n.stuck
	n.stuck = 0
	for _, kv := range kvs {
		b := boundHere{attempt: attempt{kv.Key, kv.CreateRevision}}
		var info types.Binding
		if by, told := n.told[b.attempt]; told {
			b.told, b.stuck = true, now.After(by)
		}
		if b.stuck {
			n.stuck++
		}
		if err := types.Decode(kv.Value, &info); err != nil {
			d.log.Warn("a binding cannot be read", zap.String("path", kv.Key), zap.Error(err))
		} else if info.Stop != nil {
			b.leaving = true
		}
		if !n.failed.pending(kv.Key, now) {
			there = append(there, b)
		}
	}
	if n.empty = len(kvs) == 0; n.empty {
		d.log.Info("drained", zap.String("node", n.node))
		return nil
	}
	if n.stuck > was {
		d.log.Warn("attempts do not end though they were killed: the drain goes on past them", zap.String("node", n.node), zap.Int("count", n.stuck))
	}
	count := 0
	for _, a := range nextDrain(&n.cordon, there, now) {
		var told bool
		var grace time.Duration
		err := supervise.Contain(func() (err error) { told, grace, err = d.tell(ctx, n, a); return err })
		switch {
		case err == nil:
		case !ofItem(err):
			return err
		default:
			d.count.setAside("drain")
			if n.failed.failed(a.key, err, now) {
				d.log.Error("attempt cannot be told to leave: the others go on", zap.String("node", n.node), zap.String("path", a.key), zap.Error(err))
			}
		}
		if told {
			n.told[a] = now.Add(grace + stuckAfter)
			count++
		}
	}
	if count > 0 {
		d.log.Info("told to leave", zap.String("node", n.node), zap.Int("count", count), zap.String("reason", string(n.cordon.Drain)))
	}
	return nil
}

// ofItem reports whether an error may be that of one item alone, and not of the store or of
// the role.
func ofItem(err error) bool {
	return !types.ClassOf(err).Retryable() && !types.Is(err, types.Precondition) && !types.Is(err, types.Conflict)
}

// tell has an attempt leave, on the condition that it is still there, that its node is
// drained as it was, and that nobody else has changed its task. It reports whether there
// is nothing more to tell, and how long the attempt then has to end.
func (d *Drainer) tell(ctx context.Context, n *draining, a attempt) (done bool, grace time.Duration, err error) {
	k, ok := controlplane.Parse(a.key)
	if !ok {
		return true, 0, nil
	}
	key := controlplane.TaskKey(k.Namespace, k.ID)
	page, err := d.store.List(ctx, controlplane.ListOptions{Key: key})
	if err != nil {
		return false, 0, err
	}
	if len(page.KVs) == 0 {
		return true, 0, nil // whoever deleted it ended it, too
	}
	var t types.Task
	if err := types.Decode(page.KVs[0].Value, &t); err != nil {
		d.log.Warn("a task cannot be read: it stays", zap.String("path", key), zap.Error(err))
		return true, 0, nil
	}
	sooner, err := d.sooner(ctx, k.Namespace, &t, k.Attempt, n)
	if err != nil {
		return false, 0, err
	}
	left := leave(&t, k.Attempt, n, sooner)
	if grace, err = d.graceOf(ctx, k.Namespace, &t, k.Attempt); err != nil {
		return false, 0, err
	}
	if !left {
		return true, grace, nil
	}
	change := controlplane.NewChange(controlplane.NewBatch())
	for _, g := range d.guard {
		add(change, g)
	}
	change.IfUnchanged(controlplane.CordonKey(n.node), n.mod)
	change.IfCreated(a.key, a.created)
	change.IfUnchanged(key, page.KVs[0].ModRevision)
	change.Put(key, &t)
	txn := change.Txn()
	res, err := controlplane.Commit(ctx, d.store, txn)
	if err != nil || res.Committed {
		return err == nil, grace, err
	}
	failed := failing(txn, res.Read)
	if at := slices.IndexFunc(d.guard, func(g controlplane.Compare) bool { return failed[g] }); at >= 0 {
		return false, 0, types.Errorf(types.Conflict, "drain: %s has changed: another one leads", d.guard[at].Key)
	}
	return false, 0, nil
}

// graceOf returns how long an attempt that was told to leave has to end.
func (d *Drainer) graceOf(ctx context.Context, ns string, t *types.Task, number int) (time.Duration, error) {
	switch told := t.Leaving(number); {
	case told == nil:
		return 0, nil
	case told.Grace > 0:
		return told.Grace, nil
	}
	client, err := controlplane.New(d.store, ns)
	if err != nil {
		return 0, err
	}
	spec, err := client.Spec(ctx, t.Spec)
	if err != nil && !ofItem(err) {
		return 0, err
	}
	return controlplane.GraceOf(spec), nil // of one that cannot be read it is the usual one
}

// sooner reports whether the grace of a drain ends an attempt sooner than what it was told
// before.
func (d *Drainer) sooner(ctx context.Context, ns string, t *types.Task, number int, n *draining) (bool, error) {
	was := t.Leaving(number)
	if was == nil || n.cordon.Grace == 0 {
		return false, nil
	}
	client, err := controlplane.New(d.store, ns)
	if err != nil {
		return false, err
	}
	return client.Sooner(ctx, &types.Stop{Grace: n.cordon.Grace}, was, t.Spec)
}

// leave changes a task so that an attempt of it leaves the node; false if it does
// already. An eviction becomes a stop if the drain stops, and never the other way round;
// the grace becomes the drain's if that is sooner.
func leave(t *types.Task, number int, n *draining, sooner bool) bool {
	was, next := t.Leaving(number), types.Stop{Grace: n.cordon.Grace}
	if was != nil && !sooner {
		next.Grace = was.Grace
	}
	switch {
	case t.Stop != nil:
		next.Reason = t.Stop.Reason
		t.Stop = &next
		return sooner
	case n.cordon.Drain == types.DrainStop:
		next.Reason = fmt.Sprintf("node %s is drained", n.node)
		if n.cordon.Reason != "" {
			next.Reason += ": " + n.cordon.Reason
		}
		t.Stop = &next
		return true
	}
	if t.Evict != number {
		types.Tell(t, func(l *types.Later) { l.EvictReason = "" })
	}
	t.Evict, t.EvictGrace = number, next.Grace
	return was == nil || sooner
}
