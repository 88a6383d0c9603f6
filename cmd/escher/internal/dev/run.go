//go:build linux

package dev

import (
	"context"
	"errors"
	"os"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/escher-sched/escher/api/secrets"
	"github.com/escher-sched/escher/api/tunnels"
	"github.com/escher-sched/escher/cmd/escher/internal/ops"
	"github.com/escher-sched/escher/cmd/escher/internal/parts"
	"github.com/escher-sched/escher/controlplane/accounting"
	"github.com/escher-sched/escher/controlplane/etcdstore"
	"github.com/escher-sched/escher/controlplane/server"
	"github.com/escher-sched/escher/esl/decisions"
	"github.com/escher-sched/escher/nodeagent"
	"github.com/escher-sched/escher/nodeagent/runtime/containerd"
	"github.com/escher-sched/escher/nodeagent/runtime/containerd/daemon"
	"github.com/escher-sched/escher/types/words"
)

// Run runs a cluster until ctx is done, stops its tasks unless Keep is set, and returns when all
// has ended. Killed, it leaves containers running; run again in the same directory, it adopts them.
//
// Invalid: the error names the problem in the configuration. Precondition: the directory is in use,
// or its disk is full, or containerd is not installed.
func Run(ctx context.Context, cfg Config) (err error) {
	if err := cfg.Validate(); err != nil {
		return err
	}
	release, err := server.Lock(string(cfg.Dir))
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, release()) }()
	c := &running{cfg: cfg, registry: ops.NewRegistry(), health: new(ops.Health), decisions: decisions.New(time.Now())}
	c.stack = parts.NewStack(ctx, cfg.Log, c.health)
	c.registry.MustRegister(c.stack.Metrics)
	defer func() {
		err = errors.Join(err, c.stack.Unwind())
		c.tidy()
	}()
	if err := c.up(ctx); err != nil {
		return parts.EndedBy(ctx, err)
	}
	if err := cfg.Dir.writeInfo(c.info); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.Remove(cfg.Dir.info())) }()
	cfg.Ready(c.info)
	if err := c.stack.Await(ctx, nil); ctx.Err() == nil {
		return err
	}
	if cfg.Keep {
		cfg.Progress("leaving containers running")
		return nil
	}
	return c.stopTasks(ctx)
}

// running is a cluster being started, run and stopped.
type running struct {
	cfg   Config
	stack *parts.Stack
	info  Info
	store *etcdstore.Store
	// registry has the metrics of all components except etcd, health their pulses.
	registry *prometheus.Registry
	health   *ops.Health
	// decisions are those of policies.
	decisions *decisions.Log
	// tunnels are those of agents that reach this process alone.
	tunnels *tunnels.Registry
	// history is that of ended tasks; nil means none.
	history *accounting.Recorder
	// secrets seal and open secrets.
	secrets *secrets.Keys
	// pulls are those of all nodes.
	pulls containerd.Pulls
	// runtimes are those of the nodes.
	runtimes []nodeagent.Runtime
}

// up starts all components.
func (c *running) up(ctx context.Context) error {
	// The order follows the dependencies.
	steps := []func(context.Context) error{
		c.describe,   // 1. the id of the cluster
		c.operate,    // 2. metrics and health
		c.etcd,       // 3. the state
		c.connect,    // 4. the shared client
		c.containerd, // 5. the container runtime
		c.server,     // 6. scheduler and garbage collector
		c.api,        // 7. the HTTP API
		c.welcome,    // 8. undo the cordons of stopping
		c.retire,     // 9. end containers of former nodes
		c.watchdog,   // 10. end tasks if this process cannot
		c.agents,     // 11. the nodes
		c.awaitNodes, // 12. until all are alive
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
	// It ends by itself only if it cannot use its directory or its disk.
	c.stack.StartVital("etcd", etcd.Run)
	return c.stack.Await(ctx, ready)
}

func (c *running) connect(ctx context.Context) error {
	metrics := etcdstore.NewMetrics()
	store, err := etcdstore.Dial(ctx, etcdstore.Config{
		Endpoints: []string{c.info.Endpoint},
		Limits:    etcdstore.ServerLimits(), Options: []etcdstore.Option{etcdstore.WithMetrics(metrics)},
	})
	if err == nil {
		err = c.registry.Register(metrics)
	}
	if err != nil {
		return err
	}
	c.store = store
	c.stack.Start("client", func(ctx context.Context) error {
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
	// Each cluster has its own containers and images.
	c.info.Containerd, c.info.ContainerdNamespace = d.Address(), "escher-"+c.info.Cluster
	c.stack.Start("containerd", d.Run)
	return nil
}

func (c *running) server(context.Context) error {
	var err error
	if c.history, err = parts.NewHistory(c.store, string(c.cfg.Dir), c.info.Cluster, "", c.cfg.History, c.cfg.Log); err != nil {
		return err
	}
	if c.tunnels, err = tunnels.New(tunnels.Config{Now: time.Now, Log: c.cfg.Log.Named("tunnels")}); err != nil {
		return err
	}
	return parts.Server{Tunnel: c.tunnels.Dial, Store: c.store, History: c.history, Placement: c.cfg.Placement, Collect: c.cfg.Collect, Decisions: c.decisions, Log: c.cfg.Log, Health: c.health, Metrics: c.registry}.Start(c.stack)
}

func (c *running) awaitNodes(ctx context.Context) error {
	c.cfg.Progress("starting %s", words.Count(c.cfg.Nodes, "agent"))
	watch, cancel := context.WithCancel(ctx)
	defer cancel()
	alive := make(chan struct{})
	go func() {
		if parts.AwaitAlive(watch, c.store, c.cfg.nodes()) == nil {
			close(alive)
		}
	}()
	return c.stack.Await(ctx, alive)
}
