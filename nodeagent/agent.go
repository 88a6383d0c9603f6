package nodeagent

import (
	"context"
	"errors"
	"sync"
	"time"

	"go.uber.org/zap"
	"golang.org/x/sync/errgroup"
	"golang.org/x/sync/semaphore"
	"golang.org/x/sync/singleflight"

	"github.com/escher-sched/escher/controlplane"
	"github.com/escher-sched/escher/controlplane/supervise"
	"github.com/escher-sched/escher/nodeagent/fence/execlog"
	"github.com/escher-sched/escher/nodeagent/fence/watchdog"
	"github.com/escher-sched/escher/nodeagent/outbox"
	"github.com/escher-sched/escher/nodeagent/peers"
	"github.com/escher-sched/escher/nodeagent/serve/tasksocket"
	"github.com/escher-sched/escher/types"
)

// Agent runs the attempts that are bound to one node.
//
// A goroutine per attempt (task) does what Next decides. The input of Next comes from four other
// goroutines: the watch of the node's bindings, the observer of the runtime, the renewal of the
// session, and the outbox of reports. When the session is lost, all of them end and start again:
// for an agent, a lost session and a restart are the same.
type Agent struct {
	cfg    Config
	log    *zap.Logger
	state  *stateFile
	marks  marks
	specs  *specs
	starts *semaphore.Weighted
	// workdirs are those under way from other nodes.
	workdirs singleflight.Group
	// spaces reads the settings of the namespaces of its tasks.
	spaces namespaces
	// peers reads the jobs of its tasks.
	peers *peers.Reader
	// clients serve the task sockets.
	clients clients
	// bounds limits the resources that all task sockets use together.
	bounds *tasksocket.Bounds
	events *history
	// executions logs the processes that run here; nil means no log.
	executions *execlog.Log
	// deadline is the page that the watchdog reads; nil means no state directory.
	deadline *watchdog.Page
	// unsaved signals a renewal that the state file does not have yet.
	unsaved chan struct{}

	mu sync.Mutex
	// life is how long the session lasts; fenced reports whether it may end soon.
	life   lifetime
	fenced bool
	// token authorizes its bearer to use the node's API during this session.
	token string
	// The fields below belong to one life of the agent, except devices and leftAlone: see reset.
	session int64
	since   time.Time
	tasks   map[string]*task
	byKey   map[string]*task
	// synced reports whether the bindings are known, listed whether the containers are: an unknown
	// one does not exist.
	synced, listed bool
	// known is closed when both are: from then on, the tasks end their processes themselves.
	known chan struct{}
	// reports are the reports stored before this life, by key, until synced.
	reports map[string]types.Report
	outbox  *outbox.Outbox
	// look wakes the observer, which lists the containers of the runtime.
	look chan struct{}
	// devices are the stored devices of the node.
	devices []types.Device
	// leftAlone are the ignored devices, as logged last: their resource has a configured capacity.
	leftAlone []string
	// spawn runs a function that ends with this life.
	spawn func(func(context.Context))
}

// New makes an agent. Invalid: the error names everything that is wrong with cfg. Precondition: the
// state directory cannot be used.
func New(cfg Config) (*Agent, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	cfg = cfg.withDefaults()
	st, err := openState(cfg.StateDir)
	if err != nil {
		return nil, err
	}
	a := &Agent{
		cfg:    cfg,
		log:    cfg.Logger.With(zap.String("node", cfg.Node)),
		state:  st,
		marks:  newMarks(cfg.StateDir),
		known:  make(chan struct{}),
		specs:  &specs{store: cfg.Store, known: make(map[string]*types.Spec)},
		starts: semaphore.NewWeighted(int64(cfg.Starts)),
		bounds: tasksocket.NewBounds(),
		spaces: namespaces{store: cfg.Store},
		events: newHistory(),

		unsaved: make(chan struct{}, 1),
	}
	a.peers = &peers.Reader{Store: cfg.Store, Spec: a.specs.get}
	cfg.Metrics.of(sampled{cfg.Node, a.sample})
	return a, nil
}

// Run registers the node and runs the attempts bound to it until ctx is done. Then it returns
// ctx.Err(), and leaves containers and session to the next Run. It retries failures after a growing
// pause. Invalid: the node cannot be registered with this configuration. Any other error is fatal:
// the state directory cannot be used.
func (a *Agent) Run(ctx context.Context) error {
	if err := a.openFiles(); err != nil {
		return supervise.Fatal(err)
	}
	defer a.closeFiles()
	schedule := supervise.NewSchedule()
	for {
		began := time.Now()
		err := supervise.Contain(func() error { return a.live(ctx) })
		switch {
		case ctx.Err() != nil:
			return ctx.Err()
		case types.Is(err, types.Invalid) && !a.ranBefore():
			return err
		case errors.Is(err, errOver):
			a.log.Warn("the session is over: the next one begins")
			continue // A life lasts until the first renewal at least.
		}
		wait := schedule.Next(time.Since(began))
		if left := a.lifetime().deadline() - a.cfg.BootClock(); left > 0 {
			wait = min(wait, a.cfg.TTL/3) // The session goes on meanwhile.
		}
		a.log.Warn("the agent failed: it begins again", zap.Duration("duration", wait), zap.Error(err))
		if err := a.pauseGuarded(ctx, wait); err != nil {
			return err
		}
	}
}

// pauseGuarded waits, and meanwhile ends the processes that would outlive their session.
func (a *Agent) pauseGuarded(ctx context.Context, wait time.Duration) error {
	stop := a.guardLast(ctx)
	defer stop()
	return supervise.Pause(ctx, wait)
}

// live is one life of the agent: a session, or a part of one.
func (a *Agent) live(ctx context.Context) error {
	unguard := a.guardLast(ctx)
	defer unguard()
	if err := a.register(ctx); err != nil {
		return err
	}
	session, err := a.open(ctx)
	if err != nil {
		return err
	}
	reports, err := a.storedReports(ctx)
	if err != nil {
		return err
	}
	group, ctx := supervise.WithContext(ctx)
	a.reset(session, reports, func(f func(context.Context)) {
		group.Go(func() error { f(ctx); return nil })
	})
	group.Go(func() error {
		if a.Await(ctx) == nil {
			unguard()
		}
		return nil
	})
	group.Go(func() error { return a.keepAlive(ctx) })
	group.Go(func() error { return a.saveRenewals(ctx) })
	group.Go(func() error { return a.follow(ctx) })
	group.Go(func() error { return a.observe(ctx) })
	group.Go(func() error { return a.outbox.Run(ctx) })
	group.Go(func() error { return a.keepLogs(ctx) })
	group.Go(func() error { return a.keepDevices(ctx) })
	return group.Wait()
}

// reset begins a life.
func (a *Agent) reset(session int64, reports map[string]types.Report, spawn func(func(context.Context))) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if session != a.session {
		a.since = time.Now()
	}
	a.session, a.reports, a.spawn = session, reports, spawn
	a.tasks, a.byKey = make(map[string]*task), make(map[string]*task)
	if a.listed {
		a.known = make(chan struct{})
	}
	a.synced, a.listed = false, false
	a.outbox = outbox.New(a.cfg.Store, a.log)
	a.look = make(chan struct{}, 1)
}

// storedReports returns the stored reports. It runs before the agent reads the bindings: a report
// is deleted only together with its binding, so an ended attempt never looks unfinished.
func (a *Agent) storedReports(ctx context.Context) (map[string]types.Report, error) {
	out := make(map[string]types.Report)
	err := a.retry(ctx, "read reports", func() error {
		kvs, _, err := controlplane.ListAll(ctx, a.cfg.Store, controlplane.ListOptions{Prefix: controlplane.Prefix(controlplane.Reports, a.cfg.Node)})
		if err != nil {
			return err
		}
		for _, kv := range kvs {
			var r types.Report
			if controlplane.Read(kv, &r) {
				out[kv.Key] = r
			}
		}
		return nil
	})
	return out, err
}

// sample returns the number of running processes and the age of the session.
func (a *Agent) sample() (running int, age time.Duration) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, t := range a.tasks {
		if t.seen.Container == Running {
			running++
		}
	}
	if a.session != 0 {
		age = time.Since(a.since)
	}
	return running, age
}

// wakeAll wakes every task. The caller holds a.mu.
func (a *Agent) wakeAll() {
	for _, t := range a.tasks {
		t.poke()
	}
}

// lookSoon wakes the observer, which lists the containers of the runtime.
func (a *Agent) lookSoon() {
	select {
	case a.look <- struct{}{}:
	default: // One pending wake-up is enough.
	}
}

// each calls f for every item, several at a time, and returns the first error after all calls have
// returned.
func each[T any](items []T, f func(T) error) error {
	const atOnce = 16
	var group errgroup.Group
	group.SetLimit(atOnce)
	for _, item := range items {
		group.Go(func() error { return f(item) })
	}
	return group.Wait()
}
