package faults

import (
	"cmp"
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"time"

	"go.uber.org/zap"

	"github.com/escher-sched/escher/controlplane"
	"github.com/escher-sched/escher/controlplane/audit"
	"github.com/escher-sched/escher/controlplane/identity"
	"github.com/escher-sched/escher/controlplane/memstore"
	"github.com/escher-sched/escher/controlplane/server"
	"github.com/escher-sched/escher/controlplane/supervise"
	"github.com/escher-sched/escher/esl/builtin"
	"github.com/escher-sched/escher/esl/collect"
	"github.com/escher-sched/escher/esl/keep"
	"github.com/escher-sched/escher/nodeagent"
	"github.com/escher-sched/escher/scheduler"
	"github.com/escher-sched/escher/types"
)

// Config selects a run.
type Config struct {
	Seed uint64
	// Steps is the number of steps of the workload; 0 means the default.
	Steps int
	// Changes makes every second request of an application two changes of one task.
	Changes bool
	// Dir is an empty directory for the state of the agents.
	Dir string
	// Log receives what the components log; nil discards it.
	Log *zap.Logger
	// Unguarded selects the compares that the named component leaves out of its transactions; nil
	// means none.
	Unguarded func(component string, c controlplane.Compare) bool
}

// Result is the result of a run.
type Result struct {
	// Findings are the broken guarantees; none is expected.
	Findings []string
	// History is the history, line by line.
	History []string
	// Revision is the last revision of the store.
	Revision int64
}

// nodes is the number of machines, steps the default number of steps.
const (
	nodes = 4
	steps = 400
)

// world is a cluster under faults.
type world struct {
	seed  uint64
	dir   string
	id    string
	log   *zap.Logger
	began time.Time
	store *memstore.Store

	ctx       context.Context
	stop      context.CancelFunc
	goes      sync.WaitGroup
	parts     []*part
	machines  []*machine
	apps      []*application
	unguarded func(string, controlplane.Compare) bool
	changes   bool

	mu       sync.Mutex
	quiet    bool
	findings []string
	history  []string
	checker  *audit.Checker
	checked  int64
}

// Run runs one seed. Call it in a bubble of testing/synctest.
func Run(cfg Config) Result {
	w := &world{
		seed: cfg.Seed, dir: cfg.Dir, log: cfg.Log, began: time.Now(), store: memstore.New(memstore.WithQuota(64 << 20)),
		checker: audit.NewChecker(), unguarded: cfg.Unguarded, changes: cfg.Changes,
	}
	if w.log == nil {
		w.log = zap.NewNop()
	}
	w.ctx, w.stop = context.WithCancel(context.Background())
	w.begin()
	w.work(rand.New(rand.NewPCG(cfg.Seed, 1)), cmp.Or(cfg.Steps, steps))
	w.rest()
	w.stop()
	w.goes.Wait()
	w.mu.Lock()
	defer w.mu.Unlock()
	return Result{Findings: w.findings, History: w.history, Revision: w.store.Revision()}
}

// begin starts all components.
func (w *world) begin() {
	var err error
	if w.id, err = identity.MakeClusterID(w.ctx, w.store); err != nil {
		w.fail("%v", err)
	}
	w.goes.Go(w.audit)
	for i := range nodes {
		m := w.newMachine(fmt.Sprintf("n%d", i))
		w.machines = append(w.machines, m)
		w.launch(m.agent)
	}
	for i := range 2 {
		w.server(fmt.Sprintf("s%d", i))
	}
	for _, ns := range []string{"a", "b"} {
		app := &application{w: w, ns: ns, calls: make(chan call)}
		w.apps = append(w.apps, app)
		w.launch(&part{name: "application " + ns, run: app.run})
	}
}

// launch starts a component with its mutant, if it has one.
func (w *world) launch(p *part) {
	if w.unguarded != nil {
		p.unguarded = func(c controlplane.Compare) bool { return w.unguarded(p.name, c) }
	}
	w.start(p)
}

// server starts the components of escher server: a scheduler, and the roles of the collector and of
// the policies, which one server at a time has.
func (w *world) server(name string) {
	w.launch(&part{name: "scheduler " + name, run: func(ctx context.Context, s controlplane.Store) error {
		cfg := scheduler.Config{Name: name, Shared: true, Seed: controlplane.NewBatch(), Metrics: scheduler.NewMetrics()}
		return scheduler.Run(ctx, s, cfg, w.log.Named("scheduler."+name))
	}})
	w.launch(&part{name: "collector " + name, run: func(ctx context.Context, s controlplane.Store) error {
		return server.Lead(ctx, s, "collector", &types.Leader{Holder: name}, func(ctx context.Context, guard []controlplane.Compare) error {
			return w.collectAndDrain(ctx, s, name, guard)
		})
	}})
	w.launch(&part{name: "rescue " + name, run: func(ctx context.Context, s controlplane.Store) error {
		r := server.Rescue{Store: s, Maintenance: w.store.Maintenance(), Role: "collector", Metrics: server.NewMetrics(), Log: w.log.Named("rescue." + name)}
		r.Collect = func(ctx context.Context, guard []controlplane.Compare) error { return w.collect(ctx, s, name, guard) }
		return r.Run(ctx)
	}})
	w.launch(&part{name: "policies " + name, run: func(ctx context.Context, s controlplane.Store) error {
		return server.Lead(ctx, s, "policies", &types.Leader{Holder: name}, func(ctx context.Context, guard []controlplane.Compare) error {
			held := make(controlplane.ReadSet)
			for _, c := range guard {
				held[c.Key] = c.Revision
			}
			return keep.Run(ctx, s, keep.Options{Kinds: builtin.Kinds(), Collect: &collect.Config{After: 5 * time.Second}, Guard: held, Log: w.log.Named("policies." + name)})
		})
	}})
}

// collectAndDrain runs the leader's components, each restarted as in a server.
func (w *world) collectAndDrain(ctx context.Context, s controlplane.Store, name string, guard []controlplane.Compare) error {
	g, ctx := supervise.WithContext(ctx)
	for _, c := range []*supervise.Component{
		{Name: "collector", Run: func(ctx context.Context) error { return w.collect(ctx, s, name, guard) }},
		{Name: "drainer", Run: server.NewDrainer(s, guard, server.Options{Logger: w.log.Named("drainer." + name)}).Run},
	} {
		c.Ends = func(err error) bool { return types.Is(err, types.Conflict) } // The role is lost.
		c.Log = w.log.Named(name)
		g.Go(func() error { return c.Keep(ctx) })
	}
	return g.Wait()
}

// collect runs the collector, with short times.
func (w *world) collect(ctx context.Context, s controlplane.Store, name string, guard []controlplane.Compare) error {
	policy := server.DefaultPolicy()
	policy.Interval, policy.KeepAge, policy.KeepMin, policy.KeepNumber = 10*time.Second, time.Minute, 30*time.Second, 20
	policy.OrphanGrace, policy.SpecGrace = 2*time.Minute, 2*time.Minute
	c, err := server.NewCollector(s, w.store.Maintenance(), policy, guard, server.Options{Logger: w.log.Named("collector." + name)})
	if err != nil {
		return err
	}
	return c.Run(ctx)
}

// audit checks every revision.
func (w *world) audit() {
	for b := range w.store.Watch(w.ctx, controlplane.WatchOptions{Prefix: controlplane.Root, From: 1}) {
		w.mu.Lock()
		found := w.checker.Apply(b)
		w.checked = b.Revision
		w.mu.Unlock()
		if b.Err != nil && w.ctx.Err() == nil {
			w.fail("the audit lost its watch: %v", b.Err)
		}
		for _, f := range found {
			if !ofPlanted(f) {
				w.fail("%s", f)
			}
		}
	}
}

// ofPlanted reports whether a finding is about planted keys.
func ofPlanted(f audit.Finding) bool { return planted(f.Object) || planted(f.Text.String()) }

// planted reports whether a key, or a text, has the id of a planted key.
func planted(text string) bool { return strings.Contains(text, junk) }

// runsOnce finds a task that two machines run at once.
func (w *world) runsOnce(on *machine, a nodeagent.Attempt) {
	for _, m := range w.machines {
		if m == on {
			continue
		}
		for _, id := range m.runtime.Running() {
			if other := m.attempt(id); other.Namespace == a.Namespace && other.Task == a.Task {
				w.fail("NeverTwice: %s/%s runs on %s as attempt %d, and on %s as attempt %d", a.Namespace, a.Task, on.name, a.Number, m.name, other.Number)
			}
		}
	}
}

// calm reports whether the faults have stopped.
func (w *world) calm() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.quiet
}

func (w *world) fail(format string, args ...any) {
	w.note("FOUND: "+format, args...)
	w.mu.Lock()
	defer w.mu.Unlock()
	if len(w.findings) < 20 {
		w.findings = append(w.findings, fmt.Sprintf(format, args...))
	}
}

// note adds a line to the history.
func (w *world) note(format string, args ...any) {
	revision := w.store.Revision()
	w.mu.Lock()
	defer w.mu.Unlock()
	w.history = append(w.history, fmt.Sprintf("%10s r%-6d %s", time.Since(w.began).Round(time.Millisecond), revision, fmt.Sprintf(format, args...)))
}

// found reports whether there are findings.
func (w *world) found() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return len(w.findings) > 0
}

// list reads a range past all faults.
func (w *world) list(prefix string) []controlplane.KV {
	page, err := w.store.List(context.Background(), controlplane.ListOptions{Prefix: prefix})
	if err != nil {
		w.fail("%v", err)
	}
	return slices.Clip(page.KVs)
}
