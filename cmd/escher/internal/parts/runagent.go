package parts

import (
	"context"
	"crypto/sha256"
	"crypto/tls"
	"encoding/hex"
	"errors"
	"os"
	"time"

	"go.uber.org/zap"

	"github.com/escher-sched/escher/controlplane"
	"github.com/escher-sched/escher/controlplane/etcdstore"
	"github.com/escher-sched/escher/controlplane/identity"
	"github.com/escher-sched/escher/controlplane/server"
	"github.com/escher-sched/escher/controlplane/supervise"
	"github.com/escher-sched/escher/nodeagent"
	"github.com/escher-sched/escher/nodeagent/fence/watchdog"
	"github.com/escher-sched/escher/nodeagent/machine/cgroup"
	"github.com/escher-sched/escher/nodeagent/machine/devices"
	"github.com/escher-sched/escher/nodeagent/machine/usage"
	"github.com/escher-sched/escher/nodeagent/runtime/containerd"
	"github.com/escher-sched/escher/nodeagent/runtime/containerd/daemon"
	"github.com/escher-sched/escher/types"
)

// AgentConfig says how to run the agent of this machine.
type AgentConfig struct {
	Etcd etcdstore.Config
	// Join is the server that is reached instead; its zero value means etcd.
	Join Join
	// Agent describes the node; RunAgent sets Store, Runtime, Cluster and Address.
	Agent nodeagent.Config
	// Containerd is the daemon to use, or to run.
	Containerd daemon.Config
	// Devices says where to find devices.
	Devices devices.Config
	// Logger is the program that containerd runs for each container.
	Logger containerd.Logger
	// CgroupDriver makes the cgroups of containers; empty means the one that suits the machine.
	CgroupDriver cgroup.Driver

	// Listen is host:port of the node's API; empty means port 7421, on loopback only without a
	// certificate. Insecure allows other machines without one. Advertise is the address for others;
	// empty means the address from which this machine reaches etcd.
	Listen, Advertise string
	Insecure          bool
	// UsageEvery is how often usage is sampled. NoTaskMetrics leaves metrics with names of tasks
	// out; OpenTaskMetrics shows them to other machines, without a token.
	UsageEvery                     time.Duration
	NoTaskMetrics, OpenTaskMetrics bool
	// TLSCert and TLSKey are files of the API's certificate; empty means no encryption.
	TLSCert, TLSKey string

	Log      *zap.Logger
	Progress Progress
	// Ready is called once the node is alive, with the id of the cluster and the address of its
	// API; empty if it opens no port.
	Ready func(cluster, address string)
}

// RunAgent runs the agent of this machine until ctx is done, and returns nil then. Its containers
// run on, and the next agent adopts them. It waits while etcd is unreachable.
//
// Precondition: this machine cannot run containers, the state directory or the port is in use, or
// another agent has the node's name.
func RunAgent(ctx context.Context, cfg AgentConfig) (err error) {
	if err := cfg.validate(); err != nil {
		return err
	}
	if err := fit(cfg.CgroupDriver); err != nil {
		return err
	}
	way, err := cfg.way()
	if err != nil {
		return err
	}
	release, err := server.Lock(cfg.Agent.StateDir)
	if err != nil {
		return types.Errorf(types.ClassOf(err), "state-dir: %w", err)
	}
	defer func() { err = errors.Join(err, release()) }()
	if err := way.open(&cfg); err != nil {
		return err
	}
	p := newProcess(ctx, cfg.Log, cfg.Progress)
	defer func() {
		err = errors.Join(EndedBy(ctx, err), p.stack.Unwind())
		way.close()
	}()
	cluster, err := p.join(ctx, &cfg)
	if err != nil {
		return err
	}
	if err := p.awaitName(ctx, cfg.Agent.Node, cfg.Agent.StateDir); err != nil {
		return err
	}
	runtime, err := p.runtime(ctx, cfg, cluster)
	if err != nil {
		return err
	}
	err = StartWatchdog(ctx, p.stack, watchdog.Keeper{
		Config:  watchdog.Config{Dir: cfg.Agent.StateDir, Nodes: []watchdog.Node{{Name: cfg.Agent.Node, StateDir: cfg.Agent.StateDir, Cgroups: runtime.Cgroups()}}},
		Program: cfg.Logger.Path, Logger: cfg.Log.Named("watchdog"),
	})
	if err != nil {
		return errors.Join(err, runtime.Close())
	}
	finder := cfg.finder()
	cfg.Agent.Host = cfg.host()
	cfg.Agent.Store, cfg.Agent.Runtime, cfg.Agent.Cluster = p.store, runtime, cluster
	cfg.Agent.Metrics, cfg.Agent.Logger = nodeagent.NewMetrics(), cfg.Log.Named("agent")
	if err := p.registry.Register(cfg.Agent.Metrics); err != nil {
		return err
	}
	used := usage.NewMetrics()
	used.NoTasks = cfg.NoTaskMetrics
	if err := p.registry.Register(used); err != nil {
		return err
	}
	agent := Agent{
		Usage:  usage.Config{Every: cfg.UsageEvery, Metrics: used, Devices: finder.Use},
		Config: cfg.Agent, NodeTLS: cfg.nodeTLS(), Close: runtime.Close, Health: p.health, Metrics: p.registry,
	}
	way.serve(p.stack, &cfg, &agent)
	if err := agent.Start(p.stack); err != nil {
		return err
	}
	if err := p.awaitAlive(ctx, cfg.Agent.Node); err != nil {
		return err
	}
	cfg.Ready(cluster, way.shown())
	return p.stack.Await(ctx, nil)
}

// join connects to the cluster, and returns its id. If the agent reaches it by a server, it shows its
// certificate there.
func (p *process) join(ctx context.Context, cfg *AgentConfig) (cluster string, err error) {
	if cfg.Join.Server != "" {
		id, err := cfg.Join.identify(ctx, cfg.Agent.Node, cfg.Agent.StateDir, cfg.Progress, cfg.Log.Named("identity"))
		if err != nil {
			return "", err
		}
		if id.has() {
			cfg.Etcd.Token, cfg.Etcd.TLS.GetClientCertificate = "", id.present
			p.stack.Start("identity of the node", id.Run)
		}
		cfg.Join.identity = id
		cfg.Agent.Secrets, cfg.Agent.Login = cfg.Join.secrets(id), cfg.Join.logins(id)
	}
	if err := p.connect(ctx, cfg.Etcd); err != nil {
		return "", err
	}
	return p.cluster(ctx)
}

// nodeTLS returns the authorities to trust for other nodes: those of etcd.
func (c *AgentConfig) nodeTLS() *tls.Config {
	if c.Etcd.TLS == nil {
		return nil
	}
	conf := c.Etcd.TLS.Clone()
	conf.ServerName, conf.GetClientCertificate = "", nil
	return conf
}

// finder makes the finder of the machine's devices.
func (c *AgentConfig) finder() *devices.Finder {
	c.Devices.Log = c.Log.Named("devices")
	finder := devices.New(c.Devices)
	c.Agent.Devices = finder
	return finder
}

// validate returns the errors of the node's configuration before any wait.
func (c AgentConfig) validate() error {
	early := c.Agent
	// These are set later.
	early.Store, early.Runtime, early.Cluster = (*etcdstore.Store)(nil), (*containerd.Runtime)(nil), "later"
	return errors.Join(early.Validate(), usage.ValidateEvery(c.UsageEvery))
}

// fit says what this machine or process lacks for containers.
func fit(driver cgroup.Driver) error {
	if os.Geteuid() != 0 {
		return types.Errorf(types.Precondition, "run an agent: containers take root: run it as root, with sudo for instance")
	}
	facts := cgroup.Look(cgroup.DefaultRoot, cgroup.DefaultRun)
	if _, err := facts.Choose(driver); err != nil {
		return types.Errorf(types.ClassOf(err), "cgroup-driver: %w", err)
	}
	if err := facts.Check(); err != nil {
		return types.Errorf(types.ClassOf(err), "run an agent: %w", err)
	}
	return nil
}

// cluster waits until a server has stored the id of the cluster.
func (p *process) cluster(ctx context.Context) (id string, err error) {
	err = Persist(ctx, p.progress, func() error {
		id, err = identity.ClusterID(ctx, p.store)
		if types.Is(err, types.NotFound) {
			return types.Errorf(types.Unavailable, "%w", err)
		}
		return err
	})
	return id, err
}

// awaitName waits until the session of another agent with the node's name has ended, if there is
// one. Precondition: it does not end.
func (p *process) awaitName(ctx context.Context, node, stateDir string) error {
	own, err := nodeagent.LastLease(stateDir)
	if err != nil {
		return err
	}
	var until time.Time
	for {
		var alive types.Alive
		page, err := p.store.List(ctx, controlplane.ListOptions{Key: controlplane.AliveKey(node)})
		switch {
		case types.Is(err, types.Unavailable):
		case err != nil:
			return err
		case len(page.KVs) == 0 || page.KVs[0].Lease == own:
			return nil
		default:
			if !controlplane.Read(page.KVs[0], &alive) {
				return nil // unreadable: the new agent removes it
			}
		}
		ttl := time.Duration(alive.TTLSeconds) * time.Second
		switch {
		case until.IsZero() && ttl > 0:
			// etcd itself takes a second or two to end a lease.
			until = time.Now().Add(ttl + 3*time.Second)
			p.progress("node %s is alive: waiting up to %s for the session of its last agent to end", node, ttl)
		case !until.IsZero() && time.Now().After(until):
			return types.Errorf(types.Precondition, "run an agent for node %s: another one runs under that name: end that one, or choose another name with --node", node)
		}
		if err := supervise.Pause(ctx, 500*time.Millisecond); err != nil {
			return err
		}
	}
}

// runtime returns the container runtime, with its containerd.
func (p *process) runtime(ctx context.Context, cfg AgentConfig, cluster string) (*containerd.Runtime, error) {
	cfg.Containerd.Logger = cfg.Log.Named("containerd")
	d, err := daemon.Ensure(ctx, cfg.Containerd)
	if err != nil {
		return nil, err
	}
	p.stack.Start("containerd", d.Run)
	// Agents on one machine are separate, whatever containerd they use.
	sum := sha256.Sum256([]byte(cfg.Agent.Node))
	return containerd.New(containerd.Config{
		Address: d.Address(), Namespace: "escher-" + cluster + "-" + hex.EncodeToString(sum[:3]),
		Cluster: cluster, Node: cfg.Agent.Node, Logger: cfg.Logger, CDIDirs: cfg.Devices.CDIDirs, CgroupDriver: cfg.CgroupDriver,
	})
}

// awaitAlive returns when the node is alive, or a component has failed.
func (p *process) awaitAlive(ctx context.Context, node string) error {
	watch, cancel := context.WithCancel(ctx)
	defer cancel()
	alive := make(chan struct{})
	go func() {
		if AwaitAlive(watch, p.store, []string{node}) == nil {
			close(alive)
		}
	}()
	return p.stack.Await(ctx, alive)
}
