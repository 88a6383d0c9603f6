// Package agents provides hollow node agents: they follow the protocol of an agent, and run
// nothing. Many of them share a few connections.
package agents

import (
	"cmp"
	"context"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/escher-sched/escher/controlplane"
	"github.com/escher-sched/escher/controlplane/supervise"
	"github.com/escher-sched/escher/nodeagent/outbox"
	"github.com/escher-sched/escher/types"
)

// Config configures the agents.
type Config struct {
	// Stores are the connections: agent i uses i modulo their number.
	Stores []controlplane.Store
	// Nodes are the names of the nodes, which are registered but not alive.
	Nodes []string
	// TTL is the time to live of each session, in whole seconds.
	TTL time.Duration
	// Opening bounds how many sessions begin at once; 0 means four for each connection.
	Opening int
	// RunFor returns the run time of the process of a binding; 0 means that it ends before a report
	// that it runs. Many goroutines call it. nil means that the agents watch and renew, and start
	// nothing.
	RunFor func(k controlplane.Key, b *types.Binding) time.Duration
	// Ready is called once, when all agents are alive.
	Ready func()
}

// image is the image of every hollow process, by digest.
const image = "escher.local/hollow@sha256:e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"

// openAtOnce is how many sessions begin at once on a connection, unless Opening says so.
const openAtOnce = 4

// Run runs the agents until ctx is done, and then returns ctx.Err(). Precondition: a node is alive
// already, or a session was lost.
func Run(ctx context.Context, cfg Config) error {
	g, ctx := errgroup.WithContext(ctx)
	opening := make(chan struct{}, cmp.Or(cfg.Opening, openAtOnce*len(cfg.Stores)))
	var dead atomic.Int64
	dead.Store(int64(len(cfg.Nodes)))
	keepers := make([]*keeper, len(cfg.Stores))
	for i, store := range cfg.Stores {
		k := &keeper{store: store, ttl: cfg.TTL}
		keepers[i] = k
		g.Go(func() error { return k.run(ctx, cfg.TTL/renewals*time.Duration(i)/time.Duration(len(cfg.Stores))) })
	}
	for i, node := range cfg.Nodes {
		a := newAgent(cfg, cfg.Stores[i%len(cfg.Stores)], node)
		g.Go(func() error {
			lease, err := a.open(ctx, opening)
			if err != nil {
				return err
			}
			if dead.Add(-1) == 0 {
				cfg.Ready()
			}
			keepers[i%len(cfg.Stores)].keep(node, lease)
			if cfg.RunFor != nil {
				g.Go(func() error { return a.outbox.Run(ctx) })
			}
			return a.follow(ctx)
		})
	}
	return g.Wait()
}

// agent is the agent of one node.
type agent struct {
	cfg    Config
	store  controlplane.Store
	node   string
	outbox *outbox.Outbox

	// running are the processes by the keys of their bindings; only follow uses them.
	running map[string]*process
}

// process is a simulated process.
type process struct {
	binding int64
	started time.Time
	end     *time.Timer
}

func newAgent(cfg Config, store controlplane.Store, node string) *agent {
	return &agent{cfg: cfg, store: store, node: node, outbox: outbox.New(store, nil), running: make(map[string]*process)}
}

// open begins the session of the node.
func (a *agent) open(ctx context.Context, opening chan struct{}) (controlplane.LeaseID, error) {
	select {
	case opening <- struct{}{}:
		defer func() { <-opening }()
	case <-ctx.Done():
		return 0, ctx.Err()
	}
	schedule := supervise.NewSchedule()
	lease, err := a.store.GrantLease(ctx, a.cfg.TTL)
	for ; err != nil && types.Is(err, types.Unavailable); lease, err = a.store.GrantLease(ctx, a.cfg.TTL) {
		if err := schedule.Pause(ctx, 0); err != nil {
			return 0, err
		}
	}
	if err != nil {
		return 0, err
	}
	key := controlplane.AliveKey(a.node)
	change := controlplane.NewChange(controlplane.NewBatch())
	change.IfCreated(key, 0)
	change.PutOn(key, &types.Alive{TTLSeconds: int64(a.cfg.TTL / time.Second)}, lease)
	res, err := controlplane.Commit(ctx, a.store, change.Txn())
	if err == nil && !res.Committed {
		err = types.Errorf(types.Precondition, "begin session: node %s is alive: stop its agent first", a.node)
	}
	return lease, err
}

// follow watches the bindings of the node, the only watch of an agent.
func (a *agent) follow(ctx context.Context) error {
	opts := controlplane.ListWatchOptions{Prefix: controlplane.Prefix(controlplane.Bindings, a.node)}
	return controlplane.ListWatch(ctx, a.store, opts, func(u controlplane.Update) error {
		for _, e := range u.Events {
			if err := a.take(e); err != nil {
				return err
			}
		}
		return nil
	})
}

// take processes a change of a binding.
func (a *agent) take(e controlplane.Event) error {
	if a.cfg.RunFor == nil {
		return nil
	}
	if e.Delete {
		if p := a.running[e.Key]; p != nil {
			p.end.Stop()
			delete(a.running, e.Key)
		}
		return nil
	}
	k, ok := controlplane.Parse(e.Key)
	if !ok {
		return types.Errorf(types.Internal, "read %s: it is no key of a binding", e.Key)
	}
	b := new(types.Binding)
	if err := types.Decode(e.Value, b); err != nil {
		return err
	}
	a.bind(k, e.CreateRevision, b)
	return nil
}

// bind starts the process of a binding, or ends it if the binding says so.
func (a *agent) bind(k controlplane.Key, created int64, b *types.Binding) {
	key := k.String()
	p := a.running[key]
	if p == nil {
		p = &process{binding: created, started: time.Now()}
		a.running[key] = p
		a.start(k, p, a.cfg.RunFor(k, b))
	}
	if b.Stop != nil && p.end.Stop() {
		a.exited(k, p, true)
	}
}

// start starts a process, and reports it unless it ends at once.
func (a *agent) start(k controlplane.Key, p *process, runs time.Duration) {
	if runs > 0 {
		a.report(k, &types.Report{Phase: types.ReportRunning, Binding: p.binding, Started: p.started.UnixNano(), Image: image})
	}
	p.end = time.AfterFunc(runs, func() { a.exited(k, p, false) })
}

// exited reports the end of a process; a real agent would remove its container once that is stored.
func (a *agent) exited(k controlplane.Key, p *process, stopped bool) {
	a.report(k, &types.Report{
		Phase: types.ReportExited, Binding: p.binding, Started: p.started.UnixNano(), Ended: time.Now().UnixNano(),
		Stopped: stopped, Image: image,
	})
}

// report queues a report on a process.
func (a *agent) report(k controlplane.Key, r *types.Report) {
	a.outbox.Put(&outbox.Letter{Attempt: k, Report: r})
}
