package parts

import (
	"context"
	"crypto/rand"
	"errors"
	"net"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/zap"

	"github.com/escher-sched/escher/api/oidc"
	"github.com/escher-sched/escher/api/tunnels"
	"github.com/escher-sched/escher/cmd/escher/internal/howto"
	"github.com/escher-sched/escher/cmd/escher/internal/ops"
	"github.com/escher-sched/escher/cmd/escher/internal/policylog"
	"github.com/escher-sched/escher/controlplane"
	"github.com/escher-sched/escher/controlplane/accounting"
	"github.com/escher-sched/escher/controlplane/etcdstore"
	"github.com/escher-sched/escher/controlplane/identity"
	"github.com/escher-sched/escher/controlplane/server"
	"github.com/escher-sched/escher/esl/collect"
	"github.com/escher-sched/escher/esl/decisions"
	"github.com/escher-sched/escher/nodeagent/serve/nodeapi"
	"github.com/escher-sched/escher/scheduler/search"
	"github.com/escher-sched/escher/types"
)

// ServerConfig says how to run a server with an external etcd.
type ServerConfig struct {
	Etcd etcdstore.Config
	// Name distinguishes it from the other servers of the cluster.
	Name string
	// Version is that of this program.
	Version string
	// Placement says which of the fitting nodes its scheduler takes.
	Placement search.Choice
	// Collect configures how waiting gangs and tasks collect free capacity.
	Collect collect.Config
	// MaxPending is how many tasks may wait before submission is slowed; 0 means the default.
	MaxPending int
	// EtcdQuota is the most bytes in the database of an etcd that does not report it; 0 means that
	// etcd reports it.
	EtcdQuota int64
	// Ops is where metrics and health are served; Pprof adds profiles.
	Ops   string
	Pprof bool
	// API lists the addresses of the HTTP API: see RESTConfig. APICert and APIKey are the files of its
	// certificate.
	API             []string
	APICert, APIKey string
	// OIDC is the issuer at which users log in.
	OIDC oidc.Config
	// APICA is the directory of the authority that signs the certificates of nodes; empty means none.
	APICA string
	// SecretsKey is the file of the keys that seal secrets; empty means none.
	SecretsKey string
	// DataDir is the directory of the history, and History how long records are kept; 0 means no history.
	DataDir string
	History time.Duration

	Log      *zap.Logger
	Progress Progress
	// Ready is called once it works, with the id of the cluster and the address of metrics and
	// health.
	Ready func(cluster, ops string)
}

// RunServer runs a server until ctx is done, and returns nil then. It waits while etcd is
// unreachable.
func RunServer(ctx context.Context, cfg ServerConfig) (err error) {
	if err := cfg.validate(); err != nil {
		return err
	}
	keys, err := secretsKeys(cfg.SecretsKey)
	if err != nil {
		return err
	}
	p := newProcess(ctx, cfg.Log, cfg.Progress)
	defer func() { err = errors.Join(EndedBy(ctx, err), p.stack.Unwind()) }()
	decided, token := decisions.New(time.Now()), rand.Text()
	s, err := ops.New(ops.Config{
		Address: cfg.Ops, Metrics: p.registry, Health: p.health, Policies: policylog.Handler(decided, token), Pprof: cfg.Pprof, Logger: cfg.Log.Named("ops"),
	})
	if err != nil {
		return err
	}
	p.stack.Start("ops", s.Run)
	if err := p.connect(ctx, cfg.Etcd); err != nil {
		return err
	}
	advice, err := server.CheckEtcd(ctx, p.store.Client(), p.store.Limits(), cfg.EtcdQuota)
	if err != nil {
		return err
	}
	for _, line := range advice {
		cfg.Progress("%s", line.Render(howto.Say))
	}
	history, err := NewHistory(p.store, cfg.DataDir, "", cfg.Name, cfg.History, cfg.Log)
	if err != nil {
		return err
	}
	held, err := tunnels.New(tunnels.Config{Store: p.store, Name: cfg.Name, Address: cfg.peer(), Now: time.Now, Log: cfg.Log.Named("tunnels")})
	if err != nil {
		return err
	}
	err = Server{
		Tunnel: held.Dial,
		Store:  p.store, History: history, Name: cfg.Name, Version: cfg.Version, Placement: cfg.Placement, Collect: cfg.Collect, MaxPending: cfg.MaxPending, EtcdQuota: cfg.EtcdQuota,
		Decisions: decided, Address: policylog.Address(s.Addr(), HostTowards(cfg.Etcd.Endpoints)), Token: token, NodeTLS: nodeapi.Trusting(cfg.Etcd.TLS), Log: cfg.Log, Health: p.health, Metrics: p.registry,
	}.Start(p.stack)
	if err != nil {
		return err
	}
	etcd := cfg.Etcd
	etcd.Limits = p.store.Limits()
	err = StartREST(p.stack, RESTConfig{Addresses: cfg.API, Cert: cfg.APICert, Key: cfg.APIKey, CADir: cfg.APICA, OIDC: cfg.OIDC, Store: p.store, Etcd: &etcd, History: history, Secrets: keys, NodeTLS: nodeapi.Trusting(cfg.Etcd.TLS), Tunnels: held, Version: cfg.Version, Log: cfg.Log.Named("api")})
	if err != nil {
		return err
	}
	// A full database takes no new id. The components of the server free it.
	var cluster string
	err = Persist(ctx, cfg.Progress, func() (err error) {
		cluster, err = identity.MakeClusterID(ctx, p.store)
		return err
	})
	if err != nil {
		return err
	}
	cfg.Log.Info("server started", zap.String("scheduler", cfg.Name), zap.String("address", s.Address()))
	cfg.Ready(cluster, s.Address())
	return p.stack.Await(ctx, nil)
}

// validate checks the configuration before the server waits for etcd. Invalid: the error names the flag.
func (cfg ServerConfig) validate() error {
	if err := types.ValidateName("name", cfg.Name); err != nil {
		return err
	}
	if err := cfg.Placement.Validate(); err != nil {
		return err
	}
	if err := cfg.Collect.Validate(); err != nil {
		return err
	}
	if cfg.MaxPending < 0 {
		return types.Errorf(types.Invalid, "max pending: %d is negative: give how many tasks may wait, or 0 for the default", cfg.MaxPending)
	}
	if cfg.History < 0 {
		return types.Errorf(types.Invalid, "history: %s is negative: give how long ended tasks are kept, or 0 to keep no history", cfg.History)
	}
	_, err := oidc.New(cfg.OIDC, time.Now, cfg.Log)
	return err
}

// peer returns host:port at which other servers reach this one: its first address with encryption. It is empty
// if there is none.
func (cfg ServerConfig) peer() string {
	for _, address := range cfg.API {
		hostport, encrypted := strings.CutPrefix(address, "https://")
		host, port, err := net.SplitHostPort(hostport)
		if !encrypted || err != nil {
			continue
		}
		if ip := net.ParseIP(host); host == "" || ip.IsUnspecified() {
			host = hostSeen(cfg.Etcd.Endpoints)
		}
		return net.JoinHostPort(host, port)
	}
	return ""
}

// NewHistory returns the recorder of a server, whose file is below a directory. Without the id of the
// cluster it waits for the one in the store. It keeps records for some time; nil means no history, if
// that is 0. Precondition: the directory cannot be made.
func NewHistory(store controlplane.Store, dir, cluster, name string, keep time.Duration, log *zap.Logger) (*accounting.Recorder, error) {
	if keep == 0 {
		return nil, nil
	}
	r := &accounting.Recorder{Store: store, Cluster: cluster, Dir: dir, Server: name, Keep: keep, Log: log.Named("history")}
	if err := r.MakeDir(); err != nil {
		return nil, types.Errorf(types.Precondition, "data-dir: %w: choose another directory, or keep no history with --history 0", err)
	}
	return r, nil
}

// process is the common part of processes with an external etcd.
type process struct {
	stack    *Stack
	registry *prometheus.Registry
	health   *ops.Health
	store    *etcdstore.Store
	log      *zap.Logger
	progress Progress
}

func newProcess(ctx context.Context, log *zap.Logger, progress Progress) *process {
	health, registry := new(ops.Health), ops.NewRegistry()
	stack := NewStack(ctx, log, health)
	registry.MustRegister(stack.Metrics)
	return &process{stack: stack, registry: registry, health: health, log: log, progress: progress}
}

// connect waits for etcd.
func (p *process) connect(ctx context.Context, cfg etcdstore.Config) error {
	metrics := etcdstore.NewMetrics()
	if err := p.registry.Register(metrics); err != nil {
		return err
	}
	cfg.Options = append(cfg.Options, etcdstore.WithMetrics(metrics))
	store, err := Connect(ctx, cfg, p.progress)
	if err != nil {
		return err
	}
	p.store = store
	p.stack.Start("client", func(ctx context.Context) error {
		<-ctx.Done()
		return store.Close()
	})
	return nil
}

// EndedBy returns nil for an error that says only that ctx is done.
func EndedBy(ctx context.Context, err error) error {
	if ctx.Err() != nil && errors.Is(err, ctx.Err()) {
		return nil
	}
	return err
}
