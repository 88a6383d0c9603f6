package dev

import (
	"context"
	"errors"
	"os"

	"go.uber.org/zap"

	"github.com/escher-sched/escher/controlplane/etcdstore"
	"github.com/escher-sched/escher/controlplane/server"
	"github.com/escher-sched/escher/nodeagent"
	"github.com/escher-sched/escher/nodeagent/containerd/daemon"
	"github.com/escher-sched/escher/scheduler"
	"github.com/escher-sched/escher/types"
)

// Run runs a cluster until ctx is done, stops what runs in it unless it is to be
// kept, and returns when all has ended. Killed, it leaves containers running; run
// again in the same directory, it adopts them.
//
// Invalid: the error names what is wrong with the configuration. Precondition: the
// directory is in use, or its disk is full, or containerd is not installed.
func Run(ctx context.Context, cfg Config) (err error) {
	if err := cfg.Validate(); err != nil {
		return err
	}
	release, err := server.Lock(string(cfg.Dir))
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, release()) }()
	c := &running{cfg: cfg, stack: newStack(ctx, cfg.Log)}
	defer func() {
		err = errors.Join(err, c.stack.unwind())
		c.tidy()
	}()
	if err := c.up(ctx); err != nil {
		return endedBy(ctx, err)
	}
	if err := cfg.Dir.writeInfo(c.info); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.Remove(cfg.Dir.info())) }()
	cfg.Ready(c.info)
	if err := c.stack.await(ctx, nil); ctx.Err() == nil {
		return err
	}
	if cfg.Keep {
		cfg.Progress("leaving containers running")
		return nil
	}
	return c.stopTasks()
}

// endedBy returns nil for an error that is only that ctx is done.
func endedBy(ctx context.Context, err error) error {
	if ctx.Err() != nil && errors.Is(err, ctx.Err()) {
		return nil
	}
	return err
}

// running is a cluster being started, run and stopped.
type running struct {
	cfg   Config
	stack *stack
	info  Info
	store *etcdstore.Store
	// runtimes are those of the nodes.
	runtimes []nodeagent.Runtime
}

// up starts all parts.
func (c *running) up(ctx context.Context) error {
	// The numbers are the order in which things need one another.
	steps := []func(context.Context) error{
		c.describe,   // 1. what cluster it is
		c.etcd,       // 2. the state
		c.connect,    // 3. the client that all parts share
		c.containerd, // 4. what runs containers
		c.scheduler,  // 5. who binds and releases
		c.collector,  // 6. who deletes what is finished
		c.welcome,    // 7. undo what stopping left
		c.retire,     // 8. end what nobody watches any more
		c.agents,     // 9. the nodes
		c.awaitNodes, // 10. until all are alive
	}
	for _, step := range steps {
		if err := step(ctx); err != nil {
			return err
		}
	}
	return nil
}

func (c *running) describe(context.Context) error {
	id, err := c.cfg.Dir.clusterID()
	c.info = Info{Cluster: id, PID: os.Getpid(), Endpoint: c.cfg.Dir.Endpoint(), Nodes: c.cfg.nodes()}
	return err
}

func (c *running) etcd(ctx context.Context) error {
	c.cfg.Progress("starting etcd")
	ready := make(chan struct{})
	etcd, err := server.New(server.Config{
		Dir: c.cfg.Dir.etcd(), Logger: c.cfg.Log.Named("etcd"), Free: c.cfg.Free,
		Ready: func(string) { close(ready) },
	})
	if err != nil {
		return err
	}
	c.stack.start("etcd", etcd.Run)
	return c.stack.await(ctx, ready)
}

func (c *running) connect(ctx context.Context) error {
	store, err := etcdstore.Dial(ctx, etcdstore.Config{Endpoints: []string{c.info.Endpoint}, Log: c.cfg.Log.Named("client")})
	if err != nil {
		return err
	}
	c.store = store
	c.stack.start("client", func(ctx context.Context) error {
		<-ctx.Done()
		return store.Close()
	})
	return nil
}

func (c *running) containerd(ctx context.Context) error {
	if c.cfg.Runtimes != nil {
		return nil
	}
	c.cfg.Progress("starting containerd, or finding it")
	d, err := daemon.Ensure(ctx, c.cfg.daemon())
	if err != nil {
		return err
	}
	// Containers and images are apart from those of every other cluster.
	c.info.Containerd, c.info.ContainerdNamespace = d.Address(), "escher-"+c.info.Cluster
	c.stack.start("containerd", d.Run)
	return nil
}

func (c *running) scheduler(context.Context) error {
	log := c.cfg.Log.Named("scheduler")
	c.stack.start("scheduler", func(ctx context.Context) error {
		return scheduler.Run(ctx, c.store, scheduler.Config{}, log)
	})
	return nil
}

func (c *running) collector(context.Context) error {
	collector, err := server.NewCollector(c.store, server.NewMaintenance(c.store.Client()), server.DefaultPolicy(), nil, c.cfg.Log.Named("collector"))
	if err != nil {
		return err
	}
	c.stack.start("collector", collector.Run)
	return nil
}

func (c *running) awaitNodes(ctx context.Context) error {
	c.cfg.Progress("starting %d agents", c.cfg.Nodes)
	ready := make(chan struct{})
	watch, cancel := context.WithCancel(ctx)
	defer cancel()
	failed := make(chan error, 1)
	go func() {
		if err := awaitAlive(watch, c.store, c.cfg.nodes()); err != nil {
			failed <- err
			return
		}
		close(ready)
	}()
	select {
	case err := <-failed:
		return err
	case <-ready:
		c.cfg.Log.Info("all nodes are alive", zap.Strings("nodes", c.cfg.nodes()))
		return nil
	case err := <-c.stack.failed:
		return err
	}
}

// errReached ends a watch that has seen what it was for.
var errReached = types.Errorf(types.Internal, "reached")
