package hollow

import (
	"context"
	"errors"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/escher-sched/escher/controlplane"
	"github.com/escher-sched/escher/controlplane/accounting"
	"github.com/escher-sched/escher/controlplane/cluster"
	"github.com/escher-sched/escher/controlplane/identity"
	"github.com/escher-sched/escher/controlplane/memstore"
	"github.com/escher-sched/escher/controlplane/server"
	"github.com/escher-sched/escher/esl"
	"github.com/escher-sched/escher/esl/builtin"
	"github.com/escher-sched/escher/esl/keep"
	"github.com/escher-sched/escher/scheduler"
	"github.com/escher-sched/escher/types"
)

// Cluster runs until it is closed. Its methods may be called concurrently.
type Cluster struct {
	// Store holds the whole state.
	Store controlplane.Store
	// History is that of ended tasks; nil without a directory.
	History *accounting.Recorder

	cfg   Config
	id    string
	begin time.Time
	ctx   context.Context
	stop  context.CancelFunc
	group *errgroup.Group
	audit *auditing

	mu    sync.Mutex
	nodes map[string]*machine
	// uses are the simulated usages of tasks, losses says how much of their time they wait, and waits how
	// much they have; others is the memory of other programs. Silent nodes do not tell theirs.
	uses   map[cluster.ID]use
	losses func(task cluster.ID, beside []cluster.ID) float64
	waits  map[cluster.ID]waits
	others map[string]int64
	silent map[string]bool
	// keeping runs policies, and serving the other parts of a server; nil if they are stopped.
	keeping, serving *part
}

// Start starts a cluster, and returns when all nodes are alive. It ends with ctx, or when it is
// closed.
func Start(ctx context.Context, cfg Config) (*Cluster, error) {
	cfg = cfg.withDefaults()
	c := &Cluster{Store: cfg.Store, cfg: cfg, begin: time.Now(), nodes: make(map[string]*machine), uses: make(map[cluster.ID]use), others: make(map[string]int64), silent: make(map[string]bool), waits: make(map[cluster.ID]waits)}
	if cfg.HistoryDir != "" {
		c.History = &accounting.Recorder{Store: cfg.Store, Cluster: "hollow", Dir: cfg.HistoryDir, Log: cfg.Log.Named("history")}
	}
	ctx, c.stop = context.WithCancel(ctx)
	c.group, c.ctx = errgroup.WithContext(ctx)
	err := c.start()
	if err != nil {
		return nil, errors.Join(err, c.Close())
	}
	return c, nil
}

func (c *Cluster) start() (err error) {
	if c.id, err = identity.MakeClusterID(c.ctx, c.Store); err != nil {
		return err
	}
	if !c.cfg.NoAudit {
		c.audit = newAuditing()
		c.run(func(ctx context.Context) error { return c.audit.follow(ctx, c.Store) })
	}
	c.Serve()
	if !c.cfg.NoKeep {
		c.Keep()
	}
	for _, n := range c.cfg.Nodes {
		c.start1(n)
	}
	_, err = c.Await(c.ctx, func(v *cluster.View) bool {
		for _, n := range c.cfg.Nodes {
			if there := v.Nodes[n.Name]; there == nil || there.Alive.V == nil {
				return false
			}
		}
		return true
	})
	return err
}

// run runs a part until the cluster is closed.
func (c *Cluster) run(f func(ctx context.Context) error) {
	c.group.Go(func() error { return f(c.ctx) })
}

// Close ends the cluster, and returns the error of a failed part, if any.
func (c *Cluster) Close() error {
	c.StopKeeping()
	c.StopServing()
	c.mu.Lock()
	all := c.nodes
	c.nodes = make(map[string]*machine)
	c.mu.Unlock()
	for _, m := range all {
		m.end()
	}
	c.stop()
	err := c.group.Wait()
	if errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) {
		return nil
	}
	return err
}

// Client returns a client of a namespace that submits jobs with policies.
func (c *Cluster) Client(ns string) (*esl.Client, error) {
	client, err := controlplane.New(c.Store, ns)
	if err != nil {
		return nil, err
	}
	jobs := builtin.New(client)
	jobs.Kinds = c.cfg.Kinds
	return jobs, nil
}

// Await follows the cluster until holds returns true, and returns that state. The caller owns the
// view.
func (c *Cluster) Await(ctx context.Context, holds func(*cluster.View) bool) (*cluster.View, error) {
	errHolds := errors.New("it holds")
	v := cluster.New()
	err := controlplane.ListWatch(ctx, c.Store, controlplane.ListWatchOptions{Prefix: controlplane.Root}, func(u controlplane.Update) error {
		for _, e := range u.Events {
			if _, _, err := v.Apply(e); err != nil {
				return err
			}
		}
		v.Reached(u.Revision)
		if holds(v) {
			return errHolds
		}
		return nil
	})
	if errors.Is(err, errHolds) {
		return v, nil
	}
	return v, err
}

// View returns the current cluster.
func (c *Cluster) View(ctx context.Context) (*cluster.View, error) {
	return c.Await(ctx, func(*cluster.View) bool { return true })
}

// Running returns the nodes of the running tasks of a namespace, by id.
func Running(v *cluster.View, ns string) map[string]string {
	out := make(map[string]string)
	for t := range v.Tasks() {
		if t.ID.Namespace == ns && t.Status.V != nil && t.Phase() == types.Running {
			out[t.ID.ID] = t.Status.V.Full().Node
		}
	}
	return out
}

// part runs in the background.
type part struct {
	stop context.CancelFunc
	done chan struct{}
}

// runPart runs f in place of a part until the cluster is closed, or the part is stopped.
func (c *Cluster) runPart(at **part, f func(ctx context.Context) error) {
	c.stopPart(at)
	ctx, cancel := context.WithCancel(c.ctx)
	p := &part{stop: cancel, done: make(chan struct{})}
	c.mu.Lock()
	*at = p
	c.mu.Unlock()
	c.group.Go(func() error {
		defer close(p.done)
		err := f(ctx)
		if ctx.Err() != nil {
			return nil
		}
		return err
	})
}

// stopPart stops a part, if it runs.
func (c *Cluster) stopPart(at **part) {
	c.mu.Lock()
	p := *at
	*at = nil
	c.mu.Unlock()
	if p != nil {
		p.stop()
		<-p.done
	}
}

// Keep runs policies until the cluster is closed, or StopKeeping is called. It is for clusters with
// NoKeep, or after StopKeeping.
func (c *Cluster) Keep() {
	c.runPart(&c.keeping, func(ctx context.Context) error {
		return keep.Run(ctx, c.Store, keep.Options{Kinds: c.cfg.Kinds, Collect: &c.cfg.Collect, Measure: c.Measured, Log: c.cfg.Log.Named("policies")})
	})
}

// StopKeeping stops running policies at any point, as if the process were killed.
func (c *Cluster) StopKeeping() { c.stopPart(&c.keeping) }

// Serve runs the scheduler, the collector and the drainer until the cluster is closed, or StopServing
// is called. It is for after StopServing.
func (c *Cluster) Serve() {
	c.runPart(&c.serving, func(ctx context.Context) error {
		opts := server.Options{Logger: c.cfg.Log.Named("collector")}
		if c.History != nil {
			opts.Recorded = c.History.Recorded
		}
		collector, err := server.NewCollector(c.Store, maintenance{c.Store}, c.cfg.Collector, nil, opts)
		if err != nil {
			return err
		}
		all, ctx := errgroup.WithContext(ctx)
		all.Go(func() error {
			return scheduler.Run(ctx, c.Store, c.cfg.Scheduler, c.cfg.Log.Named("scheduler"))
		})
		all.Go(func() error { return collector.Run(ctx) })
		if c.History != nil {
			all.Go(func() error { return c.History.Run(ctx) })
		}
		all.Go(func() error {
			return server.NewDrainer(c.Store, nil, server.Options{Logger: c.cfg.Log.Named("drainer")}).Run(ctx)
		})
		return all.Wait()
	})
}

// StopServing stops the parts of Serve at any point, as if the process were killed.
func (c *Cluster) StopServing() { c.stopPart(&c.serving) }

// maintenance serves a store that never fills, and forgets nothing.
type maintenance struct{ store controlplane.Store }

func (m maintenance) Usage(ctx context.Context) (controlplane.Usage, error) {
	u := controlplane.Usage{Quota: 8 << 30}
	if s, ok := m.store.(*memstore.Store); ok {
		u.Revision = s.Revision()
		return u, nil
	}
	page, err := m.store.List(ctx, controlplane.ListOptions{Key: controlplane.ClusterKey(), KeysOnly: true})
	u.Revision = page.Revision
	return u, err
}

func (maintenance) Compact(context.Context, int64) error { return nil }

func (maintenance) Defragment(context.Context) error { return nil }
