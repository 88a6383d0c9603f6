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

// Drainer makes tasks leave nodes under drain, as their cordons say.
//
// All its knowledge is in the store, and every write compares what it relied on. So another drainer
// may run at the same time, or take over at any moment.
type Drainer struct {
	store controlplane.Store
	guard []controlplane.Compare
	log   *zap.Logger
	beat  func(heard bool)
	count *Metrics

	mu    sync.Mutex // guards nodes
	nodes map[string]*draining
}

// draining is a node under drain.
type draining struct {
	node   string
	cordon types.Cordon
	mod    int64
	// told holds the attempts told to leave under this cordon, or without a task to tell. Keys are
	// the binding key and its CreateRevision, values the time by which they should have ended.
	told map[attempt]time.Time
	// stuck is the number of them that have not ended by then.
	stuck int
	// failed holds attempts that could not be told, by their binding keys, and the node itself by
	// its name.
	failed setbacks
	// empty reports whether nothing is left there. A cordoned node gets nothing new.
	empty bool
}

// attempt is a binding on a node.
type attempt struct {
	key     string
	created int64
}

// NewDrainer returns a Drainer to Run. guard, logger and beat are as for a Collector.
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

// drainGap is the time between two passes over the nodes under drain.
const drainGap = time.Second

// Run drains until ctx is done, and then returns ctx.Err(). It waits while the store is
// unavailable. Conflict: a compare of the guard no longer holds.
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
			if err := d.runPass(ctx, time.Now()); err != nil {
				return err
			}
		}
	})
	return g.Wait()
}

// apply applies changes of cordons.
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
			d.log.Warn("unreadable cordon: the node is not drained", zap.String("node", k.Node), zap.Error(err))
			continue
		}
		if n.cordon.Drain != types.DrainNone {
			d.nodes[k.Node] = n
		}
	}
	return nil
}

// Once reads the cordons and runs one pass over all nodes under drain, as Run does each second. It
// serves callers with their own clock.
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
	return d.runPass(ctx, now)
}

// due returns the nodes to work on, by name.
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

// runPass works once on all nodes that are due. What conflicts with other writers is left to a
// later pass, and so is a node that failed. Conflict: another drainer leads.
func (d *Drainer) runPass(ctx context.Context, now time.Time) error {
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

// drain tells some attempts on a node to leave. It retries an attempt that cannot be told later,
// and continues with the others. An error comes from the store, or is Conflict.
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
			d.log.Warn("unreadable binding", zap.String("path", kv.Key), zap.Error(err))
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
		d.log.Warn("attempts do not end after the kill: the drain continues with others", zap.String("node", n.node), zap.Int("count", n.stuck))
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
				d.log.Error("attempt cannot be told to leave: the drain continues with others", zap.String("node", n.node), zap.String("path", a.key), zap.Error(err))
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

// ofItem reports whether an error may concern one item only, and not the store or the role.
func ofItem(err error) bool {
	return !types.ClassOf(err).Retryable() && !types.Is(err, types.Precondition) && !types.Is(err, types.Conflict)
}

// tell orders an attempt to leave, if it still exists, its node is under the same drain, and its
// task is unchanged. done reports whether nothing is left to tell; grace is the time the attempt
// then has.
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
		return true, 0, nil // its deletion ended it too
	}
	var t types.Task
	if err := types.Decode(page.KVs[0].Value, &t); err != nil {
		d.log.Warn("unreadable task: it stays", zap.String("path", key), zap.Error(err))
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

// graceOf returns the time that an attempt told to leave has to end.
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
	return controlplane.GraceOf(spec), nil // the default for an unreadable spec
}

// sooner reports whether the grace of a drain ends an attempt sooner than its earlier order.
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

// leave changes a task so that an attempt leaves the node, and reports whether it changed anything.
// An eviction becomes a stop if the drain stops, never the reverse. The grace becomes the drain's
// if that is sooner.
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
		types.UpdateLater(t, func(l *types.Later) { l.EvictReason = "" })
	}
	t.Evict, t.EvictGrace = number, next.Grace
	return was == nil || sooner
}
