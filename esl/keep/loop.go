package keep

import (
	"context"
	"strings"
	"sync"
	"time"

	"go.uber.org/zap"

	"github.com/escher-sched/escher/controlplane"
	"github.com/escher-sched/escher/controlplane/cluster"
	"github.com/escher-sched/escher/controlplane/supervise"
	"github.com/escher-sched/escher/esl"
	"github.com/escher-sched/escher/esl/collect"
	"github.com/escher-sched/escher/esl/decisions"
	"github.com/escher-sched/escher/types"
)

// loop is the one loop that runs policies.
type loop struct {
	store   controlplane.Store
	opts    Options
	clients map[string]*controlplane.Client
	view    *cluster.View
	synced  bool
	// common is what policies share about the view, until it changes.
	common map[string]any

	// book has all policies, items those that this loop runs.
	book  *esl.Registry
	items map[cluster.ID]*managed
	// wide are policies that depend on everything; watching are those that depend on a task, job or
	// resource outside their own job, by its id or name.
	wide     map[*managedPolicy]struct{}
	watching listeners
	// lacked are policies that found a resource lacking in their last call.
	lacked listeners

	// told holds the errors of policies stored last; telling waits for those writes.
	told    map[cluster.ID]string
	telling sync.WaitGroup

	turns       turns
	seekers     seekers
	collections collections
	meter       meter

	updates chan update
	results chan result
	// busy is how much the plans count that are being committed.
	busy int
	// looked is when the last round of calls ended, and gap how long to wait since; kept is when there last
	// was a policy to run.
	looked, kept time.Time
	gap          time.Duration
	// changed is the key whose change is being applied; zero means none.
	changed controlplane.Key
}

func newLoop(store controlplane.Store, opts Options) *loop {
	return &loop{
		store: store, opts: opts, clients: make(map[string]*controlplane.Client),
		view: cluster.New(), book: esl.NewRegistry(opts.Kinds), items: make(map[cluster.ID]*managed),
		seekers: newSeekers(), collections: newCollections(opts.Collect), meter: newMeter(opts.Measure),
		common: make(map[string]any), told: make(map[cluster.ID]string), wide: make(map[*managedPolicy]struct{}), watching: make(listeners), lacked: make(listeners),
		updates: make(chan update), results: make(chan result), kept: time.Now(),
	}
}

// run runs policies until ctx is done, or until there are none: errIdle.
func (k *loop) run(ctx context.Context) error {
	g, ctx := supervise.WithContext(ctx)
	watch := controlplane.ListWatchOptions{
		Prefix: controlplane.Root, Skip: skips, Parts: true, Log: k.opts.Log, Heard: func() { k.opts.Beat(true) },
	}
	g.Go(func() error {
		return controlplane.ListWatch(ctx, k.store, watch, func(u controlplane.Update) error { return k.hand(ctx, u) })
	})
	g.Go(func() error { return k.loop(ctx) })
	return g.Wait()
}

// update is an update of the list-watch; the loop closes taken after it applied the update.
type update struct {
	controlplane.Update
	taken chan struct{}
}

// hand gives an update to the loop, and waits until it is applied: a part of a listing is large,
// and the values of the last one are valid only until hand returns.
func (k *loop) hand(ctx context.Context, u controlplane.Update) error {
	x := update{Update: u, taken: make(chan struct{})}
	select {
	case k.updates <- x:
	case <-ctx.Done():
		return ctx.Err()
	}
	select {
	case <-x.taken:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// skips reports whether no policy reads a key.
func skips(key string) bool {
	at, ok := controlplane.Parse(key)
	if !ok {
		return true
	}
	switch at.Kind {
	case controlplane.Specs, controlplane.Sessions, controlplane.Leaders, controlplane.System:
		return true
	}
	return false
}

func (k *loop) loop(ctx context.Context) error {
	defer k.drain()
	beat := time.NewTicker(keepBeat)
	defer beat.Stop()
	for {
		if k.idle() {
			return errIdle
		}
		var due <-chan time.Time
		if at, ok := k.next(); ok {
			due = time.After(time.Until(at))
		}
		var collects <-chan time.Time
		if at, ok := k.collections.next(); k.synced && ok {
			collects = time.After(time.Until(at))
		}
		var asks <-chan time.Time
		if at, ok := k.meter.next(); ok {
			asks = time.After(time.Until(at))
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case u := <-k.updates:
			k.apply(ctx, u.Update)
			close(u.taken)
		case r := <-k.results:
			k.settle(r)
		case r := <-k.collections.results:
			k.settleCollections(r)
		case <-collects:
			k.collect(ctx, time.Now())
		case a := <-k.meter.answers:
			a.received = time.Now()
			k.measured(a)
		case <-asks:
			k.meter.begin(ctx, time.Now())
		case <-beat.C:
			k.opts.Beat(false)
		case <-due:
			began := time.Now()
			k.look(ctx, began)
			k.looked = time.Now()
			k.gap = min(max(keepSoon, keepShare*k.looked.Sub(began)), keepGap)
		}
	}
}

// idle reports whether there has been no policy to run for keepIdle.
func (k *loop) idle() bool {
	if len(k.items) > 0 || k.busy > 0 || !k.synced || !k.collections.idle(k.view) {
		k.kept = time.Now()
	}
	return time.Since(k.kept) >= keepIdle
}

// drain waits for the plans and writes in progress.
func (k *loop) drain() {
	for k.busy > 0 {
		k.busy -= (<-k.results).counts
	}
	k.collections.drain()
	k.meter.drain()
	k.telling.Wait()
}

// next returns when to call policies next; ok is false to wait for a change.
func (k *loop) next() (at time.Time, ok bool) {
	if !k.synced || k.busy >= keepAtOnce {
		return at, false
	}
	soonest := k.looked.Add(k.gap)
	offers, lapses := k.seekers.next()
	if k.turns.ready() || offers {
		return soonest, true
	}
	at, ok = k.turns.wake()
	if !lapses.IsZero() && (!ok || lapses.Before(at)) {
		at, ok = lapses, true
	}
	if at.Before(soonest) {
		at = soonest
	}
	return at, ok
}

// full reports whether a round that began at now calls no further policy.
func (k *loop) full(now time.Time) bool {
	return k.busy >= keepAtOnce || time.Since(now) >= keepRound
}

// look calls every policy whose turn it is.
func (k *loop) look(ctx context.Context, now time.Time) {
	k.turns.due(now)
	k.seekers.lapse(now)
	for !k.full(now) {
		p := k.turns.take()
		if p == nil {
			k.offer(ctx, now)
			return
		}
		k.turn(ctx, p, now)
	}
}

// turn calls a policy, unless it has to wait.
func (k *loop) turn(ctx context.Context, p *managedPolicy, now time.Time) {
	switch {
	case p.gone || p.busy:
		return
	case k.view.Revision < p.after:
		k.turns.behind(p)
		return
	case now.Before(p.earliest()):
		k.turns.at(p, p.earliest())
		return
	}
	if p.early++; !now.Before(p.asked.Add(p.pace)) {
		p.early = 0
	}
	p.asked, p.own = now, false
	began := time.Now()
	plan, err := k.ask(p, now)
	p.rest = 0
	k.seek(p, &plan, now)
	if err != nil {
		k.fail(p, err)
		return
	}
	again, least := plan.RequeueAfter, now.Add(keepGap)
	if !again.IsZero() && again.Before(least) {
		again = least // bounds a policy that always requeues at once
	}
	k.turns.at(p, again)
	if plan.Nothing() {
		p.rest, p.last = restAfter(time.Since(began)), esl.Plan{}
		k.decided(p, decisions.Nothing)
		return
	}
	if !p.moved && does(&plan, &p.last) {
		k.decided(p, decisions.Repeated)
		return // the same plan was carried out without effect
	}
	k.do(ctx, p, plan)
}

// ask returns the plan of a policy. A panic becomes the error of that policy.
func (k *loop) ask(p *managedPolicy, now time.Time) (plan esl.Plan, err error) {
	s := &esl.State{
		View: k.view, Now: now, Namespace: p.of.id.Namespace, ID: p.of.id.ID, Job: p.of.job, Label: p.label, Kinds: k.opts.Kinds, Registry: k.book,
		Ops: k.store.Limits().Ops, Memo: &p.memo, Lacking: make(esl.Lacking), Measured: k.meter.usage,
		Sought: &p.sought, Promised: k.seekers.promised, Common: k.common,
	}
	if k.opts.Decisions != nil {
		s.Looked = new(esl.Looked)
	}
	p.sought = nil
	if err = esl.Contain(func() { plan = p.policy.Next(s) }); err != nil {
		p.sought = nil
	}
	k.lacks(p, s.Lacking)
	k.measure(p, s)
	if p.of.job == "" {
		plan.EndWith(s.Own(""), p.of.id.ID)
	}
	k.deciding(p, s, &plan)
	return plan, err
}

// do commits a plan in another goroutine.
func (k *loop) do(ctx context.Context, p *managedPolicy, plan esl.Plan) {
	c, err := k.client(p.of.id.Namespace)
	if err != nil {
		k.fail(p, err)
		return
	}
	here := controlplane.ReadSet{controlplane.PoliciesKey(p.of.id.Namespace, p.of.id.ID): p.of.mod}
	part := part(plan, k.view, p.of.id.Namespace, k.store.Limits().Ops-esl.PlanBase-len(k.opts.Guard))
	t, err := transaction(&part, c, k.opts.Guard, here, reads(&part, k.view, p.of.id.Namespace))
	if err != nil {
		k.fail(p, err)
		return
	}
	p.busy, p.moved, p.last, p.whole = true, false, plan, does(&part, &plan)
	counts := countOf(&part)
	k.busy += counts
	go func() {
		var done controlplane.Committed
		err := supervise.Contain(func() (err error) {
			done, err = t.Commit(ctx)
			return err
		})
		k.results <- result{p: p, counts: counts, revision: done.Revision, err: err}
	}()
}

// countOf returns as how many plans a plan counts while it is being committed.
func countOf(p *esl.Plan) int {
	if len(p.Reserve)+len(p.Unreserve)+len(p.Stop)+len(p.Evict) > 0 {
		return keepTaking
	}
	return 1
}

func (k *loop) client(ns string) (*controlplane.Client, error) {
	if c := k.clients[ns]; c != nil {
		return c, nil
	}
	c, err := controlplane.New(k.store, ns)
	if err == nil {
		k.clients[ns] = c
	}
	return c, err
}

// result is the outcome of a plan, which counted as counts.
type result struct {
	p        *managedPolicy
	counts   int
	revision int64
	err      error
}

// settle records the outcome of a plan. The policy is called again, with a view that has the
// changes, or a little later.
func (k *loop) settle(r result) {
	k.busy -= r.counts
	p := r.p
	p.busy = false
	if r.err != nil {
		k.fail(p, r.err)
		return
	}
	p.after, p.failures, p.retry, p.said = r.revision, 0, time.Time{}, ""
	outcome := decisions.Partly
	if p.whole {
		outcome = decisions.Done
	}
	if p.decision != nil {
		p.decision.Committed = r.revision
	}
	k.decided(p, outcome)
	k.log(p).Info("policy kept", zap.String("reason", p.last.Reason), zap.Int64("revision", r.revision))
	if !p.gone {
		k.turns.put(p)
	}
}

// The longest pauses after a failure: keepRetry if the store is unreachable or an object has
// changed, which the view will show soon; keepWrong if the plan may never succeed.
const (
	keepRetry = time.Second
	keepWrong = 30 * time.Second
)

// pauseAfter returns the pause after so many failures, the last of which is err.
func pauseAfter(err error, failures int) time.Duration {
	longest := keepRetry
	if !types.ClassOf(err).Retryable() && !types.Is(err, types.Conflict) {
		longest = keepWrong
	}
	return min(longest, keepGap<<min(failures, 12))
}

// fail calls a policy again later, after longer pauses each time. It logs the error when it
// changes.
func (k *loop) fail(p *managedPolicy, err error) {
	p.failures++
	reason := p.last.Reason
	p.last = esl.Plan{}
	p.retry = time.Now().Add(pauseAfter(err, p.failures))
	k.failed(p, err)
	k.mark(p)
	says, _, _ := strings.Cut(err.Error(), "\n")
	if types.Is(err, types.Conflict) || says == p.said {
		return
	}
	p.said = says
	k.log(p).Warn("policy not kept yet", zap.String("reason", reason), zap.Error(err))
}

// record adds a decision to the log of decisions.
func (k *loop) record(id cluster.ID, e decisions.Entry) {
	if k.opts.Decisions == nil {
		return
	}
	e.Last = time.Now()
	k.opts.Decisions.Add(id, e)
}

func (k *loop) log(p *managedPolicy) *zap.Logger {
	return k.opts.Log.With(zap.String("namespace", p.of.id.Namespace), zap.String("policy", p.of.id.ID+"."+p.label))
}

// collect decides, and commits the plan in another goroutine. A panic is a failure of collections
// alone: policies go on.
func (k *loop) collect(ctx context.Context, now time.Time) {
	c := &k.collections
	c.asked, c.moved = now, false
	var plan collect.Plan
	change := controlplane.NewChange(controlplane.NewBatch())
	err := esl.Contain(func() {
		if plan = c.state.Next(k.view, now); len(plan.Changes) > 0 {
			plan.Write(k.view, change)
		}
	})
	c.rest, c.due = restAfter(time.Since(now)), plan.Again
	if err != nil {
		k.failCollections(plan.Reason, err)
		return
	}
	if len(plan.Changes) == 0 {
		return
	}
	for key, revision := range k.opts.Guard {
		change.IfUnchanged(key, revision)
	}
	c.busy = true
	go func() {
		done := collected{plan: plan}
		done.err = supervise.Contain(func() error {
			res, err := controlplane.Commit(ctx, k.store, change.Txn())
			if done.revision = res.Revision; err == nil && !res.Committed {
				return types.Errorf(types.Conflict, "collect: an object has changed: it is decided again")
			}
			return err
		})
		c.results <- done
	}()
}

// settleCollections records the outcome of a plan. The next decision follows with a view that has the
// changes, or what refused them, or a little later.
func (k *loop) settleCollections(r collected) {
	c := &k.collections
	c.busy, c.after = false, r.revision
	if r.err != nil {
		k.failCollections(r.plan.Reason, r.err)
		return
	}
	c.failures, c.said, c.moved = 0, "", true
	for _, x := range r.plan.Changes {
		kind, nodes := "task", 0
		if x.Reservation {
			kind = "reservation"
		}
		if x.To != nil {
			nodes = len(x.To.On)
		}
		k.opts.Log.Info("collection directed to nodes", zap.String("namespace", x.ID.Namespace), zap.String(kind, x.ID.ID), zap.Int("count", nodes),
			zap.String("reason", r.plan.Reason), zap.Int64("revision", r.revision))
	}
}

// failCollections decides again later, after longer pauses each time. It logs the error when it
// changes.
func (k *loop) failCollections(reason string, err error) {
	c := &k.collections
	c.failures++
	c.moved, c.retry = true, time.Now().Add(pauseAfter(err, c.failures))
	says, _, _ := strings.Cut(err.Error(), "\n")
	if types.Is(err, types.Conflict) || says == c.said {
		return
	}
	c.said = says
	k.opts.Log.Warn("collections not directed yet", zap.String("reason", reason), zap.Error(err))
}
