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
	"github.com/escher-sched/escher/types"
)

// loop is the one loop that policies are kept by.
type loop struct {
	store   controlplane.Store
	opts    Options
	clients map[string]*controlplane.Client
	view    *cluster.View
	synced  bool

	// book is what is kept or referred to, items what is kept.
	book  *esl.Registry
	items map[cluster.ID]*managed
	// wide are those that care for everything, watching those that care for a task, job
	// or resource that is not their own, by its id or name.
	wide     map[*managedPolicy]struct{}
	watching listeners
	// lacked are those that found something lacking when they were asked last.
	lacked listeners

	// told is what was stored last of what is wrong with policies, telling who does so.
	told    map[cluster.ID]string
	telling sync.WaitGroup

	turns   turns
	updates chan update
	results chan result
	// busy are the plans that are being done.
	busy int
	// looked is when policies were asked last, kept when there was something to keep.
	looked, kept time.Time
}

func newLoop(store controlplane.Store, opts Options) *loop {
	return &loop{
		store: store, opts: opts, clients: make(map[string]*controlplane.Client),
		view: cluster.New(), book: esl.NewRegistry(opts.Kinds), items: make(map[cluster.ID]*managed),
		told: make(map[cluster.ID]string), wide: make(map[*managedPolicy]struct{}), watching: make(listeners), lacked: make(listeners),
		updates: make(chan update), results: make(chan result), kept: time.Now(),
	}
}

// run keeps until ctx is done, or there is nothing to keep: errIdle.
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

// update is one of the list-watch; taken is closed when it is applied.
type update struct {
	controlplane.Update
	taken chan struct{}
}

// hand hands an update to the loop, and waits until it is applied: a part of a listing is
// large, and the last one has what may be used no longer than that.
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

// skips leaves out what no policy looks at.
func skips(key string) bool {
	at, ok := controlplane.Parse(key)
	if !ok {
		return true
	}
	switch at.Kind {
	case controlplane.Specs, controlplane.Sessions, controlplane.Schedulers, controlplane.Leaders, controlplane.System:
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
		select {
		case <-ctx.Done():
			return ctx.Err()
		case u := <-k.updates:
			k.apply(ctx, u.Update)
			close(u.taken)
		case r := <-k.results:
			k.settle(r)
		case <-beat.C:
			k.opts.Beat(false)
		case <-due:
			k.looked = time.Now()
			k.look(ctx, k.looked)
		}
	}
}

// idle reports whether there has been nothing to keep for a while.
func (k *loop) idle() bool {
	if len(k.items) > 0 || k.busy > 0 || !k.synced {
		k.kept = time.Now()
	}
	return time.Since(k.kept) >= keepIdle
}

// drain waits for what is being done.
func (k *loop) drain() {
	for ; k.busy > 0; k.busy-- {
		<-k.results
	}
	k.telling.Wait()
}

// next returns when to look next; ok is false for when something changes.
func (k *loop) next() (at time.Time, ok bool) {
	if !k.synced || k.busy >= keepAtOnce {
		return at, false
	}
	soonest := k.looked.Add(keepGap)
	if k.turns.ready() {
		return soonest, true
	}
	if at, ok = k.turns.wake(); at.Before(soonest) {
		at = soonest // what asks to be asked at once, each time, is not asked all the time
	}
	return at, ok
}

// look asks every policy whose turn it is.
func (k *loop) look(ctx context.Context, now time.Time) {
	k.turns.due(now)
	for k.busy < keepAtOnce {
		p := k.turns.take()
		if p == nil {
			break
		}
		k.turn(ctx, p, now)
	}
}

// turn asks a policy, unless it is to wait.
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
	p.asked = now
	began := time.Now()
	plan, err := k.ask(p, now)
	p.rest = 0
	if err != nil {
		k.fail(p, err)
		return
	}
	k.turns.at(p, plan.RequeueAfter)
	if plan.Nothing() {
		p.rest, p.last = restAfter(time.Since(began)), esl.Plan{}
		return
	}
	if !p.moved && does(&plan, &p.last) {
		return // it was done, and nothing has come of it
	}
	k.do(ctx, p, plan)
}

// ask returns what a policy wants done. That it panics is its error, and nobody else's.
func (k *loop) ask(p *managedPolicy, now time.Time) (plan esl.Plan, err error) {
	s := &esl.State{
		View: k.view, Now: now, Namespace: p.of.id.Namespace, ID: p.of.id.ID, Job: p.of.job, Label: p.label, Kinds: k.opts.Kinds, Registry: k.book,
		Ops: k.store.Limits().Ops, Memo: &p.memo, Lacking: make(esl.Lacking),
	}
	err = esl.Contain(func() { plan = p.policy.Next(s) })
	k.lacks(p, s.Lacking)
	if p.of.job == "" {
		plan.EndWith(s.Own(""), p.of.id.ID)
	}
	return plan, err
}

// do has a plan done beside the loop.
func (k *loop) do(ctx context.Context, p *managedPolicy, plan esl.Plan) {
	c, err := k.client(p.of.id.Namespace)
	if err != nil {
		k.fail(p, err)
		return
	}
	here := controlplane.ReadSet{controlplane.PoliciesKey(p.of.id.Namespace, p.of.id.ID): p.of.mod}
	part := part(plan, k.view, p.of.id.Namespace, k.store.Limits().Ops-esl.PlanBase-len(k.opts.Guard))
	t := transaction(&part, c, k.opts.Guard, here, reads(&part, k.view, p.of.id.Namespace))
	p.busy, p.moved, p.last = true, false, plan
	k.busy++
	go func() {
		var done controlplane.Committed
		err := supervise.Contain(func() (err error) {
			done, err = t.Commit(ctx)
			return err
		})
		k.results <- result{p: p, revision: done.Revision, err: err}
	}()
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

// result is what became of a plan.
type result struct {
	p        *managedPolicy
	revision int64
	err      error
}

// settle takes in what became of a plan. After any it is looked again, at a view that
// has it, or a little later.
func (k *loop) settle(r result) {
	k.busy--
	p := r.p
	p.busy = false
	if r.err != nil {
		k.fail(p, r.err)
		return
	}
	p.after, p.failures, p.retry, p.said = r.revision, 0, time.Time{}, ""
	k.log(p).Info("policy kept", zap.String("reason", p.last.Reason), zap.Int64("revision", r.revision))
	if !p.gone {
		k.turns.put(p)
	}
}

// The longest that a policy is left alone after it failed: for want of the store, or as
// something has changed, which the view will have soon; and for what may never succeed.
const (
	keepRetry = time.Second
	keepWrong = 30 * time.Second
)

// fail has a policy asked again later, longer each time. It says what is wrong when that
// changes.
func (k *loop) fail(p *managedPolicy, err error) {
	p.failures++
	reason := p.last.Reason
	p.last = esl.Plan{}
	longest := keepRetry
	if !types.ClassOf(err).Retryable() && !types.Is(err, types.Conflict) {
		longest = keepWrong
	}
	p.retry = time.Now().Add(min(longest, keepGap<<min(p.failures, 12)))
	k.mark(p)
	says, _, _ := strings.Cut(err.Error(), "\n")
	if types.Is(err, types.Conflict) || says == p.said {
		return
	}
	p.said = says
	k.log(p).Warn("policy not kept yet", zap.String("reason", reason), zap.Error(err))
}

func (k *loop) log(p *managedPolicy) *zap.Logger {
	return k.opts.Log.With(zap.String("namespace", p.of.id.Namespace), zap.String("policy", p.of.id.ID+"."+p.label))
}
